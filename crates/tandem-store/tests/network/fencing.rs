//! A server whose name another one has taken: the connection that reserved it broke, and the other one was faster.
//!
//! `Database` provides `break_reservation`, which ends the session that holds the name of node `a`.

use crate::Database;
use crate::contract::records::record;
use crate::contract::rows::bound;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tandem_store::{DialogRow, Store, StoreError};

/// Two stores of one name: the second one has taken it from the first one.
async fn loser_and_winner(database: &Database) -> [Store; 2] {
    let loser = database.server("a").await.expect("opens");
    loop {
        database.break_reservation();
        match database.server("a").await {
            Ok(winner) => return [loser, winner],
            // The first one has reserved it again already.
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

#[tokio::test]
async fn a_server_that_lost_its_name_changes_nothing_until_it_has_it_again() {
    let database = Database::new();
    let [loser, winner] = loser_and_winner(&database).await;
    let batch = [bound("alice", &[2])];
    winner.locations().save(&batch).await.expect("saves");
    let batch = [dialog("of the winner")];
    winner.dialogs().save(&batch).await.expect("saves");
    let batch = [record(2)];
    winner.records().append(&batch).await.expect("saves");

    let of_winner = BTreeSet::from(["binding 2", "of the winner"].map(str::to_owned));
    for (change, result) in changes(&loser).await {
        assert!(
            matches!(result, Err(StoreError::InUse { .. })),
            "{change}: {result:?}"
        );
        assert!(loser.name_taken_by().is_some(), "{change}");
    }
    assert_eq!(saved(&winner).await, of_winner);
    assert_eq!(winner.records().count().await.expect("counts"), 1);
    assert_eq!(winner.name_taken_by(), None);

    until("the holder is named", || {
        let by = loser.name_taken_by();
        by.is_some_and(|by| by.contains("has reserved the node name \"a\""))
    })
    .await;
    winner.close().await;
    until("it has its name again", || loser.name_taken_by().is_none()).await;
    for (change, result) in changes(&loser).await {
        assert!(result.is_ok(), "{change}: {result:?}");
    }
}
