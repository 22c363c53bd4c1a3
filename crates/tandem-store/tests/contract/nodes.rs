//! Servers that share a database: each has a name, and none deletes what another one saved.

use super::rows::{binding, bound, subscriber};
use crate::Database;
use std::collections::BTreeSet;
use tandem_store::{AddressBindings, BindingRow, Registrations, Store, StoreError, shown_url};

async fn two_nodes(database: &Database) -> [Store; 2] {
    let a = database.server("a").await.expect("opens");
    let b = database.server("b").await.expect("opens");
    [a, b]
}

/// The saved contacts, as `address CSeq`.
async fn saved(store: &Store) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    store
        .locations()
        .load_all(0, |address, binding| {
            let address = String::from_utf8_lossy(address);
            found.insert(format!("{address} {}", binding.cseq));
        })
        .await
        .expect("loads");
    found
}

fn contacts(expected: &[&str]) -> BTreeSet<String> {
    expected
        .iter()
        .map(|contact| (*contact).to_owned())
        .collect()
}

async fn save(store: &Store, address: &str, numbers: &[u32]) {
    let batch = [bound(address, numbers)];
    store.locations().save(&batch).await.expect("saves");
}

/// The binding `number`, with this expiry and `CSeq`.
fn refreshed(address: &str, number: u32, expires_at: u32, cseq: u32) -> AddressBindings<'static> {
    AddressBindings {
        address: address.as_bytes().to_vec().into(),
        bindings: vec![BindingRow {
            expires_at,
            cseq,
            ..binding(number)
        }],
    }
}

#[tokio::test]
async fn a_full_save_deletes_nothing_of_another_node() {
    let database = Database::new();
    let [a, b] = two_nodes(&database).await;
    save(&a, "alice", &[1]).await;
    save(&b, "bob", &[2]).await;
    let mut of_b = b.locations().begin_full_save().await.expect("begins");
    of_b.add(&[bound("carol", &[3])]).await.expect("saves");
    let mut of_a = a.locations().begin_full_save().await.expect("begins");
    of_a.add(&[bound("dave", &[4])]).await.expect("saves");
    assert_eq!(of_a.finish().await.expect("finishes"), 1, "alice");
    assert_eq!(saved(&a).await, contacts(&["bob 2", "carol 3", "dave 4"]));
    assert_eq!(of_b.finish().await.expect("finishes"), 1, "bob");
    assert_eq!(saved(&a).await, contacts(&["carol 3", "dave 4"]));
}

#[tokio::test]
async fn a_save_of_an_address_deletes_nothing_of_another_node() {
    let database = Database::new();
    let [a, b] = two_nodes(&database).await;
    save(&a, "alice", &[1]).await;
    save(&b, "alice", &[2]).await;
    assert_eq!(saved(&a).await, contacts(&["alice 1", "alice 2"]));
    save(&a, "alice", &[3]).await;
    assert_eq!(saved(&a).await, contacts(&["alice 2", "alice 3"]));
    save(&b, "alice", &[]).await;
    assert_eq!(saved(&a).await, contacts(&["alice 3"]));
}

#[tokio::test]
async fn a_phone_that_moves_to_another_node_keeps_its_binding() {
    let database = Database::new();
    let [a, b] = two_nodes(&database).await;
    let old = [refreshed("alice", 1, 1_000, 1)];
    let new = [refreshed("alice", 1, 2_000, 2)];
    a.locations().save(&old).await.expect("saves");
    b.locations().save(&new).await.expect("saves");
    assert_eq!(saved(&a).await, contacts(&["alice 2"]));
    // The first node still has the old binding, until it expires there.
    a.locations().save(&old).await.expect("saves");
    assert_eq!(
        saved(&a).await,
        contacts(&["alice 2"]),
        "the newer one counts"
    );
    save(&a, "alice", &[]).await;
    assert_eq!(saved(&a).await, contacts(&["alice 2"]));
    save(&b, "alice", &[]).await;
    assert_eq!(saved(&a).await, contacts(&[]));
}

#[tokio::test]
async fn a_node_deletes_only_its_own_expired_bindings() {
    let database = Database::new();
    let [a, b] = two_nodes(&database).await;
    save(&a, "alice", &[1]).await;
    save(&b, "bob", &[2]).await;
    let deleted = a.locations().delete_expired(u32::MAX).await;
    assert_eq!(deleted.expect("deletes"), 1);
    assert_eq!(saved(&a).await, contacts(&["bob 2"]));
}

#[tokio::test]
async fn a_new_password_ends_the_registrations_at_every_node() {
    let database = Database::new();
    let [a, b] = two_nodes(&database).await;
    save(&a, "alice@example.org", &[1]).await;
    save(&b, "alice@example.org", &[2]).await;
    let command = database.store().await;
    let subscribers = command.subscribers();
    let added = subscribers.add(&subscriber("alice", 1)).await;
    added.expect("adds");
    let alice = subscriber("alice", 2);
    let changed = subscribers.set_password(&alice, Registrations::End).await;
    changed.expect("changes");
    assert_eq!(saved(&a).await, contacts(&[]));
}

#[tokio::test]
async fn a_restarted_node_replaces_what_it_saved_before() {
    let database = Database::new();
    let node = database.server("a").await.expect("opens");
    save(&node, "alice", &[1]).await;
    node.close().await;
    let node = database.server("a").await.expect("opens again");
    save(&node, "alice", &[2]).await;
    assert_eq!(saved(&node).await, contacts(&["alice 2"]));
}

#[tokio::test]
async fn a_second_server_of_the_same_name_is_refused_until_the_first_ends() {
    let database = Database::new();
    let first = database.server("a").await.expect("opens");
    let error = database.server("a").await.expect_err("is refused");
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(&shown_url(&database.url())) && message.contains("stop that server"),
        "{message}"
    );
    let other = database.server("b").await.expect("another name is free");
    // A command may always open the database.
    save(&database.store().await, "alice", &[1]).await;
    first.close().await;
    let again = database.server("a").await.expect("closed");
    drop(again);
    let again = database.server("a").await.expect("dropped");
    assert_eq!(saved(&again).await, saved(&other).await);
}
