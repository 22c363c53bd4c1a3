//! Saves all bindings, for the case that changes came faster than they could be listed.

use super::{AddressBindings, Locations};
use crate::{Store, StoreError};

/// A full save in progress: [`FullSave::add`] every address of record, then call [`FullSave::finish`], which removes everything that was
/// not added.
///
/// It is not one long transaction, because that would block `tandem user`. Each batch is committed on its own and carries the mark of this
/// save; `finish` removes rows with another mark. A full save that is abandoned halfway leaves old rows beside new ones, like any save that
/// has not happened yet. While it is in progress, save changes with [`FullSave::add`], not with [`Locations::save`].
///
/// Batches in the order of their addresses are much cheaper than batches in random order, because neighbours lie on the same pages.
#[derive(Debug)]
pub struct FullSave<'s> {
    store: &'s Store,
    mark: i64,
}

impl<'s> Locations<'s> {
    /// Begins a save of all bindings.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn begin_full_save(&self) -> Result<FullSave<'s>, StoreError> {
        let last: Option<i64> = sqlx::query_scalar("SELECT MAX(full_save) FROM location")
            .fetch_one(self.store.pool())
            .await
            .map_err(|error| {
                self.store
                    .failed("begin a full save of the locations", &error)
            })?;
        // Rows of plain saves carry 0.
        let mark = last.unwrap_or(0).max(0) + 1;
        Ok(FullSave {
            store: self.store,
            mark,
        })
    }
}

impl FullSave<'_> {
    /// Saves the current bindings of these addresses of record in one transaction. About a thousand addresses make a good batch.
    ///
    /// # Errors
    /// Any error of the database; then nothing of the batch is saved.
    pub async fn add(&mut self, batch: &[AddressBindings<'_>]) -> Result<(), StoreError> {
        Locations::new(self.store).save_as(batch, self.mark).await
    }

    /// Removes the bindings that were not added, and returns their number.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn finish(self) -> Result<u64, StoreError> {
        let removed = sqlx::query("DELETE FROM location WHERE full_save <> $1")
            .bind(self.mark)
            .execute(self.store.pool())
            .await
            .map_err(|error| {
                self.store
                    .failed("finish a full save of the locations", &error)
            })?;
        Ok(removed.rows_affected())
    }
}
