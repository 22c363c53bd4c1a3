//! One interface to all nodes: registrations, histograms, the metrics for autoscalers. Small HTTP servers stand for the nodes; the tests of
//! `tandem control` have real ones.
mod common;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use common::{Api, TOKEN, any_port, eventually, node, options, serve};
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_fleet::client::Client;
use tandem_fleet::members::{Member, MemberState};
use tandem_fleet::source::Source;
use tandem_fleet::{Controller, custom_metrics};

/// A node with these addresses of record, and the address of its admin interface.
async fn fake(addresses: &'static [&'static str]) -> SocketAddr {
    let created = Arc::new(AtomicU64::new(0));
    let allowed = |headers: &HeaderMap| {
        headers
            .get("authorization")
            .is_some_and(|it| it == &format!("Bearer {TOKEN}"))
    };
    let list = move |headers: HeaderMap, body: String| async move {
        if !allowed(&headers) {
            return (StatusCode::UNAUTHORIZED, String::new());
        }
        let call: Value = serde_json::from_str(&body).expect("JSON");
        let (after, limit) = (
            call["params"]["after"].as_str().unwrap_or_default(),
            call["params"]["limit"].as_u64().unwrap_or(100),
        );
        let page: Vec<&str> = addresses
            .iter()
            .copied()
            .filter(|it| *it > after)
            .take(usize::try_from(limit).expect("small"))
            .collect();
        let more = page
            .last()
            .filter(|last| addresses.iter().any(|it| it > *last));
        let shown: Vec<Value> = page.iter().map(|it| json!({ "address": it, "bindings": [{ "contact": format!("sip:{it}"), "call_id": "c", "cseq": 1 }] })).collect();
        (
            StatusCode::OK,
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "addresses": shown, "next": more } })
                .to_string(),
        )
    };
    let metrics = move || async move {
        let calls = created.fetch_add(100, Ordering::Relaxed);
        format!(
            "# TYPE tandem_request_duration_seconds histogram\ntandem_request_duration_seconds_sum{{method=\"INVITE\"}} 1\n\
             tandem_request_duration_seconds_count{{method=\"INVITE\"}} 4\ntandem_request_duration_seconds_bucket{{le=\"0.5\",method=\"INVITE\"}} 3\n\
             tandem_request_duration_seconds_bucket{{le=\"+Inf\",method=\"INVITE\"}} 4\ntandem_dialogs{{state=\"confirmed\"}} 7\ntandem_dialogs_created_total {calls}\n"
        )
    };
    serve(
        Router::new()
            .route("/rpc", post(list))
            .route("/metrics", get(metrics)),
    )
    .await
}

fn member(instance: &str, port: u16, admin: Option<SocketAddr>) -> Member {
    Member {
        admin,
        ..node(instance, port)
    }
}

#[tokio::test]
async fn registrations_of_all_nodes_are_listed_page_by_page() {
    let source = Source::Static(vec![
        member("a", 5060, Some(fake(&["u1@x", "u3@x", "u5@x"]).await)),
        member("b", 5061, Some(fake(&["u2@x", "u3@x", "u4@x"]).await)),
    ]);
    let controller = Controller::start(options(source)).await.expect("started");
    let api = Api::of(&controller).await;
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let (status, page) = api
            .get(&format!("/v1/registrations?limit=2&after={after}"))
            .await;
        assert_eq!((status, &page["answered"]), (200, &json!(2)), "{page}");
        for address in page["addresses"].as_array().expect("a list") {
            all.push(format!(
                "{} {}",
                address["address"].as_str().unwrap_or_default(),
                address["bindings"][0]["nodes"]
            ));
        }
        match page["next"].as_str() {
            Some(next) => next.clone_into(&mut after),
            None => break,
        }
    }
    assert_eq!(
        all,
        [
            r#"u1@x ["name-a"]"#,
            r#"u2@x ["name-b"]"#,
            r#"u3@x ["name-a","name-b"]"#,
            r#"u4@x ["name-b"]"#,
            r#"u5@x ["name-a"]"#,
        ]
    );
}

#[tokio::test]
async fn nodes_that_do_not_answer_are_named() {
    let closed = tokio::net::TcpListener::bind(any_port())
        .await
        .expect("bound")
        .local_addr()
        .expect("bound");
    let source = Source::Static(vec![
        member("a", 5060, Some(fake(&["u1@x"]).await)),
        member("b", 5061, Some(closed)),
        member("c", 5062, None),
    ]);
    let controller = Controller::start(options(source)).await.expect("started");
    let api = Api::of(&controller).await;
    for path in ["/v1/registrations", "/v1/histograms"] {
        let (status, page) = api.get(path).await;
        assert_eq!((status, &page["answered"]), (200, &json!(1)), "{page}");
        let errors = page["unanswered"].to_string();
        assert!(
            errors.contains("refused") && errors.contains("its admin interface is unknown"),
            "{errors}"
        );
    }
    assert_eq!(
        api.metric("tandem_fleet_node_errors_total").await,
        Some(4.0)
    );
    let mut forbidden = options(Source::Static(vec![member(
        "a",
        5060,
        Some(fake(&[]).await),
    )]));
    forbidden.nodes.token = None;
    let controller = Controller::start(forbidden).await.expect("started");
    let (status, answer) = Api::of(&controller).await.get("/v1/registrations").await;
    assert!(
        status == 503
            && answer["error"]
                .as_str()
                .is_some_and(|it| it.contains("401")),
        "{answer}"
    );
}

#[tokio::test]
async fn histograms_of_all_nodes_are_summed() {
    let source = Source::Static(vec![
        member("a", 5060, Some(fake(&[]).await)),
        member("b", 5061, Some(fake(&[]).await)),
    ]);
    let controller = Controller::start(options(source)).await.expect("started");
    let api = Api::of(&controller).await;
    let (status, shown) = api
        .get("/v1/histograms?name=tandem_request_duration_seconds")
        .await;
    assert_eq!((status, &shown["answered"]), (200, &json!(2)));
    let histogram = &shown["histograms"][0];
    assert_eq!(
        histogram["buckets"],
        json!([{ "le": 0.5, "count": 6.0 }, { "le": "+Inf", "count": 8.0 }])
    );
    assert_eq!(
        (&histogram["count"], &histogram["p50"], &histogram["p99"]),
        (&json!(8.0), &json!(0.5), &json!(null))
    );
}

/// A certificate for 127.0.0.1 and its key, as files.
fn certificate(folder: &std::path::Path, name: &str) -> (std::path::PathBuf, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("made");
    let (chain, key) = (
        folder.join(format!("{name}.pem")),
        folder.join(format!("{name}.key")),
    );
    std::fs::write(&chain, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    (chain, key)
}

fn tls(
    authority: &std::path::Path,
    own: Option<&(std::path::PathBuf, std::path::PathBuf)>,
) -> Arc<rustls::ClientConfig> {
    let read =
        |file| rustls::pki_types::CertificateDer::from_pem_file(file).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(read(authority)).expect("an authority");
    let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let key = rustls::pki_types::PrivateKeyDer::from_pem_file(key).expect("a key");
            builder
                .with_client_auth_cert(vec![read(chain)], key)
                .expect("they fit")
        }
    })
}

#[tokio::test]
async fn an_autoscaler_reads_the_load_of_active_pods_with_its_certificate_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let (chain, key) = certificate(folder.path(), "server");
    let client = certificate(folder.path(), "client");
    let draining = Member {
        state: MemberState::Draining,
        ..member("b", 5061, Some(fake(&[]).await))
    };
    let mut with_metrics = options(Source::Static(vec![
        member("a", 5060, Some(fake(&[]).await)),
        draining,
    ]));
    with_metrics.custom_metrics = Some(custom_metrics::Options {
        listen: any_port(),
        certificate: chain.clone(),
        key,
        client_authority: Some(client.0.clone()),
        namespace: "default".to_owned(),
    });
    let controller = Controller::start(with_metrics).await.expect("started");
    Api::of(&controller).await;
    let address = controller.custom_metrics_address().expect("open");
    let url = format!("https://{address}");
    let api = Client::new(&url, tls(&chain, Some(&client)), None, common::PATIENCE).expect("a URL");
    let get = async |path: &str| -> Value {
        let target = format!("/apis/custom.metrics.k8s.io/v1beta2{path}");
        let body = api.text(&target, 1 << 20).await.expect("answered");
        serde_json::from_slice(&body).expect("JSON")
    };
    let list = get("").await;
    assert_eq!(list["resources"][0]["name"], "pods/tandem_calls_per_second");
    let live =
        get("/namespaces/default/pods/%2A/tandem_live_calls?labelSelector=app%3Dtandem").await;
    assert_eq!(live["items"].as_array().map(Vec::len), Some(1), "{live}");
    assert_eq!(live["items"][0]["describedObject"]["name"], "name-a");
    assert_eq!(live["items"][0]["value"], "7000m");
    assert_eq!(
        get("/namespaces/other/pods/*/tandem_live_calls").await["items"],
        json!([])
    );
    // The rate needs a second answer, at least five seconds after the first.
    let rate = eventually("a rate", || async {
        let rate = get("/namespaces/default/pods/*/tandem_calls_per_second").await;
        rate["items"][0]["value"].as_str().map(str::to_owned)
    });
    assert!(rate.await.ends_with('m'));
    let stranger = Client::new(&url, tls(&chain, None), None, common::PATIENCE).expect("a URL");
    assert!(
        stranger
            .text("/apis/custom.metrics.k8s.io/v1beta2", 1 << 20)
            .await
            .is_err(),
        "no certificate"
    );
}
