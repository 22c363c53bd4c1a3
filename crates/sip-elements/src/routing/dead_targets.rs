//! Remembers failed candidates for a while, so that calls of all workers try them last (RFC 3263 section 4.3).
//!
//! This only changes the order. If all candidates of a destination are dead, they are still tried.

use sip_transport::Time;
use sip_transport::selection::Candidate;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long an entry is kept after its time, in case a call tries the candidate.
const UNTRIED: Duration = Duration::from_secs(600);

/// Why a candidate is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFailure {
    /// It did not respond in time.
    Silent,
    /// Nothing could be sent to it.
    Unreachable,
    /// It answered 503. Or an ICMP error came for a request that must not fail over because of one datagram.
    Unavailable,
    /// It answered 503 with Retry-After. Until that time is over, its responses do not make it available again.
    RetryAfter,
}

/// The size of the table now, and counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeadTargetStats {
    /// Candidates that are dead, or were not tried again since.
    pub known: usize,
    /// Failures of candidates that were alive.
    pub died: u64,
    /// Candidates that were revived by a response.
    pub revived: u64,
    /// Failures that were not remembered for lack of room.
    pub forgotten: u64,
}

/// The candidates that failed recently. Reading takes no lock. While there are none, it costs one load.
#[derive(Debug)]
pub struct DeadTargets {
    entries: papaya::HashMap<Candidate, Entry>,
    most: usize,
    known: AtomicUsize,
    died: AtomicU64,
    revived: AtomicU64,
    forgotten: AtomicU64,
}

#[derive(Debug)]
struct Entry {
    /// In microseconds. After this time one call may try the candidate, and the others wait for another lifetime.
    until: AtomicU64,
    /// The end of the rest that it asked for. No response revives it before. Calls that try it do not change this.
    rests_until: Option<Time>,
    why: TargetFailure,
}

impl Default for DeadTargets {
    fn default() -> Self {
        Self::new(4_096)
    }
}

impl DeadTargets {
    /// Creates a table for `most` candidates.
    pub fn new(most: usize) -> Self {
        Self {
            entries: papaya::HashMap::new(),
            most,
            known: AtomicUsize::new(0),
            died: AtomicU64::new(0),
            revived: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Whether no candidate is remembered.
    pub fn is_empty(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }

    /// Records that a candidate failed.
    pub fn mark_failed(&self, candidate: Candidate, until: Time, why: TargetFailure) {
        let entries = self.entries.pin();
        let known = entries.get(&candidate);
        if known.is_none() {
            if self.known.load(Ordering::Relaxed) >= self.most {
                self.forgotten.fetch_add(1, Ordering::Relaxed);
                return;
            }
            self.died.fetch_add(1, Ordering::Relaxed);
        }
        // A request that was already on its way does not shorten the rest that the candidate asked for.
        if known.is_some_and(|known| known.rests_until.is_some_and(|end| end > until)) {
            return;
        }
        let entry = Entry {
            until: AtomicU64::new(until.as_micros()),
            rests_until: (why == TargetFailure::RetryAfter).then_some(until),
            why,
        };
        if entries.insert(candidate, entry).is_none() {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a call may try the candidate as if it were alive. When its time is over, the first call that asks may. The
    /// others avoid it for another `lifetime`, unless that call revives it.
    pub fn admits(&self, candidate: Candidate, now: Time, lifetime: Duration) -> bool {
        if self.is_empty() {
            return true;
        }
        let entries = self.entries.pin();
        let Some(entry) = entries.get(&candidate) else {
            return true;
        };
        let until = entry.until.load(Ordering::Relaxed);
        let next = (now + lifetime).as_micros();
        until <= now.as_micros()
            && entry
                .until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether the candidate does not respond at all. One that answers 503 does respond.
    pub fn is_gone(&self, candidate: Candidate) -> bool {
        if self.is_empty() {
            return false;
        }
        let entries = self.entries.pin();
        let entry = entries.get(&candidate);
        entry.is_some_and(|entry| {
            matches!(
                entry.why,
                TargetFailure::Silent | TargetFailure::Unreachable
            )
        })
    }

    /// Records that a candidate responded.
    pub fn mark_available(&self, candidate: Candidate, now: Time) {
        if self.is_empty() {
            return;
        }
        let entries = self.entries.pin();
        let rests = |entry: &Entry| entry.rests_until.is_some_and(|end| end > now);
        let removed = entries.remove_if(&candidate, |_, entry| !rests(entry));
        if let Ok(Some(_)) = removed {
            self.known.fetch_sub(1, Ordering::Relaxed);
            self.revived.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Forgets candidates whose time is over and that no call has tried since.
    pub fn sweep(&self, now: Time) {
        let entries = self.entries.pin();
        for (candidate, _) in &entries {
            let is_over = |entry: &Entry| {
                let until = Time::from_micros(entry.until.load(Ordering::Relaxed));
                until + UNTRIED < now
            };
            if let Ok(Some(_)) = entries.remove_if(candidate, |_, entry| is_over(entry)) {
                self.known.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Calls `visit` with each candidate, the time until which it is tried last, and the reason.
    pub fn for_each(&self, mut visit: impl FnMut(Candidate, Time, TargetFailure)) {
        for (candidate, entry) in &self.entries.pin() {
            let until = Time::from_micros(entry.until.load(Ordering::Relaxed));
            visit(*candidate, until, entry.why);
        }
    }

    /// Reads the size and the counts.
    pub fn stats(&self) -> DeadTargetStats {
        DeadTargetStats {
            known: self.known.load(Ordering::Relaxed),
            died: self.died.load(Ordering::Relaxed),
            revived: self.revived.load(Ordering::Relaxed),
            forgotten: self.forgotten.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::Protocol;

    const LIFETIME: Duration = Duration::from_secs(30);

    fn candidate(last: u8) -> Candidate {
        Candidate {
            protocol: Protocol::Udp,
            address: ([192, 0, 2, last], 5060).into(),
        }
    }

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(seconds)
    }

    #[test]
    fn a_dead_one_is_kept_off_until_its_time_is_over_and_then_tried_by_one_call() {
        let dead = DeadTargets::default();
        assert!(dead.admits(candidate(1), at(0), LIFETIME));
        dead.mark_failed(candidate(1), at(30), TargetFailure::Silent);
        assert!(dead.admits(candidate(2), at(1), LIFETIME));
        assert!(!dead.admits(candidate(1), at(29), LIFETIME));
        assert!(dead.admits(candidate(1), at(30), LIFETIME), "the probe");
        assert!(!dead.admits(candidate(1), at(31), LIFETIME), "the others");
        assert!(
            dead.admits(candidate(1), at(61), LIFETIME),
            "the next probe"
        );
        let other_protocol = Candidate {
            protocol: Protocol::Tcp,
            ..candidate(1)
        };
        assert!(dead.admits(other_protocol, at(1), LIFETIME));
    }

    #[test]
    fn a_response_revives_at_once_but_for_a_rest_that_was_asked_for() {
        let dead = DeadTargets::default();
        dead.mark_failed(candidate(1), at(30), TargetFailure::Silent);
        dead.mark_failed(candidate(2), at(30), TargetFailure::RetryAfter);
        for last in [1, 2, 3] {
            dead.mark_available(candidate(last), at(5));
        }
        assert!(dead.admits(candidate(1), at(5), LIFETIME));
        assert!(!dead.admits(candidate(2), at(5), LIFETIME));
        dead.mark_failed(candidate(2), at(20), TargetFailure::Silent);
        assert!(!dead.admits(candidate(2), at(25), LIFETIME));
        assert!(dead.admits(candidate(2), at(30), LIFETIME), "the probe");
        dead.mark_available(candidate(2), at(30));
        assert!(dead.is_empty());
        let stats = dead.stats();
        assert_eq!((stats.known, stats.died, stats.revived), (0, 2, 2));
    }

    #[test]
    fn what_has_no_room_is_not_remembered_and_counted() {
        let dead = DeadTargets::new(2);
        for last in 1..=5 {
            dead.mark_failed(candidate(last), at(30), TargetFailure::Unreachable);
        }
        assert!(dead.admits(candidate(3), at(1), LIFETIME));
        let stats = dead.stats();
        assert_eq!((stats.known, stats.forgotten), (2, 3));
        dead.mark_failed(candidate(1), at(60), TargetFailure::Unreachable);
        assert!(
            !dead.admits(candidate(1), at(40), LIFETIME),
            "it has a place"
        );
    }

    #[test]
    fn a_dead_target_that_is_not_tried_again_is_forgotten() {
        let dead = DeadTargets::default();
        dead.mark_failed(candidate(1), at(30), TargetFailure::Silent);
        dead.sweep(at(630));
        assert_eq!(dead.stats().known, 1);
        dead.sweep(at(631));
        assert!(dead.is_empty());
    }

    #[test]
    fn of_many_calls_at_once_one_probes() {
        let dead = DeadTargets::default();
        dead.mark_failed(candidate(1), at(30), TargetFailure::Silent);
        let admitted: usize = std::thread::scope(|scope| {
            let call = || usize::from(dead.admits(candidate(1), at(31), LIFETIME));
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
            calls
                .into_iter()
                .map(|call| call.join().expect("no panic"))
                .sum()
        });
        assert_eq!(admitted, 1);
    }
}
