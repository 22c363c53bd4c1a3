//! The clock of the workers. No other module reads the machine's clocks.

use sip_transport::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A wall clock that never goes back. It is anchored to the wall clock once and then advances with
/// the monotonic clock. Copies show the same time, so start one per process and copy it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    anchor: Instant,
    anchored_at: Time,
}

impl Clock {
    /// Starts a clock at the current wall-clock time.
    pub fn start() -> Self {
        let since_epoch = Self::wall();
        let anchor = Instant::now();
        Self {
            anchor,
            anchored_at: Time::default() + since_epoch,
        }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.anchored_at + self.anchor.elapsed()
    }

    /// The system's wall clock, which may step, as time since the Unix epoch.
    pub(crate) fn wall() -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::start()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_wall_clock_time_and_never_steps_back() {
        let clock = Clock::start();
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let first = clock.now();
        assert!(first.unix_seconds().abs_diff(wall.as_secs()) <= 1);
        let mut last = first;
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_copy_tells_the_same_time() {
        let clock = Clock::start();
        let copy = clock;
        let (before, between, after) = (clock.now(), copy.now(), clock.now());
        assert!(before <= between && between <= after);
    }
}
