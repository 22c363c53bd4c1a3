//! Tables that an interrupted start has left.

use crate::Database;

/// Each statement that changes tables is committed alone, so the end of the process may leave some of them.
#[tokio::test]
async fn a_start_that_was_interrupted_is_completed_by_the_next_one() {
    let database = Database::new();
    database.store().await.close().await;
    database.execute("DROP TABLE node_secret; UPDATE _sqlx_migrations SET success = FALSE");
    let store = database.store().await;
    store.secret().await.expect("draws");
}
