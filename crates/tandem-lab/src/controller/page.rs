//! The page of `console/`, if it was built before this program.

use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{EmbeddedFile, RustEmbed};

/// The files that npm has built.
#[derive(RustEmbed)]
#[folder = "../../console/dist"]
struct Page;

/// Allows only our own scripts, and no embedding in pages of other origins.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

const MISSING: &str = include_str!("missing.html");

/// A file of the page, or instructions if the page was not built.
pub(super) async fn serve(uri: Uri) -> Response {
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    match (Page::get(path), path) {
        (Some(file), _) => found(path, file),
        (None, "index.html") => (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
            MISSING,
        )
            .into_response(),
        _ => (StatusCode::NOT_FOUND, format!("{path}: no such page\n")).into_response(),
    }
}

/// Whether the page is included in this program.
pub(super) fn is_there() -> bool {
    Page::get("index.html").is_some()
}

fn found(path: &str, file: EmbeddedFile) -> Response {
    // Names of assets change with their content.
    let lifetime = if path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    let headers = [
        (header::CONTENT_TYPE, file.metadata.mimetype().to_owned()),
        (header::CACHE_CONTROL, lifetime.to_owned()),
        (header::CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, file.data).into_response()
}
