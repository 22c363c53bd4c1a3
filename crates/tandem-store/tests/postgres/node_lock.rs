//! The lock that reserves the name of a node.

use crate::Database;
use crate::contract::rows::bound;
use sqlx::{Connection, PgConnection};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tandem_store::{NodeName, Store, StoreError, StoreOptions};

/// Names the database for the process that [`a_killed_process_releases_its_name`] starts.
const URL_OF_CHILD: &str = "TANDEM_STORE_TEST_URL";
/// The sessions that hold the name of node `a` in a database. A session that updates the tables holds another advisory lock.
const HOLDERS: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND (classid::bigint << 32) | objid::bigint = hashtextextended('tandem node a', 0)";

/// Waits until the name is held by a session other than this one, and returns it.
async fn holder_other_than(database: &Database, other: i32) -> i32 {
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut connection = PgConnection::connect(&database.url())
        .await
        .expect("connects");
    loop {
        let holders: Vec<i32> = sqlx::query_scalar(HOLDERS)
            .fetch_all(&mut connection)
            .await
            .expect("reads");
        if let Some(&holder) = holders.iter().find(|&&holder| holder != other) {
            return holder;
        }
        assert!(Instant::now() < deadline, "no session holds the name");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_process_that_holds_the_name_is_reported() {
    let database = Database::new();
    let _server = database.server("a").await.expect("opens");
    let message = database.server("a").await.expect_err("held").to_string();
    let holder = format!("tandem node a, process {} (session ", std::process::id());
    assert!(message.contains(&holder), "{message}");
}

#[tokio::test]
async fn one_name_in_two_databases_is_two_nodes() {
    let (one, other) = (Database::new(), Database::new());
    let _first = one.server("a").await.expect("opens");
    other.server("a").await.expect("opens");
}

#[tokio::test]
async fn a_name_whose_connection_was_lost_is_reserved_again() {
    let database = Database::new();
    let server = database.server("a").await.expect("opens");
    let lost = holder_other_than(&database, 0).await;
    database.execute(&format!("SELECT pg_terminate_backend({lost})"));
    let save = || async { server.locations().save(&[bound("alice", &[1])]).await };
    save().await.expect("saves without it, too");
    holder_other_than(&database, lost).await;
    let refused = database.server("a").await;
    assert!(
        matches!(refused, Err(StoreError::InUse { .. })),
        "{refused:?}"
    );
    save().await.expect("saves");
    assert_eq!(server.name_taken_by(), None);
}

#[tokio::test]
async fn a_killed_process_releases_its_name() {
    if let Ok(url) = std::env::var(URL_OF_CHILD) {
        let node: NodeName = "a".parse().expect("a name");
        let server = Store::open_as(&url, node, StoreOptions::default()).await;
        let _server = server.expect("opens");
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
    holder_other_than(&database, 0).await;
    let refused = database.server("a").await;
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(
        matches!(refused, Err(StoreError::InUse { .. })),
        "{refused:?}"
    );
    database.server("a").await.expect("the name is free");
}
