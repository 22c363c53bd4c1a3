//! Lets messages collect while the worker is busy, like the interrupt coalescing of network cards.
//!
//! Going to sleep and waking up costs a worker more than a message does. This matters when the worker is busy and sleeps for only
//! a few microseconds at a time. Then it pauses instead: it checks its sockets again after the pause and finds several messages.
//! A less busy worker wakes up for each message, so no message is delayed.

use super::utilisation::Utilisation;
use sip_transport::Time;
use std::time::Duration;

/// How many waits in a row must be shorter than a pause before pauses begin, and how many pauses in a row must bring too few
/// messages before they end.
const IN_A_ROW: u8 = 4;

/// The number of messages that justifies a pause.
const WORTH_A_PAUSE: u64 = 2;

/// Decides whether to wait for the next message or to pause.
#[derive(Debug)]
pub(super) struct Pauses {
    length: Duration,
    utilisation: Utilisation,
    /// Waits in a row that were shorter than a pause.
    short_waits: u8,
    /// Pauses in a row that bring too few messages.
    poor_ones: u8,
    /// Messages received, from sockets and other threads, when the worker last had nothing to do.
    taken: u64,
}

impl Pauses {
    /// Pauses of this length. Zero turns pauses off.
    pub(super) const fn new(now: Time, length: Duration) -> Self {
        Self {
            length,
            utilisation: Utilisation::new(now),
            short_waits: 0,
            poor_ones: 0,
            taken: 0,
        }
    }

    /// Called when the worker has nothing to do. `taken` is the number of messages received since its start. Returns how long to
    /// pause, if at all.
    pub(super) fn next(&mut self, taken: u64) -> Option<Duration> {
        let since = taken.wrapping_sub(self.taken);
        self.taken = taken;
        if self.short_waits < IN_A_ROW || !self.utilisation.is_high() {
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

    /// Records that the worker waited for an event.
    pub(super) fn waited(&mut self, begun: Time, ended: Time) {
        self.utilisation.idled(begun, ended);
        self.short_waits = if ended - begun < self.length {
            self.short_waits.saturating_add(1)
        } else {
            0
        };
    }

    /// Records that the worker paused.
    pub(super) fn paused(&mut self, begun: Time, ended: Time) {
        self.utilisation.idled(begun, ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_micros(100);
    const START: Time = Time::from_unix_seconds(1_800_000_000);

    /// The cost of a message and of the wake-up after a wait, in microseconds.
    const MESSAGE: u64 = 12;
    const WAKE_UP: u64 = 8;

    /// A simulated worker that receives messages at regular intervals.
    struct Worker {
        pauses: Pauses,
        now: Time,
        next_message: Time,
        taken: u64,
    }

    #[derive(Debug, Default)]
    struct Seen {
        pauses: u64,
        messages: u64,
        /// Messages that arrived during a pause.
        gathered: u64,
        /// Changes from waiting to pausing or back.
        switches: u64,
    }

    impl Worker {
        fn new(length: Duration) -> Self {
            Self {
                pauses: Pauses::new(START, length),
                now: START,
                next_message: START,
                taken: 0,
            }
        }

        /// Simulates some seconds. The message rate keeps the worker busy for `percent` of the time while it does not pause.
        fn serve(&mut self, seconds: u64, percent: u64) -> Seen {
            let interval = Duration::from_micros((MESSAGE + WAKE_UP) * 100 / percent);
            let end = self.now + Duration::from_secs(seconds);
            let (mut seen, mut paused) = (Seen::default(), None);
            while self.now < end {
                let taken = self.taken;
                while self.next_message <= self.now {
                    self.next_message = self.next_message + interval;
                    self.taken += 1;
                    self.now = self.now + Duration::from_micros(MESSAGE);
                }
                seen.messages += self.taken - taken;
                if paused == Some(true) {
                    seen.gathered += self.taken - taken;
                }
                let (begun, pause) = (self.now, self.pauses.next(self.taken));
                if let Some(length) = pause {
                    seen.pauses += 1;
                    self.now = begun + length;
                    self.pauses.paused(begun, self.now);
                } else {
                    self.now = self.next_message;
                    self.pauses.waited(begun, self.now);
                }
                self.now = self.now + Duration::from_micros(WAKE_UP);
                let was_paused = paused.replace(pause.is_some());
                seen.switches += u64::from(was_paused.is_some_and(|it| it != pause.is_some()));
            }
            seen
        }
    }

    #[test]
    fn a_worker_that_is_busy_for_30_percent_of_the_time_never_pauses() {
        for percent in [1, 10, 30, 50, 60] {
            let seen = Worker::new(LENGTH).serve(5, percent);
            assert_eq!(seen.pauses, 0, "{percent} %: {seen:?}");
        }
    }

    #[test]
    fn a_worker_that_is_busy_for_80_percent_of_the_time_pauses() {
        for percent in [80, 90] {
            let mut worker = Worker::new(LENGTH);
            worker.serve(1, percent);
            let seen = worker.serve(5, percent);
            let gathered = seen.gathered * 100 / seen.messages;
            assert!(gathered >= 95, "{percent} %: {seen:?}");
        }
    }

    /// Pauses lower the utilisation, which could end them again.
    #[test]
    fn it_does_not_flap_at_any_load() {
        let mut worker = Worker::new(LENGTH);
        for percent in (5..=95).chain((5..=95).rev()) {
            let seen = worker.serve(5, percent);
            assert!(seen.switches <= 12, "{percent} %: {seen:?}");
        }
    }

    #[test]
    fn pauses_end_soon_after_the_load_falls() {
        for percent in [10, 30, 50, 55] {
            let mut worker = Worker::new(LENGTH);
            assert!(worker.serve(2, 90).pauses > 0);
            worker.serve(2, percent);
            let seen = worker.serve(5, percent);
            assert_eq!(seen.pauses, 0, "{percent} %: {seen:?}");
        }
    }

    #[test]
    fn without_a_length_there_are_none() {
        assert_eq!(Worker::new(Duration::ZERO).serve(5, 80).pauses, 0);
    }

    /// The pauses of a busy worker whose waits are short.
    fn busy() -> Pauses {
        let mut worker = Worker::new(LENGTH);
        worker.serve(1, 90);
        let mut pauses = worker.pauses;
        pauses.taken = 0;
        pauses.poor_ones = 0;
        pauses
    }

    #[test]
    fn pauses_last_while_they_bring_several() {
        let mut pauses = busy();
        for received in [10, 12, 13, 14, 15, 20, 21, 22, 23] {
            assert_eq!(pauses.next(received), Some(LENGTH), "{received}");
        }
        assert_eq!(pauses.next(24), None, "four in a row outcome one each");
        assert_eq!(pauses.next(30), None, "it takes several short waits again");
    }

    #[test]
    fn a_long_wait_starts_the_count_anew() {
        let mut pauses = busy();
        pauses.waited(START, START + LENGTH);
        assert_eq!(pauses.next(100), None);
    }
}
