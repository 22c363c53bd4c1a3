//! A database server that answers late, wrongly, or breaks off in the middle of an answer.

use super::database::Database;
use super::relay::{Manner, Relay};
use crate::contract::records::record;
use crate::contract::rows::{bound, subscriber};
use std::time::{Duration, Instant};
use tandem_store::{Existing, Store, StoreError};

/// Lengths of cut answers: from none to some rows of a long one.
const CUTS: [usize; 7] = [0, 1, 5, 17, 60, 500, 10_000];
/// What is no answer of a database: another protocol, zeros, and lengths that never end.
const WRONG: [&[u8]; 3] = [
    b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    &[0; 64],
    &[0xff; 64],
];

/// A database with 1,000 subscribers, and a store that reaches it through a relay.
async fn relayed() -> (Database, Relay, Store) {
    let database = Database::new();
    let subscribers: Vec<_> = (0..1_000)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    let store = database.store().await;
    let imported = store
        .subscribers()
        .import(&subscribers, Existing::Keep)
        .await;
    assert_eq!(imported.expect("imports").added, 1_000);
    store.close().await;
    let relay = Relay::before(&database.url());
    let store = Store::open(&relay.url(&database.url())).await;
    (database, relay, store.expect("opens"))
}

/// Reads all subscribers. Returns how many were seen, and the result.
async fn read(store: &Store) -> (u64, Result<u64, StoreError>) {
    let mut seen = 0;
    let subscribers = store.subscribers();
    let result = subscribers.for_each(|_, _, _| seen += 1).await;
    (seen, result)
}

#[tokio::test]
async fn a_connection_that_breaks_in_an_answer_is_no_end_of_the_answer() {
    let (_database, relay, store) = relayed().await;
    for cut in CUTS {
        relay.set(Manner::Cut(cut));
        let (seen, result) = read(&store).await;
        let error = result.expect_err("cut off");
        assert!(error.is_temporary(), "{cut}: {error}");
        assert!(seen < 1_000, "{cut}: {seen}");
        relay.set(Manner::Honest);
        let (seen, result) = read(&store).await;
        assert_eq!((seen, result.expect("reads")), (1_000, 1_000), "{cut}");
    }
}

/// The server may have done what it was asked, or not: its answer does not arrive.
#[tokio::test]
async fn what_is_repeated_after_a_lost_answer_is_there_once() {
    let (database, relay, store) = relayed().await;
    let records: Vec<_> = (0..250).map(record).collect();
    let bindings = [
        bound("alice@example.org", &[1, 2]),
        bound("bob@example.org", &[3]),
    ];
    for cut in CUTS {
        relay.set(Manner::Cut(cut));
        for result in [
            store.records().append(&records).await,
            store.locations().save(&bindings).await,
        ] {
            // A short answer may have arrived as a whole.
            let failed = result.err();
            let is_temporary = failed.as_ref().is_none_or(StoreError::is_temporary);
            assert!(is_temporary, "{cut}: {failed:?}");
        }
        relay.set(Manner::Honest);
        store.records().append(&records).await.expect("appends");
        store.locations().save(&bindings).await.expect("saves");
    }
    let direct = database.store().await;
    assert_eq!(direct.records().count().await.expect("counts"), 250);
    let mut contacts = 0;
    let locations = direct.locations();
    let loaded = locations.load_all(0, |_, _| contacts += 1).await;
    assert_eq!((contacts, loaded.expect("loads").unreadable), (3, 0));
}

#[tokio::test]
async fn a_wrong_answer_is_an_error_and_its_connection_is_not_used_again() {
    let (_database, relay, store) = relayed().await;
    for wrong in WRONG {
        relay.set(Manner::Wrong(wrong));
        let error = store.subscribers().count(None).await.expect_err("nonsense");
        assert!(error.is_temporary(), "{wrong:?}: {error}");
        relay.set(Manner::Honest);
        let count = store.subscribers().count(None).await;
        assert_eq!(count.expect("counts"), 1_000, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_late_answer_is_waited_for_and_one_that_never_comes_is_given_up() {
    let (_database, relay, store) = relayed().await;
    relay.set(Manner::Late(Duration::from_millis(200)));
    let count = store.subscribers().count(None).await;
    assert_eq!(count.expect("counts"), 1_000);
    relay.set(Manner::Late(Duration::from_secs(600)));
    let begun = Instant::now();
    let error = store.subscribers().count(None).await.expect_err("given up");
    assert!(error.is_temporary(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(25), "{error}");
    // Its connection waits for the late answer; the next operation gets another one.
    relay.set(Manner::Honest);
    let count = store.subscribers().count(None).await;
    assert_eq!(count.expect("counts"), 1_000);
}
