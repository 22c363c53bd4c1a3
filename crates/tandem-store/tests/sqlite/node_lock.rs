//! The lock file that reserves the name of a node.

use crate::Database;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tandem_store::{NodeName, Store, StoreError, StoreOptions};

/// Names the database for the process that [`a_killed_process_releases_its_name`] starts.
const URL_OF_CHILD: &str = "TANDEM_STORE_TEST_URL";

async fn open_as(url: &str, node: &str) -> Result<Store, StoreError> {
    let node: NodeName = node.parse().expect("a name");
    Store::open_as(url, node, StoreOptions::default()).await
}

#[tokio::test]
async fn the_process_that_holds_the_name_is_reported() {
    let database = Database::new();
    let _server = database.server("a").await.expect("opens");
    let message = database.server("a").await.expect_err("held").to_string();
    let holder = format!("process {} has locked ", std::process::id());
    assert!(message.contains(&holder), "{message}");
    assert!(message.contains("tandem.db-a.lock"), "{message}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_to_a_database_is_the_same_database() {
    let database = Database::new();
    let _server = database.server("a").await.expect("opens");
    let link = database.path().join("link.db");
    std::os::unix::fs::symlink(database.file(), &link).expect("links");
    let url = format!("sqlite:{}", link.display());
    let error = open_as(&url, "a").await.expect_err("held");
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
}

/// Root may run the server in a directory of another user, who must not choose a file of root by it.
#[cfg(unix)]
#[tokio::test]
async fn a_link_in_place_of_the_lock_file_is_not_followed() {
    let database = Database::new();
    database.store().await.close().await;
    let target = database.path().join("target");
    std::fs::write(&target, "keep this").expect("written");
    std::os::unix::fs::symlink(&target, database.beside("-a.lock")).expect("links");
    let error = database.server("a").await.expect_err("refused").to_string();
    assert!(error.contains("cannot lock"), "{error}");
    let kept = std::fs::read_to_string(&target).expect("read");
    assert_eq!(kept, "keep this");
}

#[tokio::test]
async fn a_killed_process_releases_its_name() {
    if let Ok(url) = std::env::var(URL_OF_CHILD) {
        let _server = open_as(&url, "a").await.expect("opens");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let database = Database::new();
    database.store().await.close().await;
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "node_lock::a_killed_process_releases_its_name"])
        .env(URL_OF_CHILD, database.url())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let locked = wait_for_contents(&database.beside("-a.lock"));
    let refused = database.server("a").await;
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(locked, "the child did not open the database");
    assert!(
        matches!(refused, Err(StoreError::InUse { .. })),
        "{refused:?}"
    );
    database.server("a").await.expect("the name is free");
}

fn wait_for_contents(file: &Path) -> bool {
    let deadline = Instant::now() + Duration::from_secs(20);
    while Instant::now() < deadline {
        if std::fs::metadata(file).is_ok_and(|data| data.len() > 0) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
