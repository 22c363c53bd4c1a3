//! Saved bindings (RFC 3261 section 10): the server saves them in the background and restores them at its start.
//!
//! The server's memory is authoritative. The database lags behind it by the save interval. A save writes the current bindings of an address
//! of record. Saving again is therefore harmless, and the next save of the same address repairs a lost one.
//!
//! Each saved binding belongs to the node that wrote it last. A node deletes only its own, so nodes can share a database.

mod full_save;

pub use full_save::FullSave;

use crate::backend::Mark;
use crate::binding::{AddressBindings, BindingRow, Loaded};
use crate::database::Database;
use crate::error::StoreError;
use crate::node_name::NodeName;

/// The saved bindings of a [`Store`](crate::Store).
#[derive(Clone, Copy, Debug)]
pub struct Locations<'s> {
    database: &'s Database,
    node: &'s NodeName,
}

impl<'s> Locations<'s> {
    pub(crate) fn new(database: &'s Database, node: &'s NodeName) -> Self {
        Self { database, node }
    }

    /// Passes every binding that expires after `now` (seconds since the Unix epoch) to `restore`, with its address of record, in no
    /// particular order. This includes the bindings of other nodes. Rows are streamed: a million need no more memory than one.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn load_all(
        &self,
        now: u32,
        mut restore: impl FnMut(&[u8], &BindingRow<'_>) + Send,
    ) -> Result<Loaded, StoreError> {
        let loaded = self.database.backend.load(now, &mut restore).await;
        loaded.map_err(self.database.failed("read the locations"))
    }

    /// Saves the current bindings of these addresses of record in one transaction. If a batch has two entries for one address, the later
    /// one counts.
    ///
    /// This replaces what this node saved for these addresses before. What other nodes saved stays, except for a contact that this node
    /// knows with a later expiry: then this node owns the saved binding.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn save(&self, batch: &[AddressBindings<'_>]) -> Result<(), StoreError> {
        self.save_as(batch, 0).await
    }

    /// Removes bindings of this node that expired at or before `now` (seconds since the Unix epoch), and returns their number. It reads the
    /// whole table, so call it only at the start.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn delete_expired(&self, now: u32) -> Result<u64, StoreError> {
        let deleted = self.database.backend.delete_expired(self.node, now).await;
        deleted.map_err(self.database.failed("remove expired locations"))
    }

    /// The number of saved bindings of all nodes, including expired ones.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn count(&self) -> Result<u64, StoreError> {
        let count = self.database.backend.count_bindings().await;
        count.map_err(self.database.failed("count the locations"))
    }

    async fn save_as(
        &self,
        batch: &[AddressBindings<'_>],
        full_save: i64,
    ) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let entries = latest_in_order(batch);
        let saved = self.database.backend.save(&entries, self.mark(full_save));
        saved.await.map_err(self.database.failed("save locations"))
    }

    fn mark(&self, full_save: i64) -> Mark<'s> {
        Mark {
            node: self.node,
            full_save,
        }
    }
}

/// The entries of a batch in the order of their addresses, which is the order of their pages. If an address has several entries, only the
/// latest is kept.
fn latest_in_order<'b, 'a>(batch: &'b [AddressBindings<'a>]) -> Vec<&'b AddressBindings<'a>> {
    let mut entries: Vec<_> = batch.iter().rev().collect();
    // The sort is stable. On the reversed list, the latest entry of an address comes first.
    entries.sort_by(|a, b| a.address.cmp(&b.address));
    entries.dedup_by(|later, kept| later.address == kept.address);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn a_batch_is_written_in_the_order_of_its_addresses_and_the_later_entry_of_an_address_counts() {
        let entry = |address: &'static [u8], bindings: usize| AddressBindings {
            address: Cow::Borrowed(address),
            bindings: vec![
                BindingRow {
                    contact: Cow::Borrowed(b"sip:a@192.0.2.7"),
                    q: 1000,
                    expires_at: 1,
                    call_id: Cow::default(),
                    cseq: 1,
                    path: Cow::default(),
                    instance: Cow::default(),
                    user_agent: Cow::default(),
                    source: ([192, 0, 2, 7], 5060).into(),
                    listener: Cow::default(),
                };
                bindings
            ],
        };
        let batch = [
            entry(b"c", 1),
            entry(b"a", 1),
            entry(b"c", 2),
            entry(b"b", 0),
        ];
        let written: Vec<(&[u8], usize)> = latest_in_order(&batch)
            .into_iter()
            .map(|entry| (&*entry.address, entry.bindings.len()))
            .collect();
        assert_eq!(written, [(&b"a"[..], 1), (b"b", 0), (b"c", 2)]);
    }
}
