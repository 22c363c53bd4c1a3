//! Letting messages gather while many come, as network cards do with their interrupts.
//!
//! To fall asleep and be woken costs a worker more than a message does. Where messages come one by one, but so close that it sleeps for
//! some microseconds only, it handles each of them at the price of two. So it pauses instead: it looks at its sockets again
//! when the pause is over, and finds several.

use std::time::Duration;

/// Waits in a row that were shorter than a pause, before pauses begin; pauses in a row that brought too little, before they end.
const IN_A_ROW: u8 = 4;

/// Messages that make a pause worth it.
const WORTH_A_PAUSE: u64 = 2;

/// Decides between waiting for the next message and pausing.
#[derive(Debug)]
pub(super) struct Pauses {
    length: Duration,
    /// Waits in a row that were shorter than a pause.
    short_waits: u8,
    /// Pauses in a row that brought too little.
    poor_ones: u8,
    /// Messages taken, from sockets and from other threads, by the last time the worker had nothing to do.
    taken: u64,
}

impl Pauses {
    /// Of that length; zero: never.
    pub(super) const fn new(length: Duration) -> Self {
        Self {
            length,
            short_waits: 0,
            poor_ones: 0,
            taken: 0,
        }
    }

    /// The worker has nothing to do, having taken so many messages since its start: how long to pause, if at all.
    pub(super) fn next(&mut self, taken: u64) -> Option<Duration> {
        let since = taken.wrapping_sub(self.taken);
        self.taken = taken;
        if self.short_waits < IN_A_ROW {
            return None;
        }
        self.poor_ones = if since < WORTH_A_PAUSE {
            self.poor_ones + 1
        } else {
            0
        };
        if self.poor_ones < IN_A_ROW {
            return Some(self.length);
        }
        (self.short_waits, self.poor_ones) = (0, 0);
        None
    }

    /// The worker has waited that long for something to do.
    pub(super) fn waited(&mut self, time: Duration) {
        self.short_waits = if time < self.length {
            self.short_waits.saturating_add(1)
        } else {
            0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_micros(50);

    fn busy() -> Pauses {
        let mut pauses = Pauses::new(LENGTH);
        for received in 1..=u64::from(IN_A_ROW) {
            assert_eq!(pauses.next(received), None);
            pauses.waited(LENGTH / 2);
        }
        pauses
    }

    #[test]
    fn pauses_begin_after_short_waits_and_last_while_they_bring_several() {
        let mut pauses = busy();
        for received in [10, 12, 13, 14, 15, 20, 21, 22, 23] {
            assert_eq!(pauses.next(received), Some(LENGTH), "{received}");
        }
        assert_eq!(pauses.next(24), None, "four in a row brought one each");
        pauses.waited(LENGTH / 2);
        assert_eq!(pauses.next(30), None, "it takes several short waits again");
    }

    #[test]
    fn a_long_wait_starts_the_count_anew() {
        let mut pauses = Pauses::new(LENGTH);
        for received in 1..20 {
            assert_eq!(pauses.next(received * 2), None);
            let time = if received % u64::from(IN_A_ROW) == 0 {
                LENGTH
            } else {
                LENGTH / 2
            };
            pauses.waited(time);
        }
    }

    #[test]
    fn without_a_length_there_are_none() {
        let mut pauses = Pauses::new(Duration::ZERO);
        for received in 1..20 {
            assert_eq!(pauses.next(received * 2), None);
            pauses.waited(Duration::ZERO);
        }
    }
}
