//! Saves that were given up before the server answered, as after a time-out. What the server still does for them must not undo a later save.

use super::stall::StallingRelay;
use crate::Database;
use crate::contract::rows::bound;
use std::fmt::Debug;
use tandem_store::{DialogRow, Store, StoreError, StoreOptions};

/// The name occurs in each statement about the rows of the node.
const NODE: &str = "late-node";

/// A store of one connection, behind a relay.
async fn behind_relay(database: &Database) -> (StallingRelay, Store) {
    let relay = StallingRelay::to(&database.url()).await;
    let options = StoreOptions {
        connections: 1,
        ..StoreOptions::default()
    };
    let node = NODE.parse().expect("a name");
    let store = Store::open_as(relay.url(), node, options).await;
    let store = store.expect("opens");
    // Otherwise the relay would find its word in the settings of a new connection.
    store.secret().await.expect("connects");
    (relay, store)
}

/// Holds back what contains `word`, and then gives the operation up. A time-out drops it in the same way.
async fn give_up<T: Debug>(
    relay: &StallingRelay,
    word: &'static str,
    operation: impl Future<Output = T>,
) {
    relay.hold(word);
    tokio::select! {
        done = operation => panic!("the relay has not held {word}: {done:?}"),
        () = relay.held() => {}
    }
}

/// A save that may have to wait for one that was given up is repeated, as the server does.
fn may_wait(result: Result<(), StoreError>) -> bool {
    match result {
        Ok(()) => false,
        Err(error) if error.is_temporary() => true,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_dialog_that_has_ended_stays_away_after_the_late_commit_of_its_save() {
    let database = Database::new();
    let (relay, node) = behind_relay(&database).await;
    let dialogs = node.dialogs();
    let row = |state: Option<&[u8]>| DialogRow {
        id: 1,
        expires_at: 100,
        state: state.map(Into::into),
    };
    give_up(&relay, "COMMIT", dialogs.save(&[row(Some(b"confirmed"))])).await;
    let must_wait = may_wait(dialogs.save(&[row(None)]).await);
    relay.release().await;
    if must_wait {
        dialogs.save(&[row(None)]).await.expect("saves");
    }
    let left = dialogs.load_all(0, |_, _| {}).await;
    assert_eq!(left.expect("loads"), 0);
}

#[tokio::test]
async fn a_binding_that_was_removed_stays_away_after_the_late_commit_of_its_save() {
    let database = Database::new();
    let (relay, node) = behind_relay(&database).await;
    let locations = node.locations();
    let saved = [bound("alice@example.org", &[1])];
    give_up(&relay, "COMMIT", locations.save(&saved)).await;
    let removed = [bound("alice@example.org", &[])];
    let must_wait = may_wait(locations.save(&removed).await);
    relay.release().await;
    if must_wait {
        locations.save(&removed).await.expect("saves");
    }
    assert_eq!(locations.count().await.expect("counts"), 0);
}

#[tokio::test]
async fn the_late_end_of_a_full_save_leaves_what_was_saved_since() {
    let database = Database::new();
    let (relay, node) = behind_relay(&database).await;
    let locations = node.locations();
    let alice = [bound("alice@example.org", &[1])];
    let full_save = async || {
        let mut full = locations.begin_full_save().await.expect("begins");
        full.add(&alice).await.expect("saves");
        full
    };
    full_save().await.finish().await.expect("finishes");
    give_up(&relay, NODE, full_save().await.finish()).await;
    let finished = full_save().await.finish().await;
    finished.expect("finishes");
    relay.release().await;
    assert_eq!(locations.count().await.expect("counts"), 1);
}
