//! `EndpointSlices` over a small API server that lists and watches as the real one does. `make kubernetes` tests with the real one.
mod common;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use common::{Api, eventually, options, serve};
use futures_util::stream::unfold;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tandem_fleet::Controller;
use tandem_fleet::source::{KubernetesSource, Source};
use tokio::sync::broadcast;

/// What the API server knows.
#[derive(Clone)]
struct Cluster {
    slices: Arc<Mutex<Vec<Value>>>,
    /// Lines to all watches; an empty one ends them.
    events: broadcast::Sender<String>,
    token: Arc<Mutex<String>>,
    /// The targets and bodies of patches.
    patches: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Cluster {
    fn new() -> Self {
        Self {
            slices: Arc::default(),
            events: broadcast::channel(16).0,
            token: Arc::new(Mutex::new("first-token".to_owned())),
            patches: Arc::default(),
        }
    }

    fn set(&self, kind: &str, slice: &Value) {
        let mut slices = self.slices.lock().expect("no panic");
        slices.retain(|it| it["metadata"]["name"] != slice["metadata"]["name"]);
        if kind != "DELETED" {
            slices.push(slice.clone());
        }
        // Without a watch, the next list shows it.
        let _ = self
            .events
            .send(format!("{}\n", json!({ "type": kind, "object": slice })));
    }
}

async fn slices(
    State(cluster): State<Cluster>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let token = format!("Bearer {}", cluster.token.lock().expect("no panic"));
    if headers.get("authorization").is_none_or(|it| it != &token) {
        return (
            StatusCode::UNAUTHORIZED,
            "{\"kind\":\"Status\",\"message\":\"Unauthorized\"}",
        )
            .into_response();
    }
    let query = query.unwrap_or_default();
    assert!(
        query.contains("labelSelector=kubernetes.io%2Fservice-name%3Dtandem"),
        "{query}"
    );
    if !query.contains("watch=1") {
        let items = cluster.slices.lock().expect("no panic").clone();
        return axum::Json(json!({ "metadata": { "resourceVersion": "7" }, "items": items }))
            .into_response();
    }
    assert!(query.contains("resourceVersion=7"), "{query}");
    let lines = unfold(cluster.events.subscribe(), |mut events| async move {
        let line = events.recv().await.ok().filter(|line| !line.is_empty())?;
        Some((Ok::<_, Infallible>(Bytes::from(line)), events))
    });
    Body::from_stream(lines).into_response()
}

async fn patch_pod(
    State(cluster): State<Cluster>,
    Path(pod): Path<String>,
    headers: HeaderMap,
    axum::Json(patch): axum::Json<Value>,
) -> StatusCode {
    let kind = headers.get("content-type").expect("a type");
    assert_eq!(kind, "application/merge-patch+json");
    let mut patches = cluster.patches.lock().expect("no panic");
    patches.push((pod, patch));
    StatusCode::OK
}

fn slice(pods: &[(&str, u8, bool, bool)]) -> Value {
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|(uid, last, ready, terminating)| {
            json!({
                "addresses": [format!("10.244.1.{last}")],
                "conditions": { "ready": ready, "serving": ready, "terminating": terminating },
                "targetRef": { "kind": "Pod", "name": format!("pod-{uid}"), "uid": uid },
            })
        })
        .collect();
    json!({
        "metadata": { "name": "tandem-abc", "resourceVersion": "8" }, "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "sip", "port": 5060, "protocol": "UDP" }, { "name": "sip-tcp", "port": 5060, "protocol": "TCP" }],
    })
}

struct Started {
    cluster: Cluster,
    folder: tempfile::TempDir,
    controller: Controller,
}

async fn start(pods: &[(&str, u8, bool, bool)]) -> Started {
    start_with(&slice(pods), |_| ()).await
}

/// A controller of the pods in a slice, with a source that `change` completes.
async fn start_with(slice: &Value, change: impl FnOnce(&mut KubernetesSource)) -> Started {
    let cluster = Cluster::new();
    cluster.set("ADDED", slice);
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let server = serve(
        Router::new()
            .route(path, get(slices))
            .route("/api/v1/namespaces/default/pods/{pod}", patch(patch_pod))
            .with_state(cluster.clone()),
    )
    .await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("token"), "first-token\n").expect("written");
    let mut source = KubernetesSource {
        server: format!("http://{server}"),
        namespace: "default".to_owned(),
        service: "tandem".to_owned(),
        port_name: "sip".to_owned(),
        admin_port: Some(8060),
        token_file: Some(folder.path().join("token")),
        authority_file: None,
        deletion_costs: None,
    };
    change(&mut source);
    let mut quick = options(Source::Kubernetes(source));
    quick.grace = Duration::from_secs(1);
    let controller = Controller::start(quick).await.expect("started");
    Started {
        cluster,
        folder,
        controller,
    }
}

#[tokio::test]
async fn pods_join_drain_and_leave_by_their_uid() {
    let Started {
        cluster,
        controller,
        folder: _folder,
    } = start(&[("u1", 5, true, false)]).await;
    let api = Api::of(&controller).await;
    api.until("u1=active").await;
    let (_, set) = api.get("/v1/members").await;
    assert_eq!(
        set["nodes"][0],
        json!({
            "instance": "u1", "name": "pod-u1", "address": "10.244.1.5:5060", "state": "active",
            "transports": ["udp", "tcp"], "admin": "10.244.1.5:8060",
        })
    );
    cluster.set(
        "MODIFIED",
        &slice(&[("u1", 5, true, false), ("u2", 6, false, false)]),
    );
    api.until("u1=active u2=draining").await;
    cluster.set(
        "MODIFIED",
        &slice(&[("u1", 5, false, true), ("u2", 6, true, false)]),
    );
    api.until("u1=draining u2=active").await;
    // A crashed pod stays for the grace period, then it is forgotten.
    cluster.set("MODIFIED", &slice(&[("u2", 6, true, false)]));
    api.until("u2=active").await;
    // The same name and address with another UID is another node.
    cluster.set(
        "MODIFIED",
        &slice(&[("u2", 6, true, false), ("u3", 5, true, false)]),
    );
    api.until("u2=active u3=active").await;
}

#[tokio::test]
async fn an_empty_service_keeps_the_last_set_and_says_so() {
    let Started {
        cluster,
        controller,
        folder: _folder,
    } = start(&[("u1", 5, true, false)]).await;
    let api = Api::of(&controller).await;
    let one = slice(&[("u1", 5, true, false)]);
    cluster.set("DELETED", &one);
    let trouble = common::eventually("the problem is shown", || async {
        let (status, ready) = api.get("/health/ready").await;
        assert_eq!(status, 200, "{ready}");
        ready["problems"][0].as_str().map(str::to_owned)
    });
    assert!(trouble.await.contains("no nodes"));
    assert_eq!(api.states().await, "u1=active");
    assert_eq!(api.metric("tandem_fleet_source_up").await, Some(0.0));
    cluster.set("ADDED", &one);
    common::eventually("it is well again", || async {
        (api.metric("tandem_fleet_source_up").await == Some(1.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_watch_that_ends_and_a_token_that_changes_lose_nothing() {
    let Started {
        cluster,
        controller,
        folder,
    } = start(&[("u1", 5, true, false)]).await;
    let api = Api::of(&controller).await;
    api.until("u1=active").await;
    "second-token".clone_into(&mut cluster.token.lock().expect("no panic"));
    std::fs::write(folder.path().join("token"), "wrong-token").expect("written");
    let _ = cluster.events.send(String::new());
    common::eventually("the wrong token is counted", || async {
        api.metric("tandem_fleet_source_errors_total")
            .await
            .filter(|count| *count > 0.0)
    })
    .await;
    assert_eq!(api.states().await, "u1=active");
    cluster.set(
        "MODIFIED",
        &slice(&[("u1", 5, true, false), ("u2", 6, true, false)]),
    );
    std::fs::write(folder.path().join("token"), "second-token").expect("written");
    api.until("u1=active u2=active").await;
    // The server asks for a new list.
    let gone = json!({ "type": "ERROR", "object": { "kind": "Status", "code": 410 } });
    cluster.slices.lock().expect("no panic").clear();
    cluster
        .slices
        .lock()
        .expect("no panic")
        .push(slice(&[("u2", 6, true, false)]));
    let _ = cluster.events.send(format!("{gone}\n"));
    api.until("u2=active").await;
}

#[tokio::test]
async fn the_calls_of_a_pod_are_its_deletion_cost() {
    let calls = Arc::new(AtomicU64::new(3));
    let shown = Arc::clone(&calls);
    let page = move || async move {
        let live = shown.load(Ordering::Relaxed);
        format!("tandem_dialogs{{state=\"confirmed\"}} {live}\ntandem_dialogs_created_total 9\n")
    };
    let node = serve(Router::new().route("/metrics", get(page))).await;
    let mut pods = slice(&[("u1", 5, true, false)]);
    pods["endpoints"][0]["addresses"][0] = json!("127.0.0.1");
    let started = start_with(&pods, |source| {
        source.admin_port = Some(node.port());
        source.deletion_costs = Some(Duration::from_millis(20));
    })
    .await;
    let patches = || started.cluster.patches.lock().expect("no panic").clone();
    let patch = |cost: &str| {
        let annotations = json!({ "controller.kubernetes.io/pod-deletion-cost": cost });
        let patch = json!({ "metadata": { "uid": "u1", "annotations": annotations } });
        ("pod-u1".to_owned(), patch)
    };
    eventually("the cost is written", || async {
        (!patches().is_empty()).then_some(())
    })
    .await;
    calls.store(8, Ordering::Relaxed);
    eventually("the new cost is written", || async {
        (patches().len() > 1).then_some(())
    })
    .await;
    assert_eq!(patches(), [patch("3"), patch("8")]);
}
