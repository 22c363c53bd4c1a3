//! `GET /events`: events of calls as server-sent events.
use super::json_response;
use crate::calls::events::{EventId, Filter, InvalidEventId};
use crate::control::Control;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use tandem_http::Lifetime;

/// The field in which a reader that connects again sends the last id that it received.
const LAST_EVENT_ID: &str = "last-event-id";

type Pairs = Vec<(String, String)>;

/// Streams events until the reader goes away or is disconnected.
pub(super) async fn stream(
    State(control): State<Arc<Control>>,
    Extension(connection): Extension<Lifetime>,
    query: Result<Query<Pairs>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let (filter, last) = match wanted(query, &headers) {
        Ok(wanted) => wanted,
        Err(problem) => return refused(StatusCode::BAD_REQUEST, &problem),
    };
    let reader = match control.events.attach(connection.clone(), filter, last) {
        Ok(reader) => reader,
        Err(full) => return refused(StatusCode::SERVICE_UNAVAILABLE, &full.to_string()),
    };
    connection.stream();
    let frames = unfold(reader, |mut reader| async move {
        let frame = reader.next().await?;
        Some((Ok::<_, Infallible>(frame), reader))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// What the reader wants, and the last event that it had.
fn wanted(
    query: Result<Query<Pairs>, QueryRejection>,
    headers: &HeaderMap,
) -> Result<(Filter, Option<EventId>), String> {
    let Query(pairs) = query.map_err(|rejection| rejection.body_text())?;
    let filter = Filter::parse(&pairs)?;
    let last = headers.get(LAST_EVENT_ID).map(|id| {
        let id = id.to_str().unwrap_or_default();
        id.parse()
            .map_err(|error: InvalidEventId| error.to_string())
    });
    Ok((filter, last.transpose()?))
}

fn refused(status: StatusCode, problem: &str) -> Response {
    json_response(status, &json!({ "error": problem }))
}
