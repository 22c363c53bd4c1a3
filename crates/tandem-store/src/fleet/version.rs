//! The order of changes that different nodes make: hybrid logical clocks (Kulkarni et al., 2014).
//!
//! A time is the wall clock in milliseconds and a counter. A node never gives a time that is not later than all that it has given or seen.
//! So a change that follows another one has the later time even if it is made on a node whose clock is behind, as long as that node has
//! seen the first change. Two changes of nodes that have not heard of each other are ordered by their clocks, then by their names.

use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The bits of the counter.
const COUNTER: u32 = 16;

/// A time of a hybrid logical clock: milliseconds since the Unix epoch (48 bits) and a counter (16 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HybridTime(u64);

impl HybridTime {
    /// The first time of a millisecond.
    pub const fn at(millis: u64) -> Self {
        Self(millis << COUNTER)
    }

    /// The time that `word` represents, as [`HybridTime::word`] returned it.
    pub const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// The time as one number, which orders like the time.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Milliseconds since the Unix epoch. They are ahead of the wall clock of the node if it has seen a node whose clock is ahead.
    pub const fn millis(self) -> u64 {
        self.0 >> COUNTER
    }
}

/// Identifies the instance of a node in a version: the first 64 bits of the SHA-256 of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriterId(u64);

impl WriterId {
    /// The identifier of the instance with this name.
    pub fn of(instance: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(instance).into();
        let first = digest.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first))
    }

    /// The identifier as a number.
    pub const fn word(self) -> u64 {
        self.0
    }
}

/// The version of a record: when it was written, then by whom. No two different records of a key have the same version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// When it was written.
    pub time: HybridTime,
    /// The instance that wrote it.
    pub writer: WriterId,
}

/// The hybrid logical clock of a node. The caller reads the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct HybridClock {
    last: HybridTime,
}

impl HybridClock {
    /// The time of a new change, at `now` in milliseconds since the Unix epoch.
    pub fn tick(&mut self, now: u64) -> HybridTime {
        self.last = HybridTime(self.last.0 + 1).max(HybridTime::at(now));
        self.last
    }

    /// Notes the time of a change of another node: times from now on are later. Returns false, and notes nothing, if it is more than
    /// `tolerance` ahead of `now`: such a time would win over all changes of nodes whose clocks are right.
    pub fn observe(&mut self, time: HybridTime, now: u64, tolerance: Duration) -> bool {
        let tolerance = u64::try_from(tolerance.as_millis()).unwrap_or(u64::MAX);
        let is_credible = time.millis() <= now.saturating_add(tolerance);
        if is_credible {
            self.last = self.last.max(time);
        }
        is_credible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_change_that_follows_another_is_later_even_if_its_clock_is_a_minute_behind() {
        let (mut ahead, mut behind) = (HybridClock::default(), HybridClock::default());
        let first = ahead.tick(100_000);
        assert!(behind.observe(first, 40_000, MINUTE));
        let second = behind.tick(40_001);
        assert!(second > first);
        assert!(behind.tick(40_001) > second, "in the same millisecond");
        assert!(ahead.observe(second, 100_001, MINUTE));
        assert!(ahead.tick(100_001) > second);
    }

    #[test]
    fn a_time_from_far_ahead_is_not_followed() {
        let mut clock = HybridClock::default();
        assert!(!clock.observe(HybridTime::at(200_000), 100_000, MINUTE));
        assert!(!clock.observe(HybridTime(u64::MAX), 100_000, MINUTE));
        assert_eq!(clock.tick(100_000), HybridTime::at(100_000));
    }

    #[test]
    fn versions_are_ordered_by_time_and_then_by_writer() {
        let version = |millis, writer| Version {
            time: HybridTime::at(millis),
            writer: WriterId(writer),
        };
        assert!(version(2, 1) > version(1, 9));
        assert!(version(1, 2) > version(1, 1));
        assert_ne!(WriterId::of("a"), WriterId::of("b"));
    }
}
