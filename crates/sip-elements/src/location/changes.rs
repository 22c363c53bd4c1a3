//! The addresses of record that must be saved, and the progress of saving.
//!
//! Workers announce changes through a bounded queue to the control plane. When the queue is full, workers do not wait;
//! the next save is a full one instead.
//!
//! Saves are numbered. An announced change is part of the next save to begin. To get the number of that save, a worker
//! calls [`PendingChanges::next_save`] after the announcement. Once [`PendingChanges::is_saved`] is true for that number,
//! the change is in the database.

use super::Changes;
use crossbeam_queue::ArrayQueue;
use sip_transport::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

/// The changes that wait to be saved.
#[derive(Debug)]
pub(super) struct PendingChanges {
    addresses: ArrayQueue<Box<[u8]>>,
    overflowed: AtomicBool,
    /// When the oldest waiting change was announced, in microseconds; 0: none waits.
    waits_since: AtomicU64,
    /// The same for the changes that are being saved.
    saving_since: AtomicU64,
    /// The number of saves begun, and the number of the last save that succeeded.
    begun: AtomicU64,
    saved: AtomicU64,
    /// How many changes may wait. 0: nothing has been saved yet.
    room: AtomicUsize,
}

impl PendingChanges {
    /// Creates a queue for at most `capacity` changes.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            addresses: ArrayQueue::new(capacity.max(1)),
            overflowed: AtomicBool::new(false),
            waits_since: AtomicU64::new(0),
            saving_since: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            room: AtomicUsize::new(0),
        }
    }

    /// Announces that the bindings of `address` have changed. Call it when the change is already visible.
    pub(super) fn announce(&self, address: &[u8], now: Time) {
        // First the change is visible, then the flag is read. `take` works in the opposite order: it resets the flag,
        // then reads the bindings.
        fence(Ordering::SeqCst);
        if self.overflowed.load(Ordering::Acquire) {
            return; // The full save that is due covers this change.
        }
        if self.addresses.push(address.into()).is_err() {
            self.overflowed.store(true, Ordering::Release);
        }
        if self.waits_since.load(Ordering::Relaxed) == 0 {
            let now = now.as_micros();
            let _ = self
                .waits_since
                .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// The number of waiting changes. An address that changed twice may count twice.
    pub(super) fn len(&self) -> usize {
        let more = usize::from(self.overflowed.load(Ordering::Acquire));
        self.addresses.len() + more
    }

    /// Begins a save: takes all waiting changes, each address once.
    pub(super) fn take(&self) -> Changes {
        let save = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // A change announced after this may miss this save. Its worker then sees that this save has begun and waits for
        // the next one.
        fence(Ordering::SeqCst);
        let since = self.waits_since.load(Ordering::Relaxed);
        if self.saving_since.load(Ordering::Relaxed) == 0 {
            self.saving_since.store(since, Ordering::Relaxed);
        }
        self.waits_since.store(0, Ordering::Relaxed);
        // Reset the flag first: a later overflow belongs to the next save.
        let everything = self.overflowed.swap(false, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let mut addresses = Vec::new();
        // Take no more than the capacity, or busy workers could keep this loop running.
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
            save,
        }
    }

    /// Notes that everything up to this save is in the database. From now on `room` changes may wait.
    pub(super) fn note_saved(&self, save: u64, room: usize) {
        self.saving_since.store(0, Ordering::Relaxed);
        self.saved.store(save, Ordering::Release);
        self.room.store(room.max(1), Ordering::Relaxed);
    }

    /// The number of the save that will include everything this thread has announced.
    pub(super) fn next_save(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Whether the save with this number has succeeded.
    pub(super) fn is_saved(&self, save: u64) -> bool {
        self.saved.load(Ordering::Acquire) >= save
    }

    /// The age of the oldest change that is not in the database.
    pub(super) fn lag(&self, now: Time) -> Duration {
        let stamps = [&self.saving_since, &self.waits_since];
        let stamps = stamps.map(|stamp| stamp.load(Ordering::Relaxed));
        let oldest = stamps.into_iter().filter(|stamp| *stamp != 0).min();
        oldest.map_or(Duration::ZERO, |oldest| now - Time::from_micros(oldest))
    }

    /// Whether more changes wait than can be saved in time, or one has waited longer than `longest`. Always false before
    /// the first save.
    pub(super) fn is_behind(&self, longest: Duration, now: Time) -> bool {
        let room = self.room.load(Ordering::Relaxed);
        room != 0 && (self.addresses.len() > room || self.lag(now) > longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Time = Time::from_micros(5_000_000);

    fn at(millis: u64) -> Time {
        AT + Duration::from_millis(millis)
    }

    #[test]
    fn the_lag_grows_while_a_save_hangs_and_ends_with_it() {
        let pending = PendingChanges::new(10);
        pending.announce(b"a@x", at(0));
        let first = pending.take();
        pending.announce(b"b@x", at(100));
        assert_eq!(pending.lag(at(500)), Duration::from_millis(500));
        // The first save has failed, and the next one includes more.
        let second = pending.take();
        assert_eq!(second.save, first.save + 1);
        assert_eq!(pending.lag(at(600)), Duration::from_millis(600));
        pending.note_saved(second.save, 10);
        assert_eq!(pending.lag(at(700)), Duration::ZERO);
        pending.announce(b"c@x", at(700));
        assert_eq!(pending.lag(at(900)), Duration::from_millis(200));
    }

    #[test]
    fn a_change_is_saved_with_the_save_that_begins_after_it_was_announced() {
        let pending = PendingChanges::new(10);
        let under_way = pending.take().save;
        pending.announce(b"a@x", AT);
        let due = pending.next_save();
        pending.note_saved(under_way, 10);
        assert!(!pending.is_saved(due));
        let next = pending.take();
        assert_eq!((next.save, next.addresses.len()), (due, 1));
        pending.note_saved(next.save, 10);
        assert!(pending.is_saved(due));
    }

    #[test]
    fn saving_is_behind_by_number_or_by_time() {
        let pending = PendingChanges::new(10);
        let longest = Duration::from_millis(500);
        pending.announce(b"a@x", at(0));
        assert!(!pending.is_behind(longest, at(10_000)), "no save is due");
        pending.note_saved(pending.take().save, 2);
        for address in [b"a@x", b"b@x"] {
            pending.announce(address, at(10_000));
        }
        assert!(!pending.is_behind(longest, at(10_500)));
        assert!(pending.is_behind(longest, at(10_501)));
        pending.announce(b"c@x", at(10_000));
        assert!(pending.is_behind(longest, at(10_000)));
    }

    #[test]
    fn each_address_is_listed_once() {
        let pending = PendingChanges::new(10);
        for address in [b"b@x", b"a@x", b"b@x"] {
            pending.announce(address, AT);
        }
        assert_eq!(pending.len(), 3);
        let taken = pending.take();
        assert_eq!(taken.addresses, [Box::from(*b"a@x"), Box::from(*b"b@x")]);
        assert!(!taken.everything);
        assert_eq!(pending.take().addresses.len(), 0);
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn too_many_changes_ask_for_a_full_save_once() {
        let pending = PendingChanges::new(2);
        for address in [b"a@x", b"b@x", b"c@x", b"d@x"] {
            pending.announce(address, AT);
        }
        assert_eq!(
            pending.take(),
            Changes {
                addresses: Vec::new(),
                everything: true,
                save: 1,
            }
        );
        pending.announce(b"e@x", AT);
        assert_eq!(pending.take().addresses, [Box::from(*b"e@x")]);
    }
}
