//! Pauses after wrong passwords, for each pair of source and user name.
//!
//! The third wrong password causes a pause of 1 s, and each further one doubles it. During a pause, credentials of that
//! name from that source are not checked: they get the same challenge as a wrong password.

use super::Source;
use super::order::Order;
use crate::location::{AddressHasher, AddressKey, AddressMap, address_map};
use sip_transport::Time;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of the wrong password that causes the first pause.
const FREE: u32 = 3;
/// The first pause. Each further failure doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// How often the pause is doubled at most, which makes 64 s.
const MAX_DOUBLINGS: u32 = 6;
/// How long a name is remembered after its pause if it has no further failures.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The names with wrong passwords.
#[derive(Debug)]
pub(super) struct BackOff {
    attempts: AddressMap<Attempts>,
    hasher: AddressHasher,
    order: Order<AddressKey>,
    known: AtomicUsize,
    evicted: AtomicU64,
}

#[derive(Debug)]
struct Attempts {
    failures: AtomicU32,
    /// When the pause ends, in microseconds.
    until: AtomicU64,
}

impl BackOff {
    /// Creates a table for `most` names. When it is full, a new name evicts the oldest one.
    pub(super) fn new(most: usize) -> Self {
        Self {
            attempts: address_map(),
            hasher: AddressHasher::random(),
            order: Order::new(most),
            known: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    fn key(&self, source: Source, username: &[u8], realm: &[u8]) -> AddressKey {
        self.hasher
            .key_of_parts(&[&source.bits().to_be_bytes(), username, b"@", realm])
    }

    fn is_empty(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }

    /// Whether a pause is in force.
    pub(super) fn pauses(&self, source: Source, username: &[u8], realm: &[u8], now: Time) -> bool {
        !self.is_empty()
            && self
                .attempts
                .pin()
                .get(&self.key(source, username, realm))
                .is_some_and(|attempts| attempts.until.load(Ordering::Relaxed) > now.as_micros())
    }

    /// Counts a wrong password and starts a pause if there were too many.
    pub(super) fn failed(&self, source: Source, username: &[u8], realm: &[u8], now: Time) {
        let key = self.key(source, username, realm);
        let attempts = self.attempts.pin();
        let entry = attempts.get(&key).unwrap_or_else(|| {
            self.order.enter(key, |oldest| {
                if self.remove(oldest) {
                    self.evicted.fetch_add(1, Ordering::Relaxed);
                }
            });
            attempts.get_or_insert_with(key, || {
                self.known.fetch_add(1, Ordering::Relaxed);
                Attempts {
                    failures: AtomicU32::new(0),
                    until: AtomicU64::new(0),
                }
            })
        });
        let failures = entry.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let pause = match failures.checked_sub(FREE) {
            Some(doublings) => FIRST * (1 << doublings.min(MAX_DOUBLINGS)),
            None => Duration::ZERO,
        };
        let until = (now + pause).as_micros();
        entry.until.fetch_max(until, Ordering::Relaxed);
    }

    fn remove(&self, key: AddressKey) -> bool {
        let removed = self.attempts.pin().remove(&key).is_some();
        if removed {
            self.known.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    /// The number of names that were evicted.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Forgets a name after a right password.
    pub(super) fn succeeded(&self, source: Source, username: &[u8], realm: &[u8]) {
        if self.is_empty() {
            return;
        }
        self.remove(self.key(source, username, realm));
    }

    /// Forgets names whose pause ended long ago.
    pub(super) fn sweep(&self, now: Time) {
        let is_over = |attempts: &Attempts| {
            Time::from_micros(attempts.until.load(Ordering::Relaxed)) + REMEMBERED < now
        };
        let attempts = self.attempts.pin();
        for (key, _) in &attempts {
            if let Ok(Some(_)) = attempts.remove_if(key, |_, attempts| is_over(attempts)) {
                self.known.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The number of names remembered.
    pub(super) fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(1_000 + seconds)
    }

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    #[test]
    fn the_third_failure_begins_a_pause_and_each_further_one_doubles_it() {
        let back_off = BackOff::new(10);
        let pauses = |now| back_off.pauses(source(1), b"alice", b"example.org", at(now));
        let mut now = 0;
        for pause in [0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64] {
            assert!(!pauses(now));
            back_off.failed(source(1), b"alice", b"example.org", at(now));
            assert_eq!((0..100).find(|second| !pauses(now + second)), Some(pause));
            now += pause;
        }
        back_off.failed(source(1), b"alice", b"example.org", at(now));
        assert!(pauses(now));
        assert!(!back_off.pauses(source(2), b"alice", b"example.org", at(now)));
        assert!(!back_off.pauses(source(1), b"bob", b"example.org", at(now)));
        back_off.succeeded(source(1), b"alice", b"example.org");
        assert!(!pauses(now));
        assert_eq!(back_off.len(), 0);
    }

    #[test]
    fn names_are_bounded_and_forgotten() {
        let back_off = BackOff::new(2);
        for name in [b"a", b"b", b"b", b"b", b"c"] {
            back_off.failed(source(1), name, b"example.org", at(0));
        }
        assert_eq!((back_off.len(), back_off.evicted()), (2, 1));
        assert!(back_off.pauses(source(1), b"b", b"example.org", at(0)));
        back_off.sweep(at(600));
        assert_eq!(back_off.len(), 2);
        back_off.sweep(at(602));
        assert_eq!(back_off.len(), 0);
    }
}
