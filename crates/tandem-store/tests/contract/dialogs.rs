//! Saved dialogs: each belongs to one node.

use crate::Database;
use std::collections::BTreeMap;
use tandem_store::{DialogRow, Store};

fn row(id: u128, expires_at: u32, state: Option<&[u8]>) -> DialogRow {
    DialogRow {
        id,
        expires_at,
        state: state.map(Into::into),
    }
}

async fn save(store: &Store, batch: &[DialogRow]) {
    store.dialogs().save(batch).await.expect("saves");
}

/// The saved dialogs that end after `now`.
async fn saved(store: &Store, now: u32) -> BTreeMap<u128, Vec<u8>> {
    let mut found = BTreeMap::new();
    let dialogs = store.dialogs();
    let loaded = dialogs.load_all(now, |id, state| {
        found.insert(id, state.to_vec());
    });
    let count = loaded.await.expect("loads");
    assert_eq!(count, found.len() as u64);
    found
}

fn dialogs<const N: usize>(expected: [(u128, &[u8]); N]) -> BTreeMap<u128, Vec<u8>> {
    expected
        .into_iter()
        .map(|(id, state)| (id, state.to_vec()))
        .collect()
}

#[tokio::test]
async fn dialogs_are_saved_changed_and_removed_in_one_batch() {
    let database = Database::new();
    let node = database.server("a").await.expect("opens");
    let any = [0_u8, 255, b'\'', 128];
    save(
        &node,
        &[row(1, 100, Some(&any)), row(u128::MAX, 100, Some(b""))],
    )
    .await;
    assert_eq!(
        saved(&node, 0).await,
        dialogs([(1, &any), (u128::MAX, b"")])
    );
    let batch = [
        row(1, 200, Some(b"changed")),
        row(u128::MAX, 100, None),
        row(3, 100, None),
        row(4, 100, Some(b"new")),
    ];
    save(&node, &batch).await;
    assert_eq!(
        saved(&node, 0).await,
        dialogs([(1, b"changed"), (4, b"new")])
    );
    save(&node, &[]).await;
    node.close().await;
    let node = database.server("a").await.expect("opens again");
    assert_eq!(
        saved(&node, 0).await,
        dialogs([(1, b"changed"), (4, b"new")])
    );
}

#[tokio::test]
async fn a_dialog_that_has_ended_is_not_restored_and_can_be_removed() {
    let database = Database::new();
    let node = database.server("a").await.expect("opens");
    save(&node, &[row(1, 100, Some(b"1")), row(2, 101, Some(b"2"))]).await;
    assert_eq!(saved(&node, 100).await, dialogs([(2, b"2")]));
    let removed = node.dialogs().delete_expired(100).await;
    assert_eq!(removed.expect("removes"), 1);
    assert_eq!(saved(&node, 0).await, dialogs([(2, b"2")]));
}

#[tokio::test]
async fn overdue_dialogs_are_read_up_to_a_bound_the_latest_first() {
    let database = Database::new();
    let a = database.server("a").await.expect("opens");
    let b = database.server("b").await.expect("opens");
    let ends = [(1, 100), (2, 98), (3, 99), (4, 101)];
    save(&a, &ends.map(|(id, end)| row(id, end, Some(b"a")))).await;
    save(&b, &[row(5, 97, Some(b"b"))]).await;
    for (most, expected) in [(9, &[1_u128, 3, 2][..]), (2, &[1, 3]), (0, &[])] {
        let mut found = Vec::new();
        let dialogs = a.dialogs();
        let loaded = dialogs.load_overdue(100, most, |id, _| found.push(id));
        assert_eq!(loaded.await.expect("loads"), expected.len() as u64);
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn a_node_neither_reads_nor_changes_the_dialogs_of_another() {
    let database = Database::new();
    let a = database.server("a").await.expect("opens");
    let b = database.server("b").await.expect("opens");
    save(&a, &[row(1, 100, Some(b"a"))]).await;
    save(&b, &[row(1, 100, Some(b"b"))]).await;
    assert_eq!(saved(&a, 0).await, dialogs([(1, b"a")]));
    save(&b, &[row(1, 100, None)]).await;
    let removed = b.dialogs().delete_expired(u32::MAX).await;
    assert_eq!(removed.expect("removes"), 0);
    assert_eq!(saved(&a, 0).await, dialogs([(1, b"a")]));
    assert_eq!(saved(&b, 0).await, dialogs([]));
}

#[tokio::test]
async fn a_large_batch_is_saved_whole() {
    let database = Database::new();
    let node = database.server("a").await.expect("opens");
    let batch: Vec<DialogRow> = (0..5_000).map(|id| row(id, 100, Some(&[7; 600]))).collect();
    save(&node, &batch).await;
    assert_eq!(saved(&node, 0).await.len(), 5_000);
    let ended: Vec<DialogRow> = (0..5_000).map(|id| row(id, 100, None)).collect();
    save(&node, &ended).await;
    assert_eq!(saved(&node, 0).await.len(), 0);
}
