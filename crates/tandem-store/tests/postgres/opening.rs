//! What only PostgreSQL refuses.

use crate::Database;
use tandem_store::{Store, StoreError};

#[tokio::test]
async fn a_read_only_standby_is_reported() {
    let database = Database::new();
    let store = database.store().await;
    store.close().await;
    database.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$",
    );
    let error = Store::open(&database.url()).await.expect_err("read-only");
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    assert!(error.to_string().contains("name the primary"), "{error}");
}

#[tokio::test]
async fn a_name_with_a_zero_byte_is_unknown() {
    let store = Database::new().store().await;
    let found = store.subscribers().find("al\0ice", "example.org").await;
    assert_eq!(found.expect("finds"), None);
}
