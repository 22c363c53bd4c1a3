//! A server whose name another one has taken: the connection that reserved it broke, and the other one was faster.
//!
//! `Database` provides `break_reservation`, which ends the session that holds the name of node `a`.

use crate::Database;
use crate::contract::records::record;
use crate::contract::rows::bound;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tandem_store::{DialogRow, Store, StoreError};

/// Puts the table of epochs back to the state of the latest [`BACKUP`].
const RESTORE: &str = "DELETE FROM node_epoch; INSERT INTO node_epoch SELECT * FROM backup";
const BACKUP: &str = "CREATE TABLE backup AS SELECT * FROM node_epoch";

/// A second store of the name that another one has: it takes the name from that one.
async fn take_name(database: &Database) -> Store {
    loop {
        database.break_reservation();
        match database.server("a").await {
            Ok(winner) => return winner,
            // The other one has reserved it again already.
            Err(StoreError::InUse { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn dialog(state: &str) -> DialogRow {
    DialogRow {
        id: 1,
        expires_at: 100,
        state: Some(state.as_bytes().into()),
    }
}

/// Everything that belongs to node `a`.
async fn saved(store: &Store) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let dialogs = store.dialogs();
    let loaded = dialogs.load_all(0, |_, state| {
        found.insert(String::from_utf8_lossy(state).into_owned());
    });
    loaded.await.expect("loads");
    let locations = store.locations();
    let loaded = locations.load_all(0, |_, binding| {
        found.insert(format!("binding {}", binding.cseq));
    });
    loaded.await.expect("loads");
    found
}

/// All ways to change rows of a node.
async fn changes(store: &Store) -> Vec<(&'static str, Result<(), StoreError>)> {
    let (locations, dialogs, records) = (store.locations(), store.dialogs(), store.records());
    let mut full = locations.begin_full_save().await.expect("reads");
    vec![
        ("save", locations.save(&[bound("alice", &[1])]).await),
        ("add", full.add(&[bound("alice", &[1])]).await),
        ("finish", full.finish().await.map(drop)),
        (
            "expired",
            locations.delete_expired(u32::MAX).await.map(drop),
        ),
        ("dialogs", dialogs.save(&[dialog("of the loser")]).await),
        ("overdue", dialogs.delete_expired(u32::MAX).await.map(drop)),
        ("append", records.append(&[record(1)]).await),
        (
            "old",
            records.delete_ended_before(i64::MAX, 9).await.map(drop),
        ),
    ]
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "it never came to this: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn until_holder_is_named(loser: &Store) {
    until("the holder is named", || {
        let by = loser.name_taken_by();
        by.is_some_and(|by| by.contains("has reserved the node name \"a\""))
    })
    .await;
}

async fn assert_changes_nothing(loser: &Store) {
    for (change, result) in changes(loser).await {
        assert!(
            matches!(result, Err(StoreError::NameTaken { .. })),
            "{change}: {result:?}"
        );
        assert!(loser.name_taken_by().is_some(), "{change}");
    }
}

async fn assert_changes_all(server: &Store) {
    for (change, result) in changes(server).await {
        assert!(result.is_ok(), "{change}: {result:?}");
    }
}

#[tokio::test]
async fn a_server_that_lost_its_name_changes_nothing_until_it_has_it_again() {
    let database = Database::new();
    let loser = database.server("a").await.expect("opens");
    let winner = take_name(&database).await;
    let batch = [bound("alice", &[2])];
    winner.locations().save(&batch).await.expect("saves");
    let batch = [dialog("of the winner")];
    winner.dialogs().save(&batch).await.expect("saves");
    let batch = [record(2)];
    winner.records().append(&batch).await.expect("saves");

    let of_winner = BTreeSet::from(["binding 2", "of the winner"].map(str::to_owned));
    assert_changes_nothing(&loser).await;
    assert_eq!(saved(&winner).await, of_winner);
    assert_eq!(winner.records().count().await.expect("counts"), 1);
    assert_eq!(winner.name_taken_by(), None);

    until_holder_is_named(&loser).await;
    winner.close().await;
    until("it has its name again", || loser.name_taken_by().is_none()).await;
    assert_changes_all(&loser).await;
}

#[tokio::test]
async fn an_epoch_that_a_failover_lost_is_not_begun_a_second_time() {
    let database = Database::new();
    let earlier = database.server("a").await.expect("opens");
    database.execute(BACKUP);
    earlier.close().await;
    let loser = database.server("a").await.expect("opens");
    database.execute(RESTORE);
    let winner = take_name(&database).await;
    assert_changes_nothing(&loser).await;
    assert_changes_all(&winner).await;
}

#[tokio::test]
async fn a_server_that_knows_of_its_loss_changes_nothing_even_if_its_epoch_comes_back() {
    let database = Database::new();
    let loser = database.server("a").await.expect("opens");
    database.execute(BACKUP);
    let winner = take_name(&database).await;
    until_holder_is_named(&loser).await;
    database.execute(RESTORE);
    assert_changes_nothing(&loser).await;
    let refused = winner.locations().save(&[bound("alice", &[1])]).await;
    assert!(
        matches!(refused, Err(StoreError::NameTaken { .. })),
        "{refused:?}"
    );
    until("the winner has a new epoch", || {
        winner.name_taken_by().is_none()
    })
    .await;
    assert_changes_all(&winner).await;
    assert_changes_nothing(&loser).await;
}

#[tokio::test]
async fn a_server_whose_epoch_was_changed_or_deleted_soon_saves_again() {
    for change in [
        "UPDATE node_epoch SET epoch = epoch - 1",
        "DELETE FROM node_epoch",
        "TRUNCATE TABLE node_epoch",
    ] {
        let database = Database::new();
        let server = database.server("a").await.expect("opens");
        database.execute(change);
        let refused = server.locations().save(&[bound("alice", &[1])]).await;
        let error = refused.expect_err("is refused");
        assert!(matches!(error, StoreError::NameTaken { .. }), "{error:?}");
        assert!(error.to_string().contains("table node_epoch was changed"));
        until("it has its name again", || server.name_taken_by().is_none()).await;
        assert_changes_all(&server).await;
        let second = database.server("a").await;
        assert!(
            matches!(second, Err(StoreError::InUse { .. })),
            "{change}: {second:?}"
        );
    }
}
