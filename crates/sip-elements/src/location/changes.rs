//! Which addresses of record must be saved: a bounded queue from the workers to the control plane, and how far the control plane is. When it
//! is full, callers do not wait; the next save is a full one.
//!
//! Saves have numbers. A change that a worker has announced is part of the save that begins next: [`PendingChanges::next_save`], asked after
//! the announcement, is its number, and once [`PendingChanges::is_saved`] holds for it, the change is in the database.

use super::Changes;
use crossbeam_queue::ArrayQueue;
use sip_transport::Time;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

/// Changes that wait to be saved.
#[derive(Debug)]
pub(super) struct PendingChanges {
    addresses: ArrayQueue<Box<[u8]>>,
    overflowed: AtomicBool,
    /// When the first of those that wait was announced, in microseconds; 0: none.
    waits_since: AtomicU64,
    /// The same of those being saved.
    saving_since: AtomicU64,
    /// Saves begun, and the number of the last one that succeeded.
    begun: AtomicU64,
    saved: AtomicU64,
    /// How many may wait; 0: it is not known that anybody saves.
    room: AtomicUsize,
}

impl PendingChanges {
    /// At most `capacity` wait.
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

    /// The bindings of `address` have changed. Called after the change can be seen.
    pub(super) fn announce(&self, address: &[u8], now: Time) {
        // The change comes first, then the look at the flag; `take` resets the flag first and then looks at the bindings.
        fence(Ordering::SeqCst);
        if self.overflowed.load(Ordering::Acquire) {
            return; // A full save is due: it covers this one.
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

    /// How many changes wait; an address that changed twice may count twice.
    pub(super) fn len(&self) -> usize {
        let more = usize::from(self.overflowed.load(Ordering::Acquire));
        self.addresses.len() + more
    }

    /// Begins a save: takes what waits, each address once.
    pub(super) fn take(&self) -> Changes {
        let save = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        // What is announced after this may miss the save, and its worker then reads this save's number as begun.
        fence(Ordering::SeqCst);
        let since = self.waits_since.load(Ordering::Relaxed);
        if self.saving_since.load(Ordering::Relaxed) == 0 {
            self.saving_since.store(since, Ordering::Relaxed);
        }
        self.waits_since.store(0, Ordering::Relaxed);
        // First the flag: what overflows from here on is for the next time.
        let everything = self.overflowed.swap(false, Ordering::AcqRel);
        fence(Ordering::SeqCst);
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
            save,
        }
    }

    /// Everything up to this save is in the database; from now on so many changes may wait.
    pub(super) fn note_saved(&self, save: u64, room: usize) {
        self.saving_since.store(0, Ordering::Relaxed);
        self.saved.store(save, Ordering::Release);
        self.room.store(room.max(1), Ordering::Relaxed);
    }

    /// The number of the save that will cover what this thread has announced.
    pub(super) fn next_save(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) + 1
    }

    /// Whether that save has succeeded.
    pub(super) fn is_saved(&self, save: u64) -> bool {
        self.saved.load(Ordering::Acquire) >= save
    }

    /// Age of the oldest change that is not in the database.
    pub(super) fn lag(&self, now: Time) -> Duration {
        let stamps = [&self.saving_since, &self.waits_since];
        let stamps = stamps.map(|stamp| stamp.load(Ordering::Relaxed));
        let oldest = stamps.into_iter().filter(|stamp| *stamp != 0).min();
        oldest.map_or(Duration::ZERO, |oldest| now - Time::from_micros(oldest))
    }

    /// Whether more waits than can be saved in time, or has waited for longer than `longest`. Never before the first save.
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
        // It has failed, and the next one takes more.
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
    fn whoever_saves_is_behind_by_number_or_by_time() {
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
