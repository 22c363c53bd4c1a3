//! The HTTP interface: REST and JSON-RPC for operators and hooks, the stream of member sets for edges, health and metrics.

mod methods;
mod rest;
mod watch;

use crate::controller::Fleet;
use crate::metrics;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tandem_http::{Guard, Limits, Token, rpc};
use tokio::net::TcpListener;

/// Maximum size of a request body, in bytes.
const LARGEST_BODY: usize = 64 << 10;
/// Limits on connections. Those that stream member sets do not count: `max_watchers` bounds them.
pub(crate) const LIMITS: Limits = Limits {
    connections: 128,
    per_peer: 32,
    header_timeout: Duration::from_secs(5),
    lifetime: Some(Duration::from_secs(120)),
};

/// Serves the interface and never returns.
pub(crate) async fn serve(
    fleet: Arc<Fleet>,
    listener: TcpListener,
    hosts: Vec<String>,
    token: Token,
) {
    let guard = Guard {
        hosts,
        token: Some(token),
        open: "/health/",
        ..Guard::new(LARGEST_BODY)
    };
    let counts = Arc::clone(&fleet.http);
    tandem_http::serve(listener, router(fleet), guard, LIMITS, counts).await;
}

fn router(fleet: Arc<Fleet>) -> Router {
    let router = Router::new()
        .route("/", get(index))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/rpc", post(call))
        .route("/v1/members/watch", get(watch::watch));
    rest::add(router)
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(fleet)
}

async fn index() -> &'static str {
    "Tandem, controller of a fleet. GET /health/live /health/ready /metrics /v1/members/watch, POST /rpc (JSON-RPC 2.0); GET /v1/methods lists the methods and their paths\n"
}

async fn unknown() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "unknown path; GET /v1/methods lists the methods and their paths",
    )
}

async fn live() -> Response {
    answer(StatusCode::OK, &json!({ "status": "live" }))
}

/// Ready means that edges get a set. A source that fails is named, but the last set is still good.
async fn ready(State(fleet): State<Arc<Fleet>>) -> Response {
    let trouble = fleet.source_problem();
    if fleet.set().is_none() {
        let reason = trouble.unwrap_or_else(|| "no node is known yet".to_owned());
        let body = json!({ "status": "not ready", "reason": reason });
        return answer(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    match trouble {
        Some(trouble) => answer(
            StatusCode::OK,
            &json!({ "status": "ready", "problems": [trouble] }),
        ),
        None => answer(StatusCode::OK, &json!({ "status": "ready" })),
    }
}

async fn metrics_page(State(fleet): State<Arc<Fleet>>) -> Response {
    let content_type = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (content_type, metrics::page(fleet)).into_response()
}

/// JSON-RPC over HTTP.
async fn call(State(fleet): State<Arc<Fleet>>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_json(&headers) {
        return not_json();
    }
    let call = |method: String, params: Value| {
        let fleet = Arc::clone(&fleet);
        async move { methods::call(&fleet, &method, params).await }
    };
    match rpc::answer(call, &body).await {
        Some(line) => {
            let content_type = [(header::CONTENT_TYPE, "application/json")];
            (content_type, line + "\n").into_response()
        }
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media_type = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    media_type.trim().eq_ignore_ascii_case("application/json")
}

fn not_json() -> Response {
    let fix = "send JSON with Content-Type: application/json (curl --json does)";
    problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, fix)
}

fn problem(status: StatusCode, problem: &str) -> Response {
    answer(status, &json!({ "error": problem }))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (status, content_type, format!("{body}\n")).into_response()
}
