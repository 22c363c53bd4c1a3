//! `GET /v1/members/watch`: the member set as a line of JSON, now and at each change, and an empty line while nothing changes.

use super::problem;
use crate::controller::{Fleet, Published, count};
use axum::body::{Body, Bytes};
use axum::extract::{Extension, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tandem_http::Lifetime;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::timeout;

/// Longest silence. An edge that hears nothing for several of these connects again.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Streams the set until the edge goes away or is dropped.
pub(super) async fn watch(
    State(fleet): State<Arc<Fleet>>,
    Extension(connection): Extension<Lifetime>,
) -> Response {
    let Ok(place) = Arc::clone(&fleet.watchers).try_acquire_owned() else {
        count(&fleet.counters.watchers_refused);
        let most = fleet.max_watchers;
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("{most} edges follow the member set already: raise `api.max_watchers`"),
        );
    };
    connection.stream();
    // One line waits for the connection, another one here. Sets in between are skipped, because only the last one counts.
    let (lines, waiting) = mpsc::channel(1);
    tokio::spawn(feed(fleet, lines, connection, place));
    let frames = unfold(waiting, |mut waiting| async move {
        let line: Bytes = waiting.recv().await?;
        Some((Ok::<_, Infallible>(line), waiting))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

/// Sends lines for as long as the edge reads them. The place is free when this ends.
async fn feed(
    fleet: Arc<Fleet>,
    lines: mpsc::Sender<Bytes>,
    connection: Lifetime,
    _place: OwnedSemaphorePermit,
) {
    let mut published = fleet.published.subscribe();
    let mut line = current(&mut published);
    loop {
        match timeout(fleet.watcher_timeout, lines.send(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                count(&fleet.counters.watchers_dropped);
                connection.end_in(Duration::ZERO);
                return;
            }
        }
        line = match timeout(KEEP_ALIVE, published.changed()).await {
            Ok(Ok(())) => current(&mut published),
            Ok(Err(_)) => return,
            Err(_) => Bytes::from_static(b"\n"),
        };
    }
}

/// The line of the last set; an empty one as long as there is none.
fn current(published: &mut watch::Receiver<Option<Arc<Published>>>) -> Bytes {
    let published = published.borrow_and_update();
    let line = published.as_ref().map(|published| published.line.clone());
    line.unwrap_or(Bytes::from_static(b"\n"))
}
