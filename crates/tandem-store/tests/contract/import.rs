//! Many subscribers at once.

use super::rows::{credentials, subscriber};
use crate::Database;
use std::time::{Duration, Instant};
use tandem_store::{Existing, Imported, StoreError};

#[tokio::test]
async fn an_import_keeps_or_replaces_existing_subscribers() {
    let database = Database::new();
    let store = database.store().await;
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
    let database = Database::new();
    let store = database.store().await;
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
    let database = Database::new();
    let store = database.store().await;
    database.refuse("u900").await;
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

/// As many as a window of `tandem user import`, in its batches.
#[tokio::test]
async fn a_hundred_thousand_subscribers_are_imported_and_read_back() {
    const COUNT: usize = 100_000;
    let database = Database::new();
    let store = database.store().await;
    let begun = Instant::now();
    for start in (0..COUNT).step_by(5_000) {
        let batch: Vec<_> = (start..start + 5_000)
            .map(|number| subscriber(&format!("u{number:06}"), 1))
            .collect();
        let imported = store.subscribers().import(&batch, Existing::Keep).await;
        assert_eq!(imported.expect("imports").added, 5_000);
    }
    let written = begun.elapsed();
    let mut seen = vec![0_u8; COUNT];
    let subscribers = store.subscribers();
    let read = subscribers.for_each(|username, _, _| {
        let number: usize = username.trim_start_matches('u').parse().expect("a number");
        if let Some(count) = seen.get_mut(number) {
            *count += 1;
        }
    });
    assert_eq!(read.await.expect("reads"), COUNT as u64);
    assert!(seen.iter().all(|&count| count == 1));
    let read = begun.elapsed().saturating_sub(written);
    println!("{COUNT} subscribers: written in {written:.2?}, read in {read:.2?}");
    // A million in minutes: a table scan for each name would take hours.
    assert!(written < Duration::from_secs(60), "{written:?}");
}
