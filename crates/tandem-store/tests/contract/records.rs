//! Records of calls: appended in batches that may be repeated, deleted when they are old.

use crate::Database;
use tandem_store::{CallRow, Store};

/// The record of a call that ended at `number` milliseconds.
pub fn record(number: i64) -> CallRow<'static> {
    CallRow {
        id: format!("{number:032x}").into(),
        call_id: format!("call-{number}@192.0.2.7").into(),
        from_uri: "sip:älice@example.org".into(),
        from_tag: "a1".into(),
        to_uri: "sip:bob@example.org".into(),
        to_tag: "b1".into(),
        request_uri: "sip:bob@example.org';--\u{fffd}".into(),
        identity: "alice@example.org".into(),
        source: ("192.0.2.7:5060".parse().expect("an address"), "udp"),
        destination: Some(("[2001:db8::9]:5061".parse().expect("an address"), "tls")),
        attempts: u16::MAX,
        started: 0,
        ringing: Some(1),
        answered: Some(2),
        ended: number,
        status: 200,
        ended_by: "callee".into(),
        reason: "Q.850;cause=16".into(),
    }
}

fn records(numbers: std::ops::Range<i64>) -> Vec<CallRow<'static>> {
    numbers.map(record).collect()
}

async fn append(store: &Store, batch: &[CallRow<'_>]) {
    store.records().append(batch).await.expect("appends");
}

async fn count(store: &Store) -> u64 {
    store.records().count().await.expect("counts")
}

#[tokio::test]
async fn a_batch_may_be_repeated() {
    let database = Database::new();
    let store = database.store().await;
    append(&store, &[]).await;
    assert_eq!(count(&store).await, 0);
    append(&store, &records(0..250)).await;
    append(&store, &records(0..250)).await;
    append(&store, &records(200..300)).await;
    let twice = [record(300), record(300)];
    append(&store, &twice).await;
    assert_eq!(count(&store).await, 301);
}

#[tokio::test]
async fn a_call_without_answer_and_a_call_with_the_longest_texts_are_recorded() {
    let database = Database::new();
    let store = database.store().await;
    let failed = CallRow {
        to_tag: "".into(),
        identity: "".into(),
        destination: None,
        ringing: None,
        answered: None,
        status: 0,
        reason: "".into(),
        ..record(1)
    };
    let long = "\u{fffd}".repeat(512);
    let longest = CallRow {
        call_id: long.as_str().into(),
        from_uri: long.as_str().into(),
        from_tag: long.as_str().into(),
        to_uri: long.as_str().into(),
        to_tag: long.as_str().into(),
        request_uri: long.as_str().into(),
        identity: long.as_str().into(),
        reason: long.as_str().into(),
        ended: i64::MAX,
        ..record(2)
    };
    append(&store, &[failed, longest]).await;
    assert_eq!(count(&store).await, 2);
}

#[tokio::test]
async fn old_records_are_deleted_a_few_at_a_time() {
    let database = Database::new();
    let store = database.store().await;
    append(&store, &records(0..10)).await;
    for (before, most, deleted) in [(4, 3, 3), (4, 3, 1), (4, 3, 0), (9, 100, 5), (10, 100, 1)] {
        let done = store.records().delete_ended_before(before, most).await;
        assert_eq!(done.expect("deletes"), deleted, "{before} {most}");
    }
    assert_eq!(count(&store).await, 0);
}

#[tokio::test]
async fn a_node_deletes_only_its_own_records() {
    let database = Database::new();
    let first = database.server("first").await.expect("opens");
    let second = database.server("second").await.expect("opens");
    append(&first, &records(0..5)).await;
    append(&second, &records(5..10)).await;
    let deleted = first.records().delete_ended_before(100, 100).await;
    assert_eq!(deleted.expect("deletes"), 5);
    assert_eq!(count(&second).await, 5);
}
