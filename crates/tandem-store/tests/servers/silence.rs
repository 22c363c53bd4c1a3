//! A connection that falls silent while a server starts: the network is gone, and nothing says so.

use super::stall::StallingRelay;
use crate::Database;
use crate::database::LOADING;
use std::time::Duration;
use tandem_store::{Store, StoreError};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a start may wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Parts of the statements that compare the tables with this version.
const COMPARING: [&str; 2] = ["FROM _sqlx_migrations", "EXISTS _sqlx_migrations"];

/// Opens a database that has its tables, and reads the bindings. The connection falls silent at a statement that contains `word`.
async fn start(word: &'static str) -> Result<(), StoreError> {
    let database = Database::new();
    database.store().await.close().await;
    let relay = StallingRelay::to(&database.url()).await;
    relay.hold(word);
    let store = Store::open(relay.url()).await?;
    store.locations().load_all(0, |_, _| {}).await.map(drop)
}

#[tokio::test]
async fn a_start_whose_connection_falls_silent_fails_and_can_be_repeated() {
    let mut starts = JoinSet::new();
    for word in COMPARING.into_iter().chain(LOADING) {
        starts.spawn(async move { (word, timeout(PATIENCE, start(word)).await) });
    }
    while let Some(ended) = starts.join_next().await {
        let (word, ended) = ended.expect("does not panic");
        let result = ended.unwrap_or_else(|_| panic!("{word}: it waits for ever"));
        assert!(
            matches!(result, Err(StoreError::Away { .. })),
            "{word}: {result:?}"
        );
    }
}
