//! The order in which entries were added to a table, so that the oldest one can be evicted in constant time.

use crossbeam_queue::ArrayQueue;

/// Keys from the oldest to the newest. A key whose entry was removed stays until it is the oldest.
#[derive(Debug)]
pub(super) struct Order<K>(ArrayQueue<K>);

impl<K> Order<K> {
    /// Creates an order for a table of `most` entries.
    pub(super) fn new(most: usize) -> Self {
        Self(ArrayQueue::new(most.max(1)))
    }

    /// Adds a key. If the order is full, its oldest key leaves it: `evict` removes the entry of that key if it still exists.
    pub(super) fn enter(&self, key: K, evict: impl FnOnce(K)) {
        if let Some(oldest) = self.0.force_push(key) {
            evict(oldest);
        }
    }

    /// Takes the oldest key and passes it to `evict`.
    pub(super) fn leave(&self, evict: impl FnOnce(K)) {
        if let Some(oldest) = self.0.pop() {
            evict(oldest);
        }
    }
}
