//! Opening a file: what is created, what is left alone, and which errors are reported.

use crate::Database;
use crate::contract::rows::subscriber;
use std::path::Path;
use tandem_store::{Store, StoreError};

#[tokio::test]
async fn opening_an_existing_database_creates_none() {
    let database = Database::new();
    let error = Store::open_existing(&database.url())
        .await
        .expect_err("is not there");
    assert!(matches!(error, StoreError::NoDatabase { .. }), "{error}");
    assert!(!database.file().exists());
    Store::open(&database.url())
        .await
        .expect("makes it")
        .close()
        .await;
    Store::open_existing(&database.url())
        .await
        .expect("opens")
        .close()
        .await;
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let database = Database::new();
    std::fs::write(database.file(), b"").expect("writes");
    let store = Store::open(&database.url()).await.expect("opens");
    assert!(store.created());
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_database_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let database = Database::new();
    let store = Store::open(&database.url()).await.expect("opens");
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    for file in [database.file(), database.beside("-wal")] {
        let mode = std::fs::metadata(&file)
            .expect("is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_reported_and_left_alone() {
    let database = Database::new();
    let letter = b"Dear operator, this is a letter and no database. ".repeat(100);
    std::fs::write(database.file(), &letter).expect("writes");
    let error = Store::open(&database.url()).await.expect_err("is a letter");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(&database.url()) && message.contains("backup"),
        "{message}"
    );
    assert_eq!(std::fs::read(database.file()).expect("reads"), letter);
}

#[tokio::test]
async fn a_damaged_database_is_reported() {
    let database = Database::new();
    let store = Store::open(&database.url()).await.expect("opens");
    let many: Vec<_> = (0..2_000)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    store
        .subscribers()
        .import(&many, tandem_store::Existing::Keep)
        .await
        .expect("imports");
    store.close().await;
    let mut bytes = std::fs::read(database.file()).expect("reads");
    // Damage all pages except the first, which identifies the file format.
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0x5a);
    std::fs::write(database.file(), bytes).expect("writes");
    let read = async {
        let store = Store::open(&database.url()).await?;
        store.subscribers().for_each(|_, _, _| ()).await
    };
    let error = read.await.expect_err("is damaged");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let database = Database::new();
    let error = Store::open(&format!(
        "sqlite:{}/none/tandem.db",
        database.path().display()
    ))
    .await
    .expect_err("no directory");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("no such directory"), "{error}");
}

#[tokio::test]
async fn a_directory_in_the_place_of_the_file_is_reported() {
    let database = Database::new();
    let error = Store::open(&format!("sqlite:{}", database.path().display()))
        .await
        .expect_err("is a directory");
    assert!(error.to_string().contains("is a directory"), "{error}");
}

/// Not even root can create files in /proc.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_takes_no_files_is_reported() {
    assert!(Path::new("/proc").is_dir());
    let error = Store::open("sqlite:/proc/tandem.db")
        .await
        .expect_err("takes no files");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("/proc/tandem.db cannot be created")
            && message.contains("may write there"),
        "{message}"
    );
}

/// The database can be read, but no log can be created: a directory has the name of the log.
#[tokio::test]
async fn a_directory_that_takes_no_log_is_reported() {
    let database = Database::new();
    Store::open(&database.url())
        .await
        .expect("opens")
        .close()
        .await;
    std::fs::create_dir(database.beside("-wal")).expect("makes a directory");
    let error = Store::open(&database.url()).await.expect_err("has no log");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("may write there"), "{error}");
}

#[tokio::test]
async fn tables_of_another_program_are_left_as_they_are() {
    let database = Database::new();
    database
        .execute("CREATE TABLE subscriber (id INTEGER PRIMARY KEY, username TEXT)")
        .await;
    let error = Store::open(&database.url()).await.expect_err("is not ours");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert_eq!(database.tables().await, ["subscriber"]);
}

/// The migration that adds the node to each row fills it with a default, which must be the default name of a server.
#[tokio::test]
async fn rows_without_a_node_belong_to_the_default_one() {
    let database = Database::new();
    let store = database.store().await;
    database
        .execute(
            "INSERT INTO location (address, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener, full_save) \
             VALUES (x'61', x'62', 0, 1, x'63', 1, x'', x'', x'', '192.0.2.1:5060', '', 0)",
        )
        .await;
    assert_eq!(store.locations().count().await.expect("counts"), 1);
    let deleted = store.locations().delete_expired(u32::MAX).await;
    assert_eq!(deleted.expect("deletes"), 1);
}
