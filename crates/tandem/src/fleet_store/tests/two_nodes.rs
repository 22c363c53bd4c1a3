//! Two nodes and a store that works.
use super::nodes::{Kind, Node};
use super::store::Store;
use crate::fleet_store::Ignored;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_registration_and_its_removal_reach_the_other_node() {
    let store = Store::start().await;
    let a = Node::start("a", Kind::default(), &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    a.register("alice", 1);
    b.until_found("alice", &[1]).await;
    b.register("alice", 2);
    a.until_found("alice", &[2]).await;
    a.remove("alice");
    b.until_found("alice", &[]).await;
    assert_eq!(a.fleet.locations().stats().live, 0);
    b.register("alice", 3);
    a.until_found("alice", &[3]).await;
    a.until("its changes came back", |a| {
        a.counters().round_trip.sum() > 0.0
    })
    .await;
}

#[tokio::test]
async fn a_new_node_has_all_bindings_before_it_is_ready() {
    let store = Store::start().await;
    let a = Node::start("a", Kind::default(), &store).await;
    for number in 0..3_000 {
        a.register(&format!("user{number}"), 1);
    }
    a.register("removed", 1);
    a.until("all are saved", |a| a.fleet.outbox.is_empty())
        .await;
    a.remove("removed");
    let everything = a.everything();
    a.finish().await;
    let b = Node::alone("b", Kind::default());
    assert_eq!(b.new_link(&store).load().await.expect("loads"), 3_000);
    assert_eq!(b.everything(), everything);
}

#[tokio::test]
async fn the_last_register_wins_even_at_a_node_whose_clock_is_a_minute_behind() {
    let store = Store::start().await;
    let ahead = Kind {
        ahead: MINUTE,
        ..Kind::default()
    };
    let a = Node::start("a", ahead, &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    for cseq in (1..20).step_by(2) {
        a.register("alice", cseq);
        b.until_found("alice", &[cseq]).await;
        b.register("alice", cseq + 1);
        a.until_found("alice", &[cseq + 1]).await;
    }
    b.remove("alice");
    a.until_found("alice", &[]).await;
}

#[tokio::test]
async fn both_sides_of_a_partition_end_with_the_last_register() {
    let store = Store::start().await;
    let mut a = Node::start("a", Kind::default(), &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    a.register("removed", 1);
    b.until_found("removed", &[1]).await;
    a.cut();
    for number in 0..500 {
        a.register(&format!("user{number}"), 1);
        b.register(&format!("user{}", number + 250), 2);
    }
    b.remove("removed");
    b.register("last", 1);
    tokio::time::sleep(Duration::from_millis(2)).await;
    a.register("last", 2);
    assert_eq!(a.found("user300"), [1]);
    a.connect(&store);
    a.until_found("removed", &[]).await;
    b.until_found("user0", &[1]).await;
    for number in 0..750 {
        let cseq = if number < 500 { 1 } else { 2 };
        for node in [&a, &b] {
            node.until_found(&format!("user{number}"), &[cseq]).await;
        }
    }
    for node in [&a, &b] {
        node.until_found("last", &[2]).await;
    }
    assert_eq!(a.everything(), b.everything());
}

#[tokio::test]
async fn a_node_that_returns_with_old_bindings_does_not_bring_them_back() {
    let store = Store::start().await;
    let mut a = Node::start("a", Kind::default(), &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    a.register("alice", 1);
    b.until_found("alice", &[1]).await;
    a.cut();
    b.remove("alice");
    b.until("the removal is saved", |b| b.fleet.outbox.is_empty())
        .await;
    // The removal must survive the node that made it.
    b.finish().await;
    let c = Node::start("c", Kind::default(), &store).await;
    a.connect(&store);
    a.until_found("alice", &[]).await;
    assert!(c.found("alice").is_empty());
}

#[tokio::test]
async fn a_register_that_arrives_with_the_change_of_another_node_is_kept() {
    let store = Store::start().await;
    let a = Node::start("a", Kind::default(), &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    a.register("alice", 1);
    b.until_found("alice", &[1]).await;
    // A worker of b has answered a REGISTER, which has no version yet.
    b.change("alice", "192.0.2.7", 3);
    a.register("alice", 2);
    a.until_found("alice", &[3]).await;
    assert_eq!(b.found("alice"), [3]);
    assert_eq!(b.ignored(Ignored::Overtaken), 1);
}

#[tokio::test]
async fn a_phone_with_two_contacts_registers_them_at_two_nodes() {
    let store = Store::start().await;
    let a = Node::start("a", Kind::default(), &store).await;
    let b = Node::start("b", Kind::default(), &store).await;
    a.register_contact("alice", "192.0.2.7", 1);
    b.register_contact("alice", "192.0.2.8", 2);
    for node in [&a, &b] {
        node.until_found("alice", &[1, 2]).await;
    }
}
