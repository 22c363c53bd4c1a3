//! The HTTP interface: health for whoever sends traffic, metrics for Prometheus, JSON-RPC for operators. It lives from the very start, and
//! nothing it does is on the way of a call.

mod connection_metrics;
pub(crate) mod exposition;
mod methods;
mod metrics;
mod process;
mod rpc;
mod totals;

pub use methods::{METHODS, Method, Param};
pub use metrics::exposition;

use crate::serve::{Control, Phase};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::error;

/// Largest request that is read, in bytes.
const LARGEST_BODY: usize = 1 << 20;
/// What Prometheus' text format calls itself.
pub(crate) const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The open admin interface; it closes when this goes.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Listening {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes it.
    pub fn close(&self) {
        self.task.abort();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens the admin interface where the configuration says.
///
/// # Errors
/// Why not, and what to do about it.
pub async fn listen(control: &Arc<Control>) -> Result<Listening, String> {
    let address = control.configuration.load().admin.listen;
    let refused = |error: std::io::Error| {
        format!(
            "the admin interface cannot listen on {address}: {error}; stop what listens there, or change `admin.listen`"
        )
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let router = router(Arc::clone(control));
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            error!(%error, "the admin interface ended");
        }
    });
    Ok(Listening { address, task })
}

fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/rpc", post(call))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(control)
}

async fn index() -> &'static str {
    "Tandem. GET /health/live /health/ready /metrics, POST /rpc (JSON-RPC 2.0; the method rpc.methods lists what there is)\n"
}

/// Whether the process runs and its control plane answers.
async fn live() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "live" }))
}

/// Whether traffic may be sent here.
async fn ready(State(control): State<Arc<Control>>) -> Response {
    let reason = match control.phase() {
        Phase::Ready => return json_response(StatusCode::OK, &json!({ "status": "ready" })),
        Phase::Starting => {
            "the server is starting: database, caches and registrations are being read"
        }
        Phase::Draining => "the server is draining: it takes no new calls",
        Phase::Stopping => "the server is stopping",
    };
    let body = json!({ "status": "not ready", "phase": control.phase().word(), "reason": reason });
    json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
}

async fn metrics_page(State(control): State<Arc<Control>>) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], exposition(&control)).into_response()
}

/// JSON-RPC over HTTP. The content type is asked for because no web page can send it without being asked whether it may.
async fn call(State(control): State<Arc<Control>>, headers: HeaderMap, body: Bytes) -> Response {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let problem = json!({ "error": "send JSON-RPC 2.0 with Content-Type: application/json (curl --json does)" });
        return json_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, &problem);
    }
    match rpc::answer(&control, &body).await {
        Some(answer) => json_response(StatusCode::OK, &answer),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string() + "\n",
    )
        .into_response()
}
