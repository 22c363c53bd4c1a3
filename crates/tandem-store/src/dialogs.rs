//! Saved dialogs (RFC 3261 section 12): the server saves them in the background and restores them at its start.
//!
//! Each saved dialog belongs to the node that serves the call. A node reads and deletes only its own.

use crate::database::Database;
use crate::error::StoreError;
use crate::node_name::NodeName;

/// A dialog to save or to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialogRow {
    /// Identifies the dialog.
    pub id: u128,
    /// When it ends at the latest, in seconds since the Unix epoch.
    pub expires_at: u32,
    /// The encoded state. `None`: the dialog has ended, and its row is removed.
    pub state: Option<Box<[u8]>>,
}

/// The saved dialogs of a node of a [`Store`](crate::Store).
#[derive(Clone, Copy, Debug)]
pub struct Dialogs<'s> {
    database: &'s Database,
    node: &'s NodeName,
}

impl<'s> Dialogs<'s> {
    pub(crate) fn new(database: &'s Database, node: &'s NodeName) -> Self {
        Self { database, node }
    }

    /// Passes the state of each dialog of this node that ends after `now` (seconds since the Unix epoch) to `restore`, with its id, in no
    /// particular order. Returns their number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn load_all(
        &self,
        now: u32,
        mut restore: impl FnMut(u128, &[u8]) + Send,
    ) -> Result<u64, StoreError> {
        let backend = &self.database.backend;
        let loaded = backend.load_dialogs(self.node, now, &mut restore).await;
        loaded.map_err(self.database.failed("read the dialogs"))
    }

    /// Passes the state of at most `most` dialogs of this node that ended at or before `now` (seconds since the Unix epoch) to `restore`,
    /// with its id, the latest first. Returns their number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn load_overdue(
        &self,
        now: u32,
        most: u32,
        mut restore: impl FnMut(u128, &[u8]) + Send,
    ) -> Result<u64, StoreError> {
        let backend = &self.database.backend;
        let loaded = backend.load_overdue_dialogs(self.node, (now, most), &mut restore);
        let loaded = loaded.await;
        loaded.map_err(self.database.failed("read the dialogs"))
    }

    /// Saves and removes dialogs of this node in one transaction. Each id occurs at most once.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn save(&self, batch: &[DialogRow]) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let saved = self.database.backend.save_dialogs(self.node, batch).await;
        saved.map_err(self.database.failed("save dialogs"))
    }

    /// Removes dialogs of this node that ended at or before `now` (seconds since the Unix epoch), and returns their number. It reads the
    /// whole table, so call it only at the start.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn delete_expired(&self, now: u32) -> Result<u64, StoreError> {
        let backend = &self.database.backend;
        let deleted = backend.delete_expired_dialogs(self.node, now).await;
        deleted.map_err(self.database.failed("remove expired dialogs"))
    }
}
