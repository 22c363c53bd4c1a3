//! Opening: what the first start creates, what later starts find, and which errors are reported.

mod fixture;

use fixture::{Fixture, subscriber};
use std::path::Path;
use tandem_store::{Store, StoreError};

#[tokio::test]
async fn a_first_start_makes_the_database_and_a_later_one_finds_it() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.url()).await.expect("opens");
    assert!(store.created());
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    store.close().await;
    let store = Store::open(&fixture.url()).await.expect("opens again");
    assert!(!store.created());
    assert_eq!(store.subscribers().count(None).await.expect("counts"), 1);
}

#[tokio::test]
async fn a_database_is_opened_without_making_one_when_so_asked() {
    let fixture = Fixture::new();
    let error = Store::open_existing(&fixture.url())
        .await
        .expect_err("is not there");
    assert!(matches!(error, StoreError::NoDatabase { .. }), "{error}");
    assert!(!fixture.file().exists());
    Store::open(&fixture.url())
        .await
        .expect("makes it")
        .close()
        .await;
    Store::open_existing(&fixture.url())
        .await
        .expect("opens")
        .close()
        .await;
}

#[tokio::test]
async fn an_empty_file_is_taken_for_a_database_to_be_made() {
    let fixture = Fixture::new();
    std::fs::write(fixture.file(), b"").expect("writes");
    let store = Store::open(&fixture.url()).await.expect("opens");
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
    let fixture = Fixture::new();
    let store = Store::open(&fixture.url()).await.expect("opens");
    store
        .subscribers()
        .add(&subscriber("alice", 1))
        .await
        .expect("adds");
    for file in [fixture.file(), fixture.beside("-wal")] {
        let mode = std::fs::metadata(&file)
            .expect("is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn the_secret_is_drawn_once() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.url()).await.expect("opens");
    let secret = store.secret().await.expect("draws");
    assert_eq!(store.secret().await.expect("reads"), secret);
    store.close().await;
    let store = Store::open(&fixture.url()).await.expect("opens again");
    assert_eq!(store.secret().await.expect("reads"), secret);
    let other = Fixture::new();
    let store = Store::open(&other.url()).await.expect("opens");
    assert_ne!(store.secret().await.expect("draws"), secret);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_first_starts_at_once_make_one_database_with_one_secret() {
    for _ in 0..10 {
        let fixture = Fixture::new();
        let starts: Vec<_> = (0..6)
            .map(|_| {
                let url = fixture.url();
                tokio::spawn(async move { Store::open(&url).await?.secret().await })
            })
            .collect();
        let mut secrets = Vec::new();
        for start in starts {
            secrets.push(start.await.expect("does not panic").expect("starts"));
        }
        secrets.dedup();
        assert_eq!(secrets.len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_database_is_told_and_left_alone() {
    let fixture = Fixture::new();
    let letter = b"Dear operator, this is a letter and no database. ".repeat(100);
    std::fs::write(fixture.file(), &letter).expect("writes");
    let error = Store::open(&fixture.url()).await.expect_err("is a letter");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains(&fixture.url()) && message.contains("backup"),
        "{message}"
    );
    assert_eq!(std::fs::read(fixture.file()).expect("reads"), letter);
}

#[tokio::test]
async fn a_damaged_database_is_told() {
    let fixture = Fixture::new();
    let store = Store::open(&fixture.url()).await.expect("opens");
    let many: Vec<_> = (0..2_000)
        .map(|number| subscriber(&format!("u{number}"), 1))
        .collect();
    store
        .subscribers()
        .import(&many, tandem_store::Existing::Keep)
        .await
        .expect("imports");
    store.close().await;
    let mut bytes = std::fs::read(fixture.file()).expect("reads");
    // Damage all pages except the first, which identifies the file format.
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0x5a);
    std::fs::write(fixture.file(), bytes).expect("writes");
    let read = async {
        let store = Store::open(&fixture.url()).await?;
        store.subscribers().for_each(|_, _, _| ()).await
    };
    let error = read.await.expect_err("is damaged");
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let fixture = Fixture::new();
    let error = Store::open(&format!(
        "sqlite:{}/none/tandem.db",
        fixture.path().display()
    ))
    .await
    .expect_err("no directory");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("no such directory"), "{error}");
}

#[tokio::test]
async fn a_directory_in_the_place_of_the_file_is_told() {
    let fixture = Fixture::new();
    let error = Store::open(&format!("sqlite:{}", fixture.path().display()))
        .await
        .expect_err("is a directory");
    assert!(error.to_string().contains("is a directory"), "{error}");
}

/// Not even root can create files in /proc.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_directory_that_takes_no_files_is_told() {
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
async fn a_directory_that_takes_no_log_is_told() {
    let fixture = Fixture::new();
    Store::open(&fixture.url())
        .await
        .expect("opens")
        .close()
        .await;
    std::fs::create_dir(fixture.beside("-wal")).expect("makes a directory");
    let error = Store::open(&fixture.url()).await.expect_err("has no log");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("may write there"), "{error}");
}

#[tokio::test]
async fn tables_of_somebody_else_are_left_as_they_are() {
    let fixture = Fixture::new();
    fixture
        .execute("CREATE TABLE subscriber (id INTEGER PRIMARY KEY, username TEXT)")
        .await;
    let error = Store::open(&fixture.url()).await.expect_err("is not ours");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(error.to_string().contains("already exists"), "{error}");
    assert_eq!(fixture.tables().await, ["subscriber"]);
}

#[tokio::test]
async fn tables_of_a_newer_version_are_told() {
    let fixture = Fixture::new();
    Store::open(&fixture.url())
        .await
        .expect("opens")
        .close()
        .await;
    fixture
        .execute("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'later', TRUE, x'00', 0)")
        .await;
    let error = Store::open(&fixture.url()).await.expect_err("is newer");
    assert!(matches!(error, StoreError::Schema { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("a newer version of tandem created it"),
        "{error}"
    );
}
