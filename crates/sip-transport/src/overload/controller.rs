//! Tells overload from a burst. As in `CoDel` (RFC 8289), a standing queue counts, and a short-lived one does not.

use super::OverloadSettings;
use crate::time::Time;
use std::time::Duration;

/// Number of parts in an interval. A single observation counts for at most one part, because a worker that was stopped by a
/// debugger or a CPU limit has seen nothing meanwhile.
const PARTS: u32 = 4;

/// Detects overload from the longest time that a request waits.
#[derive(Debug)]
pub struct Controller {
    target: Duration,
    interval: Duration,
    /// Time of the last observation.
    observed: Option<Time>,
    /// For how long, according to the observations, the queue has not been short.
    standing: Duration,
    is_overloaded: bool,
}

impl Controller {
    /// Creates a controller without observations.
    pub const fn new(settings: &OverloadSettings) -> Self {
        Self {
            target: settings.target,
            interval: settings.interval,
            observed: None,
            standing: Duration::ZERO,
            is_overloaded: false,
        }
    }

    /// Records that the request that waits longest has waited for `longest` (zero if none waits). Overload begins when this stays
    /// above the target for an interval, and ends when it falls to the target.
    pub fn observe(&mut self, now: Time, longest: Duration) {
        let last = self.observed.replace(now).unwrap_or(now);
        let elapsed = (now - last).min(self.interval / PARTS);
        if longest <= self.target {
            self.standing = Duration::ZERO;
            self.is_overloaded = false;
        } else {
            self.standing = self.standing.saturating_add(elapsed);
            self.is_overloaded |= self.standing > self.interval;
        }
    }

    /// Whether requests are to be shed.
    pub const fn is_overloaded(&self) -> bool {
        self.is_overloaded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: u64 = 5;

    /// Feeds observations, `STEP` milliseconds apart, of requests that wait this many milliseconds. Returns the overload state
    /// after each.
    fn check(longest: impl IntoIterator<Item = u64>) -> Vec<bool> {
        let mut controller = Controller::new(&OverloadSettings::default());
        let mut now = Time::from_unix_seconds(1_800_000_000);
        longest
            .into_iter()
            .map(|milliseconds| {
                now = now + Duration::from_millis(STEP);
                controller.observe(now, Duration::from_millis(milliseconds));
                controller.is_overloaded()
            })
            .collect()
    }

    #[test]
    fn a_burst_that_takes_100_milliseconds_is_no_overload() {
        let burst = (0..20).map(|step| 100 - step * STEP);
        let states = check(burst.clone().chain([0]).chain(burst));
        assert!(!states.contains(&true));
    }

    #[test]
    fn a_queue_that_stands_for_an_interval_is_overload_until_it_is_short() {
        let states = check([30; 50].into_iter().chain([25, 30]));
        let begun = states.iter().position(|is_overloaded| *is_overloaded);
        // More than 200 ms.
        assert_eq!(begun, Some(41));
        let expected = [&[true; 9][..], &[false; 1], &[false; 1]].concat();
        assert_eq!(states[41..], expected);
    }

    /// A limit of a fifth of a CPU stops a process for 80 of 100 milliseconds. The messages that arrive meanwhile are soon
    /// served.
    #[test]
    fn a_queue_that_is_short_now_and_then_is_no_overload() {
        let mut controller = Controller::new(&OverloadSettings::default());
        let mut now = Time::from_unix_seconds(1_800_000_000);
        for _ in 0..100 {
            now = now + Duration::from_millis(80);
            for longest in [80, 60, 40, 0] {
                controller.observe(now, Duration::from_millis(longest));
                assert!(!controller.is_overloaded());
                now = now + Duration::from_millis(5);
            }
        }
    }

    #[test]
    fn a_long_stop_alone_is_no_overload() {
        let mut controller = Controller::new(&OverloadSettings::default());
        let mut now = Time::from_unix_seconds(1_800_000_000);
        for step in [0, 5, 5_000, 5, 5] {
            now = now + Duration::from_millis(step);
            controller.observe(now, Duration::from_secs(5));
            assert!(!controller.is_overloaded());
        }
    }
}
