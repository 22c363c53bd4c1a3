//! Saves all bindings, for the case that changes came faster than they could be listed.

use super::Locations;
use crate::binding::AddressBindings;
use crate::error::StoreError;

/// A full save in progress: [`FullSave::add`] every address of record, then call [`FullSave::finish`], which removes everything that this
/// node saved before and that was not added.
///
/// It is not one long transaction, because that would block `tandem user`. Each batch is committed on its own and carries the mark of this
/// save; `finish` removes the node's rows with another mark. A full save that is abandoned halfway leaves old rows beside new ones, like any
/// save that has not happened yet. While it is in progress, save changes with [`FullSave::add`], not with [`Locations::save`].
///
/// Batches in the order of their addresses are much cheaper than batches in random order, because neighbours lie on the same pages.
#[derive(Debug)]
pub struct FullSave<'s> {
    locations: Locations<'s>,
    number: i64,
}

impl<'s> Locations<'s> {
    /// Begins a save of all bindings.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn begin_full_save(&self) -> Result<FullSave<'s>, StoreError> {
        let last = self.database.backend.last_full_save(self.node).await;
        let failed = self.database.failed("begin a full save of the locations");
        // Rows of other saves carry 0.
        let number = last.map_err(failed)?.max(0) + 1;
        Ok(FullSave {
            locations: *self,
            number,
        })
    }
}

impl FullSave<'_> {
    /// Saves the current bindings of these addresses of record in one transaction. About a thousand addresses make a good batch.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn add(&mut self, batch: &[AddressBindings<'_>]) -> Result<(), StoreError> {
        self.locations.save_as(batch, self.number).await
    }

    /// Removes the bindings of this node that were not added, and returns their number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn finish(self) -> Result<u64, StoreError> {
        let Locations { database, .. } = self.locations;
        let mark = self.locations.mark(self.number);
        let removed = database.backend.delete_other_saves(mark).await;
        removed.map_err(database.failed("finish a full save of the locations"))
    }
}
