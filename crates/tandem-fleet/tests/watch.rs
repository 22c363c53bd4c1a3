//! The stream of member sets to edges.
mod common;

use common::{Api, PATIENCE, TOKEN, eventually, fixed, node, options};
use serde_json::json;
use std::time::{Duration, Instant};
use tandem_fleet::Controller;
use tandem_fleet::members::MemberSet;
use tandem_fleet::source::Source;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn set(line: &str) -> MemberSet {
    MemberSet::parse(line.as_bytes()).expect(line)
}

#[tokio::test]
async fn an_edge_gets_the_set_now_at_each_change_and_a_sign_of_life() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    let mut edge = api.watch().await;
    let first = set(&edge.line().await.expect("the set"));
    assert_eq!((first.generation(), first.nodes().len()), (1, 2));
    api.post("/v1/nodes/a/drain", &json!(null)).await;
    let second = set(&edge.line().await.expect("the change"));
    assert!(second.supersedes(&first) && !first.supersedes(&second));
    let begun = Instant::now();
    assert_eq!(edge.line().await.as_deref(), Some(""));
    assert!(begun.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn a_change_reaches_an_edge_at_once() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    let mut edge = api.watch().await;
    edge.line().await.expect("the set");
    let begun = Instant::now();
    for order in ["drain", "enable"].repeat(10) {
        api.post(&format!("/v1/nodes/a/{order}"), &json!(null))
            .await;
        edge.line().await.expect("the change");
    }
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "20 changes took {:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn the_number_of_edges_is_bounded_and_places_become_free() {
    let mut bounded = options(fixed(&["a"]));
    bounded.max_watchers = 2;
    let controller = Controller::start(bounded).await.expect("started");
    let api = Api::of(&controller).await;
    let (mut first, second) = (api.watch().await, api.watch().await);
    first.line().await.expect("the set");
    let (status, answer) = api.get("/v1/members/watch").await;
    assert!(
        status == 503
            && answer["error"]
                .as_str()
                .is_some_and(|it| it.contains("max_watchers")),
        "{answer}"
    );
    assert_eq!(
        api.metric("tandem_fleet_watchers_refused_total").await,
        Some(1.0)
    );
    drop(second);
    eventually("a place is free", || async {
        (api.metric("tandem_fleet_watchers").await == Some(1.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_edge_that_does_not_read_is_dropped() {
    let nodes = (1..=1_000).map(|port| node(&format!("instance-{port}"), port));
    let mut impatient = options(Source::Static(nodes.collect()));
    impatient.watcher_timeout = Duration::from_millis(300);
    let controller = Controller::start(impatient).await.expect("started");
    let api = Api::of(&controller).await;
    let mut edge = TcpStream::connect(api.0).await.expect("connected");
    let request = format!(
        "GET /v1/members/watch HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    );
    edge.write_all(request.as_bytes()).await.expect("sent");
    let mut orders = ["drain", "enable"].iter().cycle();
    eventually("the edge is dropped", || {
        let order = orders.next().copied().unwrap_or_default();
        let api = &api;
        async move {
            api.post(&format!("/v1/nodes/instance-7/{order}"), &json!(null))
                .await;
            (api.metric("tandem_fleet_watchers_dropped_total").await == Some(1.0)).then_some(())
        }
    })
    .await;
    assert_eq!(api.metric("tandem_fleet_watchers").await, Some(0.0));
    // Its connection is closed, and others are served.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, edge.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection stays open");
    api.watch().await.line().await.expect("the set");
}

#[tokio::test]
async fn a_controller_that_starts_again_is_believed_by_its_edges() {
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let api = Api::of(&controller).await;
    for order in ["drain", "enable", "drain"] {
        api.post(&format!("/v1/nodes/a/{order}"), &json!(null))
            .await;
    }
    let mut edge = api.watch().await;
    let had = set(&edge.line().await.expect("the set"));
    assert_eq!(had.generation(), 4);
    drop(controller);
    let controller = Controller::start(options(fixed(&["a", "b"])))
        .await
        .expect("started");
    let mut edge = Api::of(&controller).await.watch().await;
    let next = set(&edge.line().await.expect("the set"));
    assert_eq!(next.generation(), 1);
    assert!(next.supersedes(&had));
}
