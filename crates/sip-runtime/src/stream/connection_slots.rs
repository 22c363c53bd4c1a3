//! Counts the connections of the process, across all workers.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that are open or being opened. Each holds a descriptor.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSlots(AtomicUsize);

impl ConnectionSlots {
    /// Takes a slot for another connection, unless `most` are taken.
    pub(super) fn take(&self, most: usize) -> bool {
        let more = |count| (count < most).then(|| count + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.fetch_update(set, fetch, more).is_ok()
    }

    /// Releases a slot.
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_slots_are_taken_than_there_are() {
        let connection_slots = ConnectionSlots::default();
        assert!(connection_slots.take(2) && connection_slots.take(2));
        assert!(!connection_slots.take(2));
        // A higher limit applies to the same slots.
        assert!(connection_slots.take(3) && !connection_slots.take(3));
        connection_slots.leave();
        assert!(!connection_slots.take(2) && connection_slots.take(3));
    }
}
