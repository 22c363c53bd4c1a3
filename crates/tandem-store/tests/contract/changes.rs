//! The changes of subscribers that a running server notices.

use super::rows::{bound, subscriber, subscriber_of};
use crate::Database;
use tandem_store::{Changed, Existing, Registrations, SubscriberChanges};

fn named(names: &[(&str, &str)]) -> Changed {
    Changed::Named(
        names
            .iter()
            .map(|&(username, domain)| (username.to_owned(), domain.to_owned()))
            .collect(),
    )
}

#[tokio::test]
async fn another_process_sees_what_changed() {
    let database = Database::new();
    let (server, command) = (database.store().await, database.store().await);
    let before = server.subscribers().version().await.expect("reads");
    command
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    command
        .subscribers()
        .set_password(&subscriber("alice", 2), Registrations::Keep)
        .await
        .expect("changes");
    command
        .subscribers()
        .add(&subscriber_of("bob", "example.net", 1))
        .await
        .expect("adds");
    command
        .subscribers()
        .remove("bob", "example.net")
        .await
        .expect("removes");
    let changes = server
        .subscribers()
        .changes_since(before)
        .await
        .expect("reads");
    let alice = ("alice", "example.org");
    let bob = ("bob", "example.net");
    assert_eq!(
        changes,
        SubscriberChanges {
            version: before + 4,
            changed: named(&[alice, alice, bob, bob])
        }
    );
    assert_eq!(
        server.subscribers().version().await.expect("reads"),
        changes.version
    );
    let nothing = server
        .subscribers()
        .changes_since(changes.version)
        .await
        .expect("reads");
    assert_eq!(
        nothing,
        SubscriberChanges {
            version: changes.version,
            changed: named(&[])
        }
    );
}

#[tokio::test]
async fn an_import_is_listed_by_name() {
    let database = Database::new();
    let store = database.store().await;
    let batch: Vec<_> = (0..600)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    store
        .subscribers()
        .import(&batch, Existing::Keep)
        .await
        .expect("imports");
    let changes = store.subscribers().changes_since(0).await.expect("reads");
    let names: Vec<_> = batch
        .iter()
        .map(|entry| (entry.username.clone(), entry.domain.clone()))
        .collect();
    assert_eq!(
        changes,
        SubscriberChanges {
            version: 600,
            changed: Changed::Named(names)
        }
    );
    store
        .subscribers()
        .import(&batch, Existing::Keep)
        .await
        .expect("imports");
    assert_eq!(
        store.subscribers().version().await.expect("reads"),
        600,
        "nothing changed"
    );
}

#[tokio::test]
async fn a_server_that_is_too_far_behind_forgets_everything() {
    let database = Database::new();
    let store = database.store().await;
    let batch: Vec<_> = (0..5_000)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    for _ in 0..21 {
        store
            .subscribers()
            .import(&batch, Existing::Replace)
            .await
            .expect("imports");
    }
    let changes = store
        .subscribers()
        .changes_since(4_999)
        .await
        .expect("reads");
    assert_eq!(
        changes,
        SubscriberChanges {
            version: 105_000,
            changed: Changed::Anything
        }
    );
    let Changed::Named(names) = store
        .subscribers()
        .changes_since(5_000)
        .await
        .expect("reads")
        .changed
    else {
        panic!("the last 100,000 are remembered");
    };
    assert_eq!(names.len(), 100_000);
}

#[tokio::test]
async fn a_database_from_a_backup_makes_servers_forget_everything() {
    let database = Database::new();
    let store = database.store().await;
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    let changes = store.subscribers().changes_since(17).await.expect("reads");
    assert_eq!(
        changes,
        SubscriberChanges {
            version: 1,
            changed: Changed::Anything
        }
    );
}

#[tokio::test]
async fn a_new_password_ends_registrations_unless_they_are_kept() {
    let database = Database::new();
    let store = database.store().await;
    for user in ["alice", "bob"] {
        let added = store.subscribers().add(&subscriber(user, 1)).await;
        added.expect("adds");
        let bindings = bound(&format!("{user}@example.org"), &[1]);
        store.locations().save(&[bindings]).await.expect("saves");
    }
    let before = store.subscribers().version().await.expect("reads");
    let subscribers = store.subscribers();
    for (user, registrations, left) in [
        ("bob", Registrations::Keep, 2),
        ("alice", Registrations::End, 1),
    ] {
        let changed = subscriber(user, 2);
        let changed = subscribers.set_password(&changed, registrations).await;
        changed.expect("changes");
        assert_eq!(store.locations().count().await.expect("counts"), left);
    }
    let alice = ("alice".to_owned(), "example.org".to_owned());
    for (after, expected) in [(before, vec![alice]), (before + 2, vec![])] {
        let ended = subscribers.registrations_ended(after, before + 2).await;
        assert_eq!(ended.expect("reads"), expected);
    }
}
