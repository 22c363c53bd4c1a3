//! The saves of a node take turns, including those that Tandem has given up.
//!
//! Tandem gives a save up when its answer is late, and repeats it on another connection. The server may still commit the first
//! transaction. A statement does not see rows that another transaction has yet to commit, so without turns the late commit could bring back
//! what a later save has deleted.

use super::node_lock::begin_as;
use crate::network::Fence;
use crate::node_name::NodeName;
use sqlx::{PgConnection, PgTransaction};

/// Begins a transaction that changes the node's rows of a table. Waits until earlier transactions of this kind have ended; the lock ends
/// with the transaction.
pub(super) async fn begin<'c>(
    connection: &'c mut PgConnection,
    table: &'static str,
    node: &NodeName,
    fence: &Fence,
) -> Result<PgTransaction<'c>, sqlx::Error> {
    let mut transaction = begin_as(connection, node, fence).await?;
    sqlx::query(
        "SELECT pg_advisory_xact_lock(hashtextextended('tandem ' || $1 || ' of ' || $2, 0))",
    )
    .bind(table)
    .bind(node.as_str())
    .execute(&mut *transaction)
    .await?;
    Ok(transaction)
}
