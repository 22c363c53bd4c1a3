//! Subscribers, one at a time and all of them.

use super::rows::{credentials, subscriber, subscriber_of};
use crate::Database;
use std::ops::ControlFlow;
use tandem_store::{Existing, Registrations, Store, StoreError, Subscriber};

async fn listed(store: &Store, domain: Option<&str>, limit: Option<u64>) -> Vec<String> {
    let mut names = Vec::new();
    store
        .subscribers()
        .list(domain, limit, |username, domain| {
            names.push(format!("{username}@{domain}"));
            ControlFlow::Continue(())
        })
        .await
        .expect("lists");
    names
}

#[tokio::test]
async fn a_subscriber_is_found_until_it_is_removed() {
    let database = Database::new();
    let store = database.store().await;
    let subscribers = store.subscribers();
    subscribers
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    assert_eq!(
        subscribers
            .find("alice", "example.org")
            .await
            .expect("finds"),
        Some(credentials(1))
    );
    assert_eq!(
        subscribers
            .find("alice", "example.net")
            .await
            .expect("finds"),
        None
    );
    assert_eq!(
        subscribers
            .find("Alice", "example.org")
            .await
            .expect("finds"),
        None,
        "user parts are compared with case"
    );
    for other in ["alice ", "\u{e1}lice", ""] {
        let found = subscribers.find(other, "example.org").await;
        assert_eq!(found.expect("finds"), None, "{other:?} is another name");
    }
    subscribers
        .set_password(&subscriber("alice", 2), Registrations::Keep)
        .await
        .expect("changes");
    assert_eq!(
        subscribers
            .find("alice", "example.org")
            .await
            .expect("finds"),
        Some(credentials(2))
    );
    subscribers
        .remove("alice", "example.org")
        .await
        .expect("removes");
    assert_eq!(
        subscribers
            .find("alice", "example.org")
            .await
            .expect("finds"),
        None
    );
}

#[tokio::test]
async fn an_existing_subscriber_is_not_added_again() {
    let database = Database::new();
    let store = database.store().await;
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    let error = store
        .subscribers()
        .add(&subscriber("alice", 2))
        .await
        .expect_err("exists");
    assert!(
        matches!(&error, StoreError::Exists { address } if address == "alice@example.org"),
        "{error:?}"
    );
    assert_eq!(
        store
            .subscribers()
            .find("alice", "example.org")
            .await
            .expect("finds"),
        Some(credentials(1))
    );
    assert_eq!(store.subscribers().version().await.expect("reads"), 1);
}

#[tokio::test]
async fn a_missing_subscriber_can_be_neither_changed_nor_removed() {
    let database = Database::new();
    let store = database.store().await;
    let error = store
        .subscribers()
        .set_password(&subscriber("alice", 1), Registrations::Keep)
        .await
        .expect_err("is not there");
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    let error = store
        .subscribers()
        .remove("alice", "example.org")
        .await
        .expect_err("is not there");
    assert!(matches!(error, StoreError::Missing { .. }), "{error:?}");
    assert_eq!(store.subscribers().version().await.expect("reads"), 0);
}

#[tokio::test]
async fn a_list_is_ordered_filtered_limited_and_broken_off() {
    let database = Database::new();
    let store = database.store().await;
    for (username, domain) in [
        ("carol", "example.org"),
        ("alice", "example.org"),
        ("bob", "example.net"),
    ] {
        store
            .subscribers()
            .add(&subscriber_of(username, domain, 1))
            .await
            .expect("adds");
    }
    assert_eq!(
        listed(&store, None, None).await,
        ["alice@example.org", "bob@example.net", "carol@example.org"]
    );
    assert_eq!(
        listed(&store, Some("example.org"), None).await,
        ["alice@example.org", "carol@example.org"]
    );
    assert_eq!(
        listed(&store, None, Some(2)).await,
        ["alice@example.org", "bob@example.net"]
    );
    assert_eq!(listed(&store, None, Some(u64::MAX)).await.len(), 3);
    let shown = store
        .subscribers()
        .list(None, None, |_, _| ControlFlow::Break(()))
        .await
        .expect("lists");
    assert_eq!(shown, 1);
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 3);
    assert_eq!(
        store
            .subscribers()
            .count(Some("example.net"))
            .await
            .expect("counts"),
        1
    );
}

#[tokio::test]
async fn every_subscriber_is_streamed_once() {
    let database = Database::new();
    let store = database.store().await;
    let many: Vec<_> = (0..3_000_u32)
        .map(|number| subscriber(&format!("u{number}"), number as u8))
        .collect();
    store
        .subscribers()
        .import(&many, Existing::Keep)
        .await
        .expect("imports");
    let mut seen = Vec::new();
    let count = store
        .subscribers()
        .for_each(|username, domain, credentials| {
            seen.push(Subscriber {
                username: username.to_owned(),
                domain: domain.to_owned(),
                credentials,
            });
        })
        .await
        .expect("reads");
    assert_eq!(count, 3_000);
    let by_name = |subscriber: &Subscriber| subscriber.username.clone();
    let mut expected = many;
    expected.sort_by_key(by_name);
    seen.sort_by_key(by_name);
    assert_eq!(seen, expected);
}

/// Otherwise one of them would keep a server from starting.
#[tokio::test]
async fn all_subscribers_are_streamed_except_those_with_a_hash_of_the_wrong_length() {
    let database = Database::new();
    let store = database.store().await;
    let all = ["alice", "bob", "carol"].map(|name| subscriber(name, 1));
    let imported = store.subscribers().import(&all, Existing::Keep).await;
    imported.expect("imports");
    database.damage_hashes("bob").await;
    let mut seen = Vec::new();
    let subscribers = store.subscribers();
    let read = subscribers.for_each(|username, _, _| seen.push(username.to_owned()));
    assert_eq!(read.await.expect("reads"), 2);
    seen.sort_unstable();
    assert_eq!(seen, ["alice", "carol"]);
}

#[tokio::test]
async fn a_hash_of_the_wrong_length_is_reported() {
    let database = Database::new();
    let store = database.store().await;
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    database.damage_hashes("alice").await;
    let error = store
        .subscribers()
        .find("alice", "example.org")
        .await
        .expect_err("makes no sense");
    assert!(matches!(error, StoreError::Query { .. }), "{error:?}");
}
