//! A store that is away, empty, slow, full, or has data of others.
use super::nodes::{Kind, Node, address};
use super::store::Store;
use crate::fleet_store::Ignored;
use crate::fleet_store::layout::{Layout, SHARDS, bucket_of, shard};
use rustix::process::Signal;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Two nodes with a common binding.
async fn two(store: &Store, kind: Kind) -> [Node; 2] {
    let nodes = [
        Node::start("a", kind, store).await,
        Node::start("b", kind, store).await,
    ];
    nodes[0].register("before", 1);
    nodes[1].until_found("before", &[1]).await;
    nodes
}

#[tokio::test]
async fn an_empty_store_gets_everything_back() {
    let mut store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    a.register("removed", 1);
    b.until_found("removed", &[1]).await;
    a.remove("removed");
    b.until_found("removed", &[]).await;
    store.kill();
    for node in [&a, &b] {
        node.until("it notices", |node| !node.counters().is_connected())
            .await;
    }
    a.register("meanwhile", 1);
    b.register("also", 1);
    assert_eq!(a.found("before"), [1], "from memory");
    store.start_again().await;
    for node in [&a, &b] {
        node.until_found("meanwhile", &[1]).await;
        node.until_found("also", &[1]).await;
    }
    let c = Node::start("c", Kind::default(), &store).await;
    assert_eq!(c.everything(), a.everything());
    assert_eq!(c.everything().len(), 3);
    assert_eq!(c.fleet.ledger().len(), 4, "with the removal");
    assert!(a.counters().store_errors.get() > 0);
}

#[tokio::test]
async fn a_store_that_loses_its_data_without_an_end_of_the_connection_gets_it_back() {
    let store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    store.command(&["FLUSHALL"]).await;
    b.until("it compares", |b| b.counters().resynchronisations.get() > 1)
        .await;
    a.until("it compares", |a| a.counters().resynchronisations.get() > 1)
        .await;
    let c = Node::start("c", Kind::default(), &store).await;
    c.until_found("before", &[1]).await;
    b.register("before", 2);
    a.until_found("before", &[2]).await;
}

#[tokio::test]
async fn registrations_do_not_wait_for_a_store_that_hangs() {
    let store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    store.signal(Signal::STOP);
    let saved = a.saved.load(Ordering::Relaxed);
    a.register("meanwhile", 1);
    a.until("it gives up", |a| !a.counters().is_connected())
        .await;
    a.until("saves are reported", |a| {
        a.saved.load(Ordering::Relaxed) > saved + 2
    })
    .await;
    assert!(b.found("meanwhile").is_empty());
    store.signal(Signal::CONT);
    b.until_found("meanwhile", &[1]).await;
}

#[tokio::test]
async fn with_commit_registrations_wait_for_the_store() {
    let mut store = Store::start().await;
    let kind = Kind {
        waits_for_store: true,
        ..Kind::default()
    };
    let [a, b] = two(&store, kind).await;
    store.kill();
    a.until("it notices", |a| !a.counters().is_connected())
        .await;
    let saved = a.saved.load(Ordering::Relaxed);
    a.register("meanwhile", 1);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(a.saved.load(Ordering::Relaxed), saved);
    store.start_again().await;
    a.until("it is saved", |a| a.saved.load(Ordering::Relaxed) > saved)
        .await;
    b.until_found("meanwhile", &[1]).await;
}

#[tokio::test]
async fn a_full_store_is_counted_and_gets_the_changes_later() {
    let store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    store.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    a.register("meanwhile", 1);
    a.until("it fails", |a| a.counters().store_errors.get() > 0)
        .await;
    assert!(!a.fleet.outbox.is_empty());
    store.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    b.until_found("meanwhile", &[1]).await;
    a.until("it works", |a| a.counters().is_connected()).await;
}

#[tokio::test]
async fn more_changes_than_fit_are_replaced_by_a_comparison() {
    let mut store = Store::start().await;
    let kind = Kind {
        queue_bytes: 20_000,
        ..Kind::default()
    };
    let [a, b] = two(&store, kind).await;
    store.kill();
    a.until("it notices", |a| !a.counters().is_connected())
        .await;
    for number in 0..500 {
        a.register(&format!("user{number}"), 1);
        assert!(a.counters().waiting().1 <= 20_000);
    }
    assert!(a.counters().overflows.get() > 0);
    store.start_again().await;
    b.until("it has all", |b| b.everything().len() == 501).await;
}

#[tokio::test]
async fn a_reader_that_misses_changes_compares() {
    let store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    let layout = Layout::of_locations("test");
    for shard in 0..SHARDS {
        let state = layout.state(shard);
        store.command(&["HINCRBY", &state, "number", "5"]).await;
    }
    let before = b.counters().resynchronisations.get();
    a.register("after", 1);
    b.until("it compares", |b| {
        b.counters().resynchronisations.get() > before
    })
    .await;
    b.until_found("after", &[1]).await;
}

#[tokio::test]
async fn data_of_others_is_counted_and_skipped() {
    let store = Store::start().await;
    let [a, b] = two(&store, Kind::default()).await;
    let (alice, layout) = (address("alice"), Layout::of_locations("test"));
    let bucket = bucket_of(&alice);
    let (key, stream) = (layout.bucket(bucket), layout.changes(shard(bucket)));
    let field = String::from_utf8(alice).expect("text") + "\0abcdefgh";
    for value in ["", "\u{1}", "x", &"\u{1}".repeat(300)] {
        store.command(&["HSET", &key, &field, value]).await;
        store.command(&["HSET", &key, value, value]).await;
    }
    store
        .command(&["XADD", &stream, "*", "number", "x", "origin", "y", "z", "1"])
        .await;
    a.until("it counts them", |a| a.ignored(Ignored::Unreadable) > 1)
        .await;
    a.until("it compares", |a| a.counters().resynchronisations.get() > 1)
        .await;
    a.register("alice", 1);
    b.until_found("alice", &[1]).await;
    let c = Node::start("c", Kind::default(), &store).await;
    assert_eq!(c.everything(), b.everything());
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_is_reported() {
    let mut store = Store::start().await;
    store.kill();
    let a = Node::alone("a", Kind::default());
    let mut link = a.new_link(&store);
    let problem = link.load().await.expect_err("it is away").to_string();
    assert!(problem.starts_with("location.store redis: "), "{problem}");
    store.start_again().await;
    link.load().await.expect("it is there");
}

#[tokio::test]
async fn records_of_no_use_are_deleted_on_both_sides() {
    let store = Store::start().await;
    let past = Node::alone("past", Kind::default());
    past.register("alice", 1);
    let mut taken = past.fleet.outbox.take().records;
    let outgoing = taken.pop().expect("a record");
    // The record has been of no use since 1970.
    let mut value = outgoing.value.clone();
    value[1..9].fill(0);
    value[17..21].fill(0);
    let bucket = Layout::of_locations("test").bucket(outgoing.place.0);
    let mut connection = crate::redis_connection::Connection::open(&store.server())
        .await
        .expect("it listens");
    let mut commands = redis::Pipeline::new();
    commands
        .cmd("HSET")
        .arg(&bucket)
        .arg(&outgoing.field)
        .arg(&value);
    connection
        .send(commands.ignore_errors())
        .await
        .1
        .expect("written");
    let a = Node::start("a", Kind::default(), &store).await;
    a.until("it is deleted", |a| a.counters().deleted.get() == 1)
        .await;
    assert_eq!(
        store.command(&["EXISTS", &bucket]).await,
        redis::Value::Int(0)
    );
}

#[tokio::test]
async fn two_processes_with_one_instance_notice_each_other_and_exchange_bindings() {
    let store = Store::start().await;
    let kind = Kind::default();
    let first = Node::start("a", kind, &store).await;
    first.register("first", 1);
    first
        .until("it is sent", |first| first.counters().sent.get() > 0)
        .await;
    let mut second = Node::start("a", kind, &store).await;
    second.until_found("first", &[1]).await;
    // This process begins as a successor would.
    assert_eq!(second.counters().same_instance.get(), 0);
    second.register("second", 1);
    first.until_found("second", &[1]).await;
    first.register("second", 2);
    second.until_found("second", &[2]).await;
    for node in [&first, &second] {
        assert!(node.counters().same_instance.get() > 0);
    }
    let noticed = first.counters().same_instance.get();
    second.cut();
    second.connect(&store);
    second.register("third", 1);
    first.until_found("third", &[1]).await;
    assert!(first.counters().same_instance.get() > noticed);
}
