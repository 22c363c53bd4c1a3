//! Who may register, from `subscriber`.

use super::{open, open_with, options};
use crate::Database;
use sip_message::digest::{ha1_md5, ha1_sha256};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tandem_store::{KamailioOptions, Store, StoredCredentials};

/// alice has a password and the hash of it, bob only a password, carol only a hash, and the others nothing that is right. `kamctl` writes
/// rows like those of alice.
const ROWS: &str = "INSERT INTO subscriber (username, domain, password, ha1) VALUES \
    ('alice', 'example.org', 'secret', '1aa6df4af0a1d4a9ccca0b1d1be31d3c'), \
    ('bob', 'Example.NET', 'secret', ''), \
    ('carol', 'example.org', '', '0123456789abcdef0123456789ABCDEF'), \
    ('dave', 'example.org', '', 'short'), \
    ('erin', 'example.org', '', ''), \
    ('frank', '', 'of no domain', ''), \
    ('frank', 'example.org', 'of the domain', ''), \
    ('', 'example.org', 'of nobody', '')";

fn of(username: &str, domain: &str, password: &str) -> StoredCredentials {
    let [user, realm, password] = [username, domain, password].map(str::as_bytes);
    StoredCredentials {
        ha1_md5: ha1_md5(user, realm, password),
        ha1_sha256: ha1_sha256(user, realm, password),
    }
}

async fn find(store: &Store, username: &str, domain: &str) -> Option<StoredCredentials> {
    let found = store.subscribers().find(username, domain).await;
    found.expect("finds")
}

async fn all(store: &Store) -> BTreeMap<String, StoredCredentials> {
    let mut all = BTreeMap::new();
    let subscribers = store.subscribers();
    let read = subscribers.for_each(|username, domain, credentials| {
        let old = all.insert(format!("{username}@{domain}"), credentials);
        assert!(old.is_none(), "{username}@{domain} twice");
    });
    let count = read.await.expect("reads");
    assert_eq!(count, all.len() as u64);
    all
}

#[tokio::test]
async fn subscribers_are_found_and_streamed_with_the_hashes_that_their_rows_give() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    let store = open(&database).await;
    let all = all(&store).await;
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "alice@example.org",
            "bob@example.net",
            "carol@example.org",
            "frank@example.org"
        ],
        "bad rows are skipped"
    );
    for (name, streamed) in &all {
        let (username, domain) = name.split_once('@').expect("a domain");
        assert_eq!(
            find(&store, username, domain).await.as_ref(),
            Some(streamed),
            "{name}"
        );
    }
    assert_eq!(all["bob@example.net"], of("bob", "example.net", "secret"));
    assert_eq!(
        all["frank@example.org"],
        of("frank", "example.org", "of no domain"),
        "of two rows, the first one counts"
    );
    let carol = all["carol@example.org"].ha1_md5;
    assert_eq!(
        u128::from_be_bytes(carol),
        0x0123_4567_89ab_cdef_0123_4567_89ab_cdef
    );
    for other in ["Alice", "alice ", "\u{e1}lice", "dave", "erin", "a\0"] {
        assert_eq!(find(&store, other, "example.org").await, None, "{other:?}");
    }
    assert_eq!(find(&store, "alice", "example.net").await, None);
    assert_eq!(find(&store, "frank", "example.net").await, None);
}

#[tokio::test]
async fn a_hash_that_is_not_there_cannot_be_guessed() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    let carol = async || {
        let store = open(&database).await;
        find(&store, "carol", "example.org")
            .await
            .expect("is there")
            .ha1_sha256
    };
    assert_ne!(carol().await, carol().await);
}

#[tokio::test]
async fn with_calculate_ha1_only_passwords_count() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    database.execute("UPDATE subscriber SET password = 'new' WHERE username = 'alice'");
    let options = KamailioOptions {
        calculate_ha1: true,
        ..options()
    };
    let store = open_with(&database, options).await.expect("opens");
    let alice = find(&store, "alice", "example.org").await;
    assert_eq!(alice, Some(of("alice", "example.org", "new")));
    assert_eq!(find(&store, "carol", "example.org").await, None);
}

#[tokio::test]
async fn changes_that_kamailio_makes_are_found() {
    let database = Database::of_kamailio();
    let store = open(&database).await;
    assert_eq!(find(&store, "bob", "example.net").await, None);
    database.execute(ROWS);
    let bob = find(&store, "bob", "example.net").await;
    assert_eq!(bob, Some(of("bob", "example.net", "secret")));
    database.execute("UPDATE subscriber SET password = 'new' WHERE username = 'bob'");
    let bob = find(&store, "bob", "example.net").await;
    assert_eq!(bob, Some(of("bob", "example.net", "new")));
    let subscribers = store.subscribers();
    assert_eq!(
        subscribers.version().await.expect("reads"),
        0,
        "Kamailio counts no changes"
    );
}

#[tokio::test]
async fn rows_are_counted_and_listed() {
    let database = Database::of_kamailio();
    database.execute(ROWS);
    let store = open(&database).await;
    let subscribers = store.subscribers();
    assert_eq!(subscribers.count(None).await.expect("counts"), 8);
    assert_eq!(
        subscribers
            .count(Some("example.net"))
            .await
            .expect("counts"),
        1
    );
    let mut listed = Vec::new();
    let shown = subscribers.list(Some("example.org"), Some(2), |username, domain| {
        listed.push(format!("{username}@{domain}"));
        ControlFlow::Continue(())
    });
    assert_eq!(shown.await.expect("lists"), 2);
    assert_eq!(listed, ["@example.org", "alice@example.org"]);
}
