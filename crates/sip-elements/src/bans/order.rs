//! In which order entries came into a table, so that the oldest one makes room for a new one in constant time.

use crossbeam_queue::ArrayQueue;

/// Keys from the oldest to the newest. A key whose entry was removed meanwhile stays until its turn comes.
#[derive(Debug)]
pub(super) struct Order<K>(ArrayQueue<K>);

impl<K> Order<K> {
    /// For a table of so many entries.
    pub(super) fn new(most: usize) -> Self {
        Self(ArrayQueue::new(most.max(1)))
    }

    /// A key has come in. Of more than the table holds the oldest ones leave: `evict` removes their entries, if they are still there.
    pub(super) fn enter(&self, key: K, evict: impl FnOnce(K)) {
        if let Some(oldest) = self.0.force_push(key) {
            evict(oldest);
        }
    }

    /// The oldest one leaves.
    pub(super) fn leave(&self, evict: impl FnOnce(K)) {
        if let Some(oldest) = self.0.pop() {
            evict(oldest);
        }
    }
}
