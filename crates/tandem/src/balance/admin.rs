//! The HTTP interface of an edge: health, metrics, and its nodes.
use super::metrics::{self, Figures};
use crate::config::Admin;
use crate::metrics::CONTENT_TYPE;
use anyhow::{Context as _, anyhow};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::NodeState;
use tandem_http::{Counts, Guard, Limits, Token};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Requests have no body.
const LARGEST_BODY: usize = 1_024;
const LIMITS: Limits = Limits {
    connections: 64,
    per_peer: 16,
    header_timeout: Duration::from_secs(5),
    lifetime: Some(Duration::from_secs(120)),
};

/// The open interface; dropping it closes the interface.
#[derive(Debug)]
pub(super) struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Listening {
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn close(&self) {
        self.task.abort();
    }
}

/// Opens the interface.
///
/// # Errors
/// Why it could not be opened, and how to fix it.
pub(super) async fn listen(admin: &Admin, figures: Arc<Figures>) -> anyhow::Result<Listening> {
    let refused = |error: std::io::Error| {
        anyhow!(
            "the admin interface cannot listen on {}: {error}; stop the program that listens there, or change `admin.listen`",
            admin.listen
        )
    };
    let token = admin.token_file.as_ref();
    let token = token.map(|file| Token::read(&file.0)).transpose();
    let guard = Guard {
        hosts: admin.hosts.iter().map(|host| host.0.clone()).collect(),
        token: token.context("`admin.token_file`")?,
        open: "/health/",
        ..Guard::new(LARGEST_BODY)
    };
    let listener = TcpListener::bind(admin.listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let router = Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics_page))
        .route("/v1/nodes", get(nodes))
        .with_state(figures);
    let serve = tandem_http::serve(listener, router, guard, LIMITS, Arc::<Counts>::default());
    let task = tokio::spawn(serve);
    Ok(Listening { address, task })
}

async fn live() -> Json<Value> {
    Json(json!({ "status": "live" }))
}

/// Ready: at least one node takes new calls.
async fn ready(State(figures): State<Arc<Figures>>) -> Response {
    let members = figures.nodes.members();
    let takes_calls = members
        .iter()
        .any(|(member, health)| !member.is_draining && health.state() == NodeState::Alive);
    if takes_calls {
        return Json(json!({ "status": "ready" })).into_response();
    }
    let body = json!({ "status": "not ready", "reason": "no node answers" });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

async fn metrics_page(State(figures): State<Arc<Figures>>) -> Response {
    let page = metrics::page(figures);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page).into_response()
}

async fn nodes(State(figures): State<Arc<Figures>>) -> Json<Value> {
    let members = figures.nodes.members();
    let node = |(member, health): (&tandem_balancer::Member, &tandem_balancer::Health)| {
        json!({
            "instance": member.identity,
            "id": format!("{:08x}", member.number),
            "address": member.address,
            "draining": member.is_draining,
            "state": health.state().label(),
            "requests": health.requests(),
            "requests_by_hash": health.unhinted(),
        })
    };
    let nodes: Vec<Value> = members.iter().map(node).collect();
    Json(json!({ "nodes": nodes }))
}
