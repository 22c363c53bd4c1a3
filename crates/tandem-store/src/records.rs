//! The records of calls: appended in batches, deleted when they are old.

use crate::call_row::CallRow;
use crate::database::Database;
use crate::error::StoreError;
use crate::node_name::NodeName;

/// The records in a [`Store`](crate::Store).
#[derive(Clone, Copy, Debug)]
pub struct Records<'s> {
    database: &'s Database,
    node: &'s NodeName,
}

impl<'s> Records<'s> {
    pub(crate) fn new(database: &'s Database, node: &'s NodeName) -> Self {
        Self { database, node }
    }

    /// Adds records in one transaction. A record whose `id` is there already is skipped, so a batch can be repeated if it is unknown
    /// whether it was saved.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn append(&self, batch: &[CallRow<'_>]) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let appended = self.database.backend.append(batch, self.node).await;
        appended.map_err(self.database.failed("save call records"))
    }

    /// The number of records of all nodes. It reads the whole table.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn count(&self) -> Result<u64, StoreError> {
        let count = self.database.backend.count_records().await;
        count.map_err(self.database.failed("count the call records"))
    }

    /// Deletes at most `most` records of this node that ended before `before` (milliseconds since the Unix epoch), and returns their
    /// number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn delete_ended_before(&self, before: i64, most: u32) -> Result<u64, StoreError> {
        let backend = &self.database.backend;
        let deleted = backend.delete_records(self.node, before, most).await;
        deleted.map_err(self.database.failed("delete old call records"))
    }
}
