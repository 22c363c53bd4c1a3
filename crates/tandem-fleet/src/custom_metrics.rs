//! `custom.metrics.k8s.io`: the load of the nodes for the autoscaler of Kubernetes, over TLS.
//!
//! The API server asks on behalf of the autoscaler. With the authority of its front-proxy certificate, only the API server may ask.

use crate::api::LIMITS;
use crate::controller::Fleet;
use crate::load::{self, NodeLoad};
use crate::tls;
use anyhow::anyhow;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tandem_http::{Counts, Guard};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The API and its version.
const GROUP: &str = "custom.metrics.k8s.io/v1beta2";
/// The metrics, each with its value in thousandths.
const METRICS: [(&str, Milli); 2] = [
    ("tandem_calls_per_second", |load| {
        load.calls_per_second.map(thousandths)
    }),
    ("tandem_live_calls", |load| Some(thousandths(load.dialogs))),
];
/// Handshakes at the same time.
const HANDSHAKES: usize = 32;
/// Time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

type Milli = fn(&NodeLoad) -> Option<u64>;

/// How to serve the metrics.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address and port.
    pub listen: SocketAddr,
    /// The certificate chain in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
    /// The authority of the certificate that clients must show; `None`: clients need none.
    pub client_authority: Option<PathBuf>,
    /// The namespace of the nodes.
    pub namespace: String,
}

/// Opens the listener.
pub(crate) async fn open(options: &Options) -> anyhow::Result<(TlsListener, SocketAddr)> {
    let Options {
        listen,
        certificate,
        key,
        client_authority,
        ..
    } = options;
    let tls = tls::server(certificate, key, client_authority.as_deref())?;
    let refused = |error: io::Error| {
        anyhow!(
            "the custom metrics cannot listen on {listen}: {error}; change `custom_metrics.listen`"
        )
    };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((
        TlsListener::new(listener, TlsAcceptor::from(tls), address),
        address,
    ))
}

/// Serves the metrics and never returns.
pub(crate) async fn serve(fleet: Arc<Fleet>, listener: TlsListener, namespace: String) {
    let served = Served {
        fleet,
        namespace: namespace.into(),
    };
    let router = Router::new()
        .route(&format!("/apis/{GROUP}"), get(resources))
        .route(
            &format!("/apis/{GROUP}/namespaces/{{namespace}}/pods/{{pod}}/{{metric}}"),
            get(values),
        )
        .with_state(served);
    // The certificate of the client stands for what the guard would check.
    let guard = Guard {
        local: true,
        ..Guard::new(4_096)
    };
    tandem_http::serve(listener, router, guard, LIMITS, Arc::new(Counts::default())).await;
}

#[derive(Clone)]
struct Served {
    fleet: Arc<Fleet>,
    namespace: Arc<str>,
}

async fn resources() -> Json<Value> {
    let resource = |(name, _): &(&str, Milli)| {
        json!({
            "name": format!("pods/{name}"), "singularName": "", "namespaced": true,
            "kind": "MetricValueList", "verbs": ["get"],
        })
    };
    let resources: Vec<Value> = METRICS.iter().map(resource).collect();
    Json(
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": resources }),
    )
}

/// The metric of one pod, or of all (`*`). Only active nodes count: one that drains needs no help. All nodes of the fleet belong to one
/// workload, so the label selector of the autoscaler would choose the same pods.
async fn values(
    State(served): State<Served>,
    Path((namespace, pod, metric)): Path<(String, String, String)>,
) -> Response {
    let Some((name, milli)) = METRICS.iter().find(|(name, _)| *name == metric) else {
        let message = format!("unknown metric {metric}");
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": message });
        return (StatusCode::NOT_FOUND, Json(status)).into_response();
    };
    let mut items = Vec::new();
    if *namespace == *served.namespace {
        let timestamp = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        for (node, load) in load::of_active_nodes(&served.fleet).await {
            let is_wanted = pod == "*" || pod == node.name;
            if let Some(value) = milli(&load).filter(|_| is_wanted) {
                items.push(json!({
                    "describedObject": { "kind": "Pod", "apiVersion": "v1", "namespace": namespace, "name": node.name },
                    "metric": { "name": name },
                    "timestamp": timestamp, "windowSeconds": load.window.as_secs(), "value": format!("{value}m"),
                }));
            }
        }
    }
    let list =
        json!({ "kind": "MetricValueList", "apiVersion": GROUP, "metadata": {}, "items": items });
    ([(header::CACHE_CONTROL, "no-store")], Json(list)).into_response()
}

#[expect(clippy::cast_sign_loss, reason = "a load is not negative")]
fn thousandths(value: f64) -> u64 {
    (value.max(0.0) * 1_000.0).round() as u64
}

/// Accepts TLS connections. A slow handshake delays no other one.
#[derive(Debug)]
pub(crate) struct TlsListener {
    done: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl TlsListener {
    fn new(listener: TcpListener, acceptor: TlsAcceptor, address: SocketAddr) -> Self {
        let (sender, done) = mpsc::channel(HANDSHAKES);
        Self {
            done,
            address,
            accepting: tokio::spawn(accept(listener, acceptor, sender)),
        }
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    mut listener: TcpListener,
    acceptor: TlsAcceptor,
    done: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        // This `accept` waits after errors such as a lack of descriptors.
        let (stream, peer) = axum::serve::Listener::accept(&mut listener).await;
        let (acceptor, done) = (acceptor.clone(), done.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
                // If nobody receives it, the server stops.
                let _ = done.send((stream, peer)).await;
            }
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.done.recv().await {
            Some(accepted) => accepted,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
