//! Aliases and call forwarding, and how a running server learns of their changes.

use super::rows::subscriber;
use crate::Database;
use tandem_store::{Alias, Changed, Forwarding, Store};

fn alias(username: &str, domain: &str, subscriber: &str) -> Alias {
    Alias {
        username: username.into(),
        domain: domain.into(),
        subscriber: subscriber.into(),
    }
}

fn forwarding(target: &str) -> Forwarding {
    Forwarding {
        always: format!("sip:{target}"),
        busy: "sip:busy@example.org".into(),
        no_answer: "sip:late@example.org".into(),
        no_answer_seconds: 20,
        not_registered: String::new(),
    }
}

/// The names that changed after a version, and the version now.
async fn changed(store: &Store, version: u64) -> (Vec<String>, u64) {
    let changes = store.subscribers().changes_since(version).await;
    let changes = changes.expect("the changes");
    let Changed::Named(names) = changes.changed else {
        panic!("too many changes");
    };
    let names = names.into_iter();
    let names = names.map(|(username, domain)| format!("{username}@{domain}"));
    (names.collect(), changes.version)
}

#[tokio::test]
async fn an_alias_is_found_until_it_is_removed_and_each_change_is_recorded() {
    let database = Database::new();
    let store = database.store().await;
    let services = store.services();
    let version = store.subscribers().version().await.expect("a version");
    let number = alias("+4930", "", "alice@example.org");
    let info = alias("info", "example.org", "bob@example.org");
    let batch = [info.clone(), number.clone()];
    services.set_aliases(&batch).await.expect("sets");
    let (names, version) = changed(&store, version).await;
    assert_eq!(names, ["info@example.org", "+4930@"]);
    let found = services.find_alias("+4930", "").await.expect("finds");
    assert_eq!(found.as_deref(), Some("alice@example.org"));
    for (username, domain) in [("+4930", "example.org"), ("Info", "example.org"), ("", "")] {
        let found = services.find_alias(username, domain).await.expect("finds");
        assert_eq!(found, None, "{username}@{domain}");
    }
    let moved = alias("+4930", "", "bob@example.org");
    services
        .set_aliases(std::slice::from_ref(&moved))
        .await
        .expect("sets");
    assert_eq!(changed(&store, version).await.0, ["+4930@"]);
    let all = services.aliases(("", ""), 10).await.expect("lists");
    assert_eq!(all, [moved, info]);
    assert!(services.remove_alias("+4930", "").await.expect("removes"));
    assert!(
        !services
            .remove_alias("+4930", "")
            .await
            .expect("nothing to remove")
    );
    assert_eq!(changed(&store, version).await.0, ["+4930@", "+4930@"]);
    let found = services.find_alias("+4930", "").await.expect("finds");
    assert_eq!(found, None);
}

#[tokio::test]
async fn aliases_are_listed_page_by_page() {
    let database = Database::new();
    let store = database.store().await;
    let services = store.services();
    let domains = ["", "example.net", "example.org"];
    let names = ["1", "2", "a", "\u{e4}"].iter();
    let all: Vec<Alias> = names
        .flat_map(|name| domains.map(|domain| alias(name, domain, "alice@example.org")))
        .collect();
    services.set_aliases(&all).await.expect("sets");
    let mut listed: Vec<Alias> = Vec::new();
    loop {
        let after = listed
            .last()
            .map_or(("", ""), |it| (&*it.username, &*it.domain));
        let page = services.aliases(after, 5).await.expect("lists");
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed, all);
}

#[tokio::test]
async fn call_forwarding_is_replaced_as_a_whole_and_ends_with_its_subscriber() {
    let database = Database::new();
    let store = database.store().await;
    let services = store.services();
    let subscribers = store.subscribers();
    subscribers
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    let version = subscribers.version().await.expect("a version");
    let set = async |forwarding: Forwarding| {
        let set = services.set_forwarding("alice", "example.org", &forwarding);
        set.await.expect("sets")
    };
    let find = async || {
        let found = services.find_forwarding("alice", "example.org");
        found.await.expect("finds")
    };
    assert_eq!(find().await, None);
    assert!(set(forwarding("a@example.org")).await);
    assert!(set(forwarding("b@example.org")).await);
    assert_eq!(find().await, Some(forwarding("b@example.org")));
    let (names, version) = changed(&store, version).await;
    assert_eq!(names, ["alice@example.org", "alice@example.org"]);
    let page = services.forwardings(("", ""), 10).await.expect("lists");
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].username, "alice");
    assert_eq!(page[0].forwarding, forwarding("b@example.org"));
    assert!(set(Forwarding::default()).await);
    assert!(!set(Forwarding::default()).await, "nothing to remove");
    assert_eq!(find().await, None);
    assert_eq!(changed(&store, version).await.0, ["alice@example.org"]);

    set(forwarding("b@example.org")).await;
    subscribers
        .remove("alice", "example.org")
        .await
        .expect("removes");
    assert_eq!(find().await, None);
}
