//! The HTTP interface: the page, its API, and the endpoint for agents.

use super::protocol::LARGEST_MESSAGE;
use super::view::View;
use super::{Controller, connection, page};
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{self, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use futures_util::Stream;
use serde::Deserialize;
use serde_json::json;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Largest scenario that can be uploaded, in bytes.
pub(super) const LARGEST_SCENARIO: usize = 64 << 20;
/// Interval of updates to open pages.
const SHOWING: Duration = Duration::from_millis(500);
/// Longest ringing or talking time, in milliseconds: an hour.
const LONGEST: u64 = 3_600_000;

type Shared = State<Arc<Controller>>;

/// All routes.
pub(super) fn router(controller: Arc<Controller>) -> Router {
    Router::new()
        .route("/agent", get(agent))
        .route("/state", get(state))
        .route("/state/stream", get(stream))
        .route("/report", get(report))
        .route("/scenarios", get(scenarios))
        .route(
            "/scenarios/{name}",
            put(upload).layer(DefaultBodyLimit::max(LARGEST_SCENARIO)),
        )
        .route("/register", post(register))
        .route("/start", post(start))
        .route("/stop", post(stop))
        .fallback(get(page::serve))
        .with_state(controller)
}

/// An error response.
struct Problem(StatusCode, Vec<String>);

impl Problem {
    fn conflict(reason: String) -> Self {
        Self(StatusCode::CONFLICT, vec![reason])
    }

    fn broken() -> Self {
        Self(
            StatusCode::INTERNAL_SERVER_ERROR,
            vec!["internal error: see the controller's output".into()],
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "errors": self.1 }))).into_response()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Register {
    scenario: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Start {
    scenario: String,
    ringing_ms: Option<u64>,
    talking_ms: Option<u64>,
}

async fn agent(
    State(controller): Shared,
    ConnectInfo(address): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    // Only browsers send Origin, and no page is an agent.
    if headers.contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "agents connect here, not pages\n").into_response();
    }
    upgrade
        .max_message_size(LARGEST_MESSAGE)
        .max_frame_size(LARGEST_MESSAGE)
        .on_upgrade(move |socket| connection::serve(controller, socket, address))
}

async fn state(State(controller): Shared) -> Json<View> {
    Json(View::new(&controller, (0, 0)))
}

/// A stream of states, each with the new points of the run.
async fn stream(State(controller): Shared) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&controller.pages).try_acquire_owned() else {
        let reason = "too many pages are open: close one and reload".into();
        return Err(Problem(StatusCode::SERVICE_UNAVAILABLE, vec![reason]));
    };
    Ok(Sse::new(views(controller, permit)).into_response())
}

fn views(
    controller: Arc<Controller>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    futures_util::stream::unfold((None, permit), move |(seen, permit)| {
        let controller = Arc::clone(&controller);
        async move {
            if seen.is_some() {
                sleep(SHOWING).await;
            }
            let view = View::new(&controller, seen.unwrap_or_default());
            let event = sse::Event::default().data(json!(view).to_string());
            Some((Ok(event), (Some(view.seen()), permit)))
        }
    })
}

/// The last run, with all its seconds.
async fn report(State(controller): Shared) -> Result<Response, Problem> {
    let drafted = {
        let state = controller.state();
        let run = state.run.as_ref();
        run.map(|run| (run.draft(Instant::now()), run.timeline().points(0).to_vec()))
    };
    let Some((draft, points)) = drafted else {
        let reason = "no run has been started yet".into();
        return Err(Problem(StatusCode::NOT_FOUND, vec![reason]));
    };
    let mut report = json!(draft.finish());
    report["timeline"] = json!(points);
    Ok(Json(report).into_response())
}

async fn scenarios(State(controller): Shared) -> Result<Response, Problem> {
    let list = spawn_blocking(move || controller.scenarios.list()).await;
    let list = list.map_err(|_| Problem::broken())?;
    let list = list.map_err(|reason| Problem(StatusCode::INTERNAL_SERVER_ERROR, vec![reason]))?;
    Ok(Json(list).into_response())
}

async fn upload(
    State(controller): Shared,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let put = spawn_blocking(move || controller.scenarios.put(&name, &body)).await;
    let entry = put.map_err(|_| Problem::broken())?;
    let entry = entry.map_err(|reasons| Problem(StatusCode::UNPROCESSABLE_ENTITY, reasons))?;
    Ok(Json(entry).into_response())
}

async fn register(
    State(controller): Shared,
    Json(Register { scenario }): Json<Register>,
) -> Result<Response, Problem> {
    let name = scenario.clone();
    let of = Arc::clone(&controller);
    let calls = spawn_blocking(move || of.scenarios.calls(&name)).await;
    let calls = calls.map_err(|_| Problem::broken())?;
    let calls = calls.map_err(|reasons| Problem(StatusCode::UNPROCESSABLE_ENTITY, reasons))?;
    let options = &controller.options;
    let registered = controller.state().register(
        &scenario,
        &calls,
        options.division,
        options.registrations_per_second,
    );
    registered.map_err(Problem::conflict)?;
    Ok(Json(json!({ "scenario": scenario })).into_response())
}

async fn start(State(controller): Shared, Json(start): Json<Start>) -> Result<Response, Problem> {
    let options = &controller.options;
    let ringing = start
        .ringing_ms
        .map_or(options.ringing, Duration::from_millis);
    let talking = start
        .talking_ms
        .map_or(options.talking, Duration::from_millis);
    for (what, time) in [("ringing_ms", ringing), ("talking_ms", talking)] {
        if time > Duration::from_millis(LONGEST) {
            let reason = format!("{what} {}: at most {LONGEST} (an hour)", time.as_millis());
            return Err(Problem(StatusCode::UNPROCESSABLE_ENTITY, vec![reason]));
        }
    }
    let run = controller
        .start(&start.scenario, ringing, talking)
        .map_err(Problem::conflict)?;
    Ok(Json(json!({ "run": run })).into_response())
}

/// Requires a body, `{}`: a page of another origin cannot send JSON without a CORS preflight.
async fn stop(
    State(controller): Shared,
    Json(_): Json<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    controller.state().stop().map_err(Problem::conflict)?;
    Ok(Json(json!({})).into_response())
}
