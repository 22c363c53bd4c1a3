//! The HTTP interface: health for load balancers, metrics for Prometheus, JSON-RPC for operators. It opens early at startup, and is never
//! on the call path.

mod events;
mod methods;
mod metrics;
mod process;
mod trace;

pub use methods::{METHODS, Method, Param, Params, catalogue};
pub(crate) use metrics::metrics_reference;

use crate::config;
use crate::control::Control;
use crate::metrics::CONTENT_TYPE;
use anyhow::{Context as _, anyhow};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tandem_http::{Guard, Limits, Token, rpc};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

/// Maximum size of a request body, in bytes.
const LARGEST_BODY: usize = 1 << 20;
/// Limits on connections. Each needs at most 32 KiB for the header and 1 MiB for the body.
const LIMITS: Limits = Limits {
    connections: 128,
    per_peer: 16,
    header_timeout: Duration::from_secs(5),
    lifetime: Some(Duration::from_secs(120)),
};

/// The open admin interface; dropping it closes the interface.
#[derive(Debug)]
pub struct Listening {
    address: SocketAddr,
    socket: Option<PathBuf>,
    tasks: Vec<JoinHandle<()>>,
}

impl Listening {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the interface.
    pub fn close(&self) {
        for task in &self.tasks {
            task.abort();
        }
        if let Some(socket) = &self.socket {
            // If this fails, the next start replaces the file.
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens the admin interface on the configured address and socket.
///
/// # Errors
/// Why it could not be opened, and how to fix it.
pub async fn listen(control: &Arc<Control>) -> anyhow::Result<Listening> {
    let config::Admin {
        listen: address,
        hosts,
        token_file,
        socket,
    } = control.configuration.load().admin.clone();
    let refused = |error: std::io::Error| {
        anyhow!(
            "the admin interface cannot listen on {address}: {error}; stop the program that listens there, or change `admin.listen`"
        )
    };
    let token = token_file.map(|file| Token::read(&file.0)).transpose();
    let guard = Guard {
        hosts: hosts.into_iter().map(|host| host.0).collect(),
        token: token.context("`admin.token_file`")?,
        open: "/health/",
        ..Guard::new(LARGEST_BODY)
    };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let socket = socket.map(|socket| socket.0);
    let local = match &socket {
        Some(path) => Some(bind_socket(path)?),
        None => None,
    };
    let counts = &control.counters.admin;
    let serve = |guard| {
        (
            router(Arc::clone(control)),
            guard,
            LIMITS,
            Arc::clone(counts),
        )
    };
    let (router, guard, limits, counted) = serve(guard);
    let mut tasks = vec![tokio::spawn(tandem_http::serve(
        listener, router, guard, limits, counted,
    ))];
    if let Some(listener) = local {
        let guard = Guard {
            local: true,
            ..Guard::new(LARGEST_BODY)
        };
        let (router, guard, limits, counted) = serve(guard);
        tasks.push(tokio::spawn(tandem_http::serve(
            listener, router, guard, limits, counted,
        )));
    }
    Ok(Listening {
        address,
        socket,
        tasks,
    })
}

fn bind_socket(path: &std::path::Path) -> anyhow::Result<UnixListener> {
    tandem_http::bind_unix(path).map_err(|error| {
        anyhow!(
            "the admin interface cannot listen on {}: {error}; remove the existing file, or change `admin.socket`",
            path.display()
        )
    })
}

fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/events", get(events::stream))
        .route("/rpc", post(call))
        .route("/trace", post(trace::trace))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(control)
}

async fn index() -> &'static str {
    "Tandem. GET /health/live /health/ready /metrics /events, POST /rpc (JSON-RPC 2.0; rpc.methods lists the methods), POST /trace (messages as they come)\n"
}

/// Liveness: the process runs and its control plane responds.
async fn live() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "live" }))
}

/// Readiness: traffic may be sent to this server.
async fn ready(State(control): State<Arc<Control>>) -> Response {
    let Some(reason) = control.unready() else {
        return json_response(StatusCode::OK, &ready_body(&control));
    };
    let body = json!({ "status": "not ready", "phase": control.phase().word(), "reason": reason });
    json_response(StatusCode::SERVICE_UNAVAILABLE, &body)
}

/// What does not work is named, but calls work without it, so the server stays ready.
fn ready_body(control: &Control) -> serde_json::Value {
    let problems = control.records.problems();
    if problems.is_empty() {
        return json!({ "status": "ready" });
    }
    json!({ "status": "ready", "problems": problems })
}

async fn metrics_page(State(control): State<Arc<Control>>) -> Response {
    (
        [(header::CONTENT_TYPE, CONTENT_TYPE)],
        metrics::page(control),
    )
        .into_response()
}

/// JSON-RPC over HTTP.
async fn call(State(control): State<Arc<Control>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = check_json(&headers) {
        return refusal;
    }
    let call = |method: String, params| {
        let control = Arc::clone(&control);
        async move { methods::call(&control, &method, params).await }
    };
    match rpc::answer(call, &body).await {
        Some(answer) => json_text(StatusCode::OK, answer),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

/// The content type is required because a web page can send it only after a CORS preflight request.
#[expect(clippy::result_large_err, reason = "the error is the response")]
fn check_json(headers: &HeaderMap) -> Result<(), Response> {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let problem =
        json!({ "error": "send JSON with Content-Type: application/json (curl --json does)" });
    Err(json_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, &problem))
}

fn json_response(status: StatusCode, body: &serde_json::Value) -> Response {
    json_text(status, body.to_string())
}

/// A response with this JSON as a line.
fn json_text(status: StatusCode, line: String) -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (status, content_type, line + "\n").into_response()
}
