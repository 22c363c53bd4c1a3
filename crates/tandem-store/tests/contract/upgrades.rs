//! Servers of two versions on one database: tables of a newer version are used if its steps only added, and refused otherwise.

use super::records::record;
use super::rows::{bound, subscriber};
use crate::Database;
use tandem_store::{Store, StoreError};

/// The step of a version that does not exist yet.
const LATER: i64 = 9999;

/// Records a later step, as a newer version does, and adds a column to each table.
async fn expand(database: &Database) {
    for table in ["subscriber", "location", "call_record", "dialog", "alias"] {
        let sql = format!("ALTER TABLE {table} ADD COLUMN later VARCHAR(20) DEFAULT 'later'");
        database.run(&sql).await;
    }
    let record = format!(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES ({LATER}, 'later', TRUE, '', 0)"
    );
    database.run(&record).await;
}

/// Says which step the tables need, as a step does that removes what older versions use.
async fn contract(database: &Database) {
    let update = format!("UPDATE schema_compatibility SET oldest_step = {LATER}");
    database.run(&update).await;
}

/// Reads and writes what a server does.
async fn work(store: &Store, number: u8) {
    let name = format!("user{number}");
    let subscribers = store.subscribers();
    subscribers.add(&subscriber(&name, 1)).await.expect("adds");
    let found = subscribers.find(&name, "example.org").await.expect("finds");
    assert!(found.is_some());
    let address = format!("{name}@example.org");
    let bindings = [bound(&address, &[number.into()])];
    store.locations().save(&bindings).await.expect("saves");
    let mut loaded = 0;
    let locations = store.locations();
    let load = locations.load_all(0, |_, _| loaded += 1);
    load.await.expect("loads");
    assert_eq!(loaded, u32::from(number));
    let written = [record(number.into())];
    store.records().append(&written).await.expect("appends");
    let count = store.records().count().await.expect("counts");
    assert_eq!(count, u64::from(number));
}

#[tokio::test]
async fn a_server_works_on_while_a_newer_version_adds_to_its_tables() {
    let database = Database::new();
    let store = database.server("sip-1").await.expect("opens");
    work(&store, 1).await;
    expand(&database).await;
    work(&store, 2).await;
}

#[tokio::test]
async fn a_server_starts_on_tables_to_which_a_newer_version_has_added() {
    let database = Database::new();
    let store = database.server("sip-1").await.expect("opens");
    work(&store, 1).await;
    store.close().await;
    expand(&database).await;
    let store = database.server("sip-1").await.expect("opens again");
    assert!(!store.created());
    work(&store, 2).await;
}

#[tokio::test]
async fn a_server_refuses_tables_from_which_a_newer_version_has_removed_something() {
    let database = Database::new();
    database.store().await.close().await;
    expand(&database).await;
    contract(&database).await;
    let error = database.server("sip-1").await.expect_err("is too old");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(!error.is_temporary());
    let message = error.to_string();
    assert!(
        message.contains("need a version that knows step 9999"),
        "{message}"
    );
}

#[tokio::test]
async fn a_known_step_that_differs_is_refused_beside_newer_ones() {
    let database = Database::new();
    database.store().await.close().await;
    expand(&database).await;
    let change = "UPDATE _sqlx_migrations SET checksum = '' WHERE version = 1";
    database.run(change).await;
    let error = database.server("sip-1").await.expect_err("differs");
    assert!(error.to_string().contains("step 1"), "{error}");
}
