//! Subscribers: one at a time, in bulk, and the changes that a running server notices.

mod fixture;

use fixture::{Fixture, credentials, subscriber, subscriber_of};
use std::ops::ControlFlow;
use tandem_store::{
    Changed, Existing, Imported, Registrations, Store, StoreError, Subscriber, SubscriberChanges,
};

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

fn named(names: &[(&str, &str)]) -> Changed {
    Changed::Named(
        names
            .iter()
            .map(|&(username, domain)| (username.to_owned(), domain.to_owned()))
            .collect(),
    )
}

#[tokio::test]
async fn what_is_added_is_found_until_it_is_removed() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
async fn who_exists_is_not_added_again() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
async fn who_does_not_exist_can_be_neither_changed_nor_removed() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
async fn a_cache_is_warmed_with_everybody() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
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

#[tokio::test]
async fn an_import_keeps_or_replaces_who_exists() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
    store
        .subscribers()
        .add(&subscriber("bob", 1))
        .await
        .expect("adds");
    let batch = [
        subscriber("alice", 2),
        subscriber("bob", 2),
        subscriber("carol", 2),
        subscriber("carol", 3),
    ];
    let imported = store
        .subscribers()
        .import(&batch, Existing::Keep)
        .await
        .expect("imports");
    assert_eq!(
        imported,
        Imported {
            added: 2,
            replaced: 0,
            kept: vec![1, 3]
        }
    );
    assert_eq!(
        store
            .subscribers()
            .find("bob", "example.org")
            .await
            .expect("finds"),
        Some(credentials(1))
    );
    assert_eq!(
        store
            .subscribers()
            .find("carol", "example.org")
            .await
            .expect("finds"),
        Some(credentials(2))
    );
    let imported = store
        .subscribers()
        .import(&batch, Existing::Replace)
        .await
        .expect("imports");
    assert_eq!(
        imported,
        Imported {
            added: 0,
            replaced: 4,
            kept: Vec::new()
        }
    );
    assert_eq!(
        store
            .subscribers()
            .find("bob", "example.org")
            .await
            .expect("finds"),
        Some(credentials(2))
    );
    assert_eq!(
        store
            .subscribers()
            .find("carol", "example.org")
            .await
            .expect("finds"),
        Some(credentials(3))
    );
}

#[tokio::test]
async fn positions_of_the_kept_count_through_the_whole_batch() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
    store
        .subscribers()
        .add(&subscriber("u777", 1))
        .await
        .expect("adds");
    let batch: Vec<_> = (0..1_000)
        .map(|number| subscriber(&format!("u{number}"), 2))
        .collect();
    let imported = store
        .subscribers()
        .import(&batch, Existing::Keep)
        .await
        .expect("imports");
    assert_eq!(
        imported,
        Imported {
            added: 999,
            replaced: 0,
            kept: vec![777]
        }
    );
}

#[tokio::test]
async fn an_import_that_fails_changes_nothing() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
    fixture
        .execute("CREATE TRIGGER refuse BEFORE INSERT ON subscriber WHEN NEW.username = 'u900' BEGIN SELECT RAISE(ABORT, 'refused by a test'); END")
        .await;
    let batch: Vec<_> = (0..1_000)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    let error = store
        .subscribers()
        .import(&batch, Existing::Keep)
        .await
        .expect_err("is refused");
    assert!(matches!(error, StoreError::Query { .. }), "{error:?}");
    assert!(
        error.to_string().contains("could not import subscribers"),
        "{error}"
    );
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 0);
    assert_eq!(store.subscribers().version().await.expect("reads"), 0);
}

#[tokio::test]
async fn another_process_sees_what_changed() {
    let fixture = Fixture::new();
    let (server, command) = (fixture.store().await, fixture.store().await);
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
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
async fn who_is_too_far_behind_forgets_everything() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
    let fixture = Fixture::new();
    let store = fixture.store().await;
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
async fn a_hash_of_the_wrong_length_is_told() {
    let fixture = Fixture::new();
    let store = fixture.store().await;
    fixture
        .execute("INSERT INTO subscriber VALUES ('alice', 'example.org', x'00', x'00')")
        .await;
    let error = store
        .subscribers()
        .find("alice", "example.org")
        .await
        .expect_err("makes no sense");
    assert!(matches!(error, StoreError::Query { .. }), "{error:?}");
}

#[tokio::test]
async fn a_new_password_ends_registrations_unless_they_are_kept() {
    use std::borrow::Cow;
    use tandem_store::{AddressBindings, BindingRow};
    let fixture = Fixture::new();
    let store = fixture.store().await;
    for user in ["alice", "bob"] {
        let added = store.subscribers().add(&subscriber(user, 1)).await;
        added.expect("adds");
        let binding = BindingRow {
            contact: Cow::Borrowed(b"sip:a@192.0.2.7"),
            q: 1000,
            expires_at: u32::MAX,
            call_id: Cow::default(),
            cseq: 1,
            path: Cow::default(),
            instance: Cow::default(),
            user_agent: Cow::default(),
            source: "192.0.2.7:5060".parse().expect("an address"),
            listener: Cow::default(),
        };
        let bindings = AddressBindings {
            address: format!("{user}@example.org").into_bytes().into(),
            bindings: vec![binding],
        };
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
