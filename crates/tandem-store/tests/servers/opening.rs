//! Opening a database: what is left alone, and which errors are reported.

use crate::Database;
use crate::database::{NO_DATABASE, SCHEME, WRONG_PASSWORD};
use crate::process::free_port;
use tandem_store::{Store, StoreError};

#[tokio::test]
async fn a_user_that_is_refused_is_reported_without_the_password() {
    let url = Database::new().url_of("locked:guessed");
    let error = Store::open(&url).await.expect_err("refused");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let message = error.to_string();
    let shown = format!("{SCHEME}://locked@127.0.0.1");
    assert!(
        message.contains(WRONG_PASSWORD) && message.contains(&shown),
        "{message}"
    );
    assert!(!message.contains("guessed"), "{message}");
}

#[tokio::test]
async fn a_missing_database_is_named() {
    let url = format!("{}missing", Database::new().url());
    let error = Store::open(&url).await.expect_err("is not there");
    let message = error.to_string();
    assert!(
        NO_DATABASE.iter().all(|part| message.contains(part)),
        "{message}"
    );
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_reported_as_temporary() {
    let url = format!("{SCHEME}://tandem:secret@127.0.0.1:{}/t", free_port());
    let error = Store::open(&url).await.expect_err("nothing listens");
    assert!(matches!(error, StoreError::Away { .. }), "{error:?}");
    assert!(error.is_temporary());
    let message = error.to_string();
    assert!(
        message.contains("refused") && message.contains("tandem@127.0.0.1"),
        "{message}"
    );
    assert!(!message.contains("secret"), "{message}");
}

#[tokio::test]
async fn a_database_without_tables_is_not_for_commands_that_need_some() {
    let database = Database::new();
    let error = Store::open_existing(&database.url()).await;
    let error = error.expect_err("has no tables");
    assert!(matches!(error, StoreError::NoDatabase { .. }), "{error:?}");
    database.store().await.close().await;
    Store::open_existing(&database.url()).await.expect("opens");
}

#[tokio::test]
async fn tables_of_another_program_are_left_as_they_are() {
    let database = Database::new();
    database.execute("CREATE TABLE subscriber (id INTEGER PRIMARY KEY, username VARCHAR(64))");
    let error = Store::open(&database.url()).await.expect_err("is not ours");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(
        error.to_string().contains("another program: subscriber"),
        "{error}"
    );
    // This fails if the table is there.
    database.execute("CREATE TABLE _sqlx_migrations (id INTEGER)");
}
