//! Nothing is written, whatever is asked for and whatever rights the user has.

use super::{WRITING_VIEW, open, options};
use crate::Database;
use crate::contract::rows::{bound, subscriber};
use tandem_store::{DialogRow, Existing, Registrations, Store, StoreError, StoreOptions};

/// Calls everything that would write to a database of Tandem's own.
async fn try_to_write(store: &Store) {
    let subscribers = store.subscribers();
    let alice = subscriber("alice", 1);
    for refused in [
        subscribers.add(&alice).await,
        subscribers.set_password(&alice, Registrations::End).await,
        subscribers.remove("alice", "example.org").await,
        subscribers
            .import(&[alice], Existing::Replace)
            .await
            .map(drop),
        store
            .dialogs()
            .save(&[DialogRow {
                id: 1,
                expires_at: 1,
                state: None,
            }])
            .await,
    ] {
        let error = refused.expect_err("is refused");
        assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    }
    store.secret().await.expect("draws");
    let locations = store.locations();
    locations
        .save(&[bound("alice@example.org", &[1])])
        .await
        .expect("forgets");
    locations.delete_expired(u32::MAX).await.expect("forgets");
    let full = locations.begin_full_save().await.expect("begins");
    full.finish().await.expect("forgets");
    store
        .dialogs()
        .delete_expired(u32::MAX)
        .await
        .expect("forgets");
}

#[tokio::test]
async fn nothing_is_created_or_written() {
    let database = Database::of_kamailio();
    database.execute(
        "INSERT INTO location (ruid, username, contact, expires) VALUES ('1', 'alice', 'sip:alice@192.0.2.7', '2001-01-01 00:00:00')",
    );
    let before = database.contents().await;
    for url in [database.reader_url(), database.url()] {
        let store = Store::open_kamailio(&url, options(), StoreOptions::default()).await;
        let store = store.expect("opens");
        try_to_write(&store).await;
        store.close().await;
    }
    assert_eq!(database.contents().await, before);
    assert!(before.contains("version"), "{before}");
}

#[tokio::test]
async fn a_session_cannot_write_even_if_its_user_may() {
    let database = Database::of_kamailio();
    database.execute(WRITING_VIEW);
    let store = Store::open_kamailio(&database.url(), options(), StoreOptions::default()).await;
    let store = store.expect("opens");
    for _ in 0..2 {
        let error = store.trusted_networks(1).await.expect_err("would write");
        assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
        assert!(error.to_string().to_lowercase().contains("read"), "{error}");
    }
}

#[tokio::test]
async fn another_database_and_a_user_without_rights_are_reported() {
    let database = Database::new();
    let empty = Store::open_kamailio(&database.url(), options(), StoreOptions::default()).await;
    let error = empty.expect_err("has no tables");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(error.to_string().contains("no table subscriber"), "{error}");
    assert!(error.to_string().contains("SELECT"), "{error}");

    let database = Database::of_kamailio();
    let store = open(&database).await;
    database.forbid_addresses();
    let error = store.trusted_networks(1).await.expect_err("may not read");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("SELECT"), "{error}");
}
