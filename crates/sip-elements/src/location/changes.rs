//! Which addresses of record must be saved: a bounded queue from the workers to the control plane. When it is full nobody
//! waits; the next save is a full one.

use super::Changes;
use crossbeam_queue::ArrayQueue;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes that wait to be saved.
#[derive(Debug)]
pub(super) struct PendingChanges {
    addresses: ArrayQueue<Box<[u8]>>,
    overflowed: AtomicBool,
}

impl PendingChanges {
    /// At most `capacity` wait.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            addresses: ArrayQueue::new(capacity.max(1)),
            overflowed: AtomicBool::new(false),
        }
    }

    /// The bindings of `address` have changed. Called after the change can be seen.
    pub(super) fn announce(&self, address: &[u8]) {
        if self.overflowed.load(Ordering::Acquire) {
            return; // A full save is due: it covers this one.
        }
        if self.addresses.push(address.into()).is_err() {
            self.overflowed.store(true, Ordering::Release);
        }
    }

    /// How many changes wait; an address that changed twice may count twice.
    pub(super) fn len(&self) -> usize {
        let more = usize::from(self.overflowed.load(Ordering::Acquire));
        self.addresses.len() + more
    }

    /// Takes what waits, each address once.
    pub(super) fn take(&self) -> Changes {
        // First the flag: what overflows from here on is for the next time.
        let everything = self.overflowed.swap(false, Ordering::AcqRel);
        let mut addresses = Vec::new();
        // No more than fit, so that busy workers cannot keep us here.
        for _ in 0..self.addresses.capacity() {
            match self.addresses.pop() {
                Some(address) => addresses.push(address),
                None => break,
            }
        }
        if everything {
            addresses.clear();
        }
        addresses.sort_unstable();
        addresses.dedup();
        Changes {
            addresses,
            everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_is_listed_once() {
        let pending = PendingChanges::new(10);
        for address in [b"b@x", b"a@x", b"b@x"] {
            pending.announce(address);
        }
        assert_eq!(pending.len(), 3);
        let taken = pending.take();
        assert_eq!(taken.addresses, [Box::from(*b"a@x"), Box::from(*b"b@x")]);
        assert!(!taken.everything);
        assert_eq!(pending.take(), Changes::default());
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn too_many_changes_ask_for_a_full_save_once() {
        let pending = PendingChanges::new(2);
        for address in [b"a@x", b"b@x", b"c@x", b"d@x"] {
            pending.announce(address);
        }
        assert_eq!(
            pending.take(),
            Changes {
                addresses: Vec::new(),
                everything: true
            }
        );
        pending.announce(b"e@x");
        assert_eq!(pending.take().addresses, [Box::from(*b"e@x")]);
    }
}
