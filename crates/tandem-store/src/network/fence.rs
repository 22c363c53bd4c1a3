//! Keeps a server from writing after another one has taken its name (fencing): each reservation of a name has an epoch in the database,
//! and a transaction that writes fails unless the epoch is still that of this server.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The epoch of no reservation. The first one has 1.
const NONE: i64 = 0;

/// In which epoch a store writes, and whether another server has begun a later one.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    epoch: AtomicI64,
    taken_by: Mutex<Option<Arc<str>>>,
}

impl Fence {
    /// The epoch in which this store has reserved its name; `None`: it has reserved none, and writes without one.
    pub(crate) fn epoch(&self) -> Option<i64> {
        let epoch = self.epoch.load(Ordering::Acquire);
        (epoch != NONE).then_some(epoch)
    }

    /// Who has taken the name; `None`: it was not taken, as far as this store knows.
    pub(crate) fn taken_by(&self) -> Option<Arc<str>> {
        self.lock().clone()
    }

    /// The name is reserved in this epoch.
    pub(crate) fn open(&self, epoch: i64) {
        let mut taken_by = self.lock();
        self.epoch.store(epoch, Ordering::Release);
        *taken_by = None;
    }

    /// Another server has taken the name.
    pub(crate) fn close(&self, by: &str) {
        *self.lock() = Some(by.into());
    }

    /// The database has refused a transaction of this epoch: another server has begun a later one.
    pub(crate) fn note_refusal(&self, epoch: i64) {
        let mut taken_by = self.lock();
        // This server may have the name again since.
        if self.epoch.load(Ordering::Acquire) == epoch {
            taken_by.get_or_insert_with(|| "another session has taken the node name".into());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.taken_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
