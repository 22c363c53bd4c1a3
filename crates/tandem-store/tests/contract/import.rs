//! Many subscribers at once.

use super::rows::{credentials, subscriber};
use crate::Database;
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
