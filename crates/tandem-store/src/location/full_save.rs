//! A save of everything, for when changes came faster than they could be listed.

use super::{AddressBindings, Locations};
use crate::{Store, StoreError};

/// A full save under way: [`FullSave::add`] every address of record, then [`FullSave::finish`], which removes whatever was not added.
///
/// It is not one long transaction, which would keep `tandem user` waiting: each batch is committed by itself and carries the mark of this
/// save, and what carries another mark goes at the end. One that is given up halfway leaves rows of before beside those of now, as any
/// save that has not happened yet does. Save changes in between with [`FullSave::add`], not with [`Locations::save`].
///
/// Batches in the order of their addresses cost a fraction of what they cost in no order: neighbours lie on the same pages.
#[derive(Debug)]
pub struct FullSave<'s> {
    store: &'s Store,
    mark: i64,
}

impl<'s> Locations<'s> {
    /// Begins a save of everything.
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
        // Plain saves carry 0.
        let mark = last.unwrap_or(0).max(0) + 1;
        Ok(FullSave {
            store: self.store,
            mark,
        })
    }
}

impl FullSave<'_> {
    /// Saves what these addresses of record are bound to now, in one transaction. About a thousand are a good batch.
    ///
    /// # Errors
    /// Any error of the database; nothing of the batch was saved then.
    pub async fn add(&mut self, batch: &[AddressBindings<'_>]) -> Result<(), StoreError> {
        Locations::new(self.store).save_as(batch, self.mark).await
    }

    /// Removes what was not added. Returns how many bindings that were.
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
