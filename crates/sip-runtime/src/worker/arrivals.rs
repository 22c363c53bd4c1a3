//! Converts the kernel's timestamps of datagrams, which are wall-clock times, to the workers' clock.

use sip_transport::Time;
use std::time::Duration;

/// How far the two clocks may drift apart between two readings. A larger difference means that the wall clock was stepped.
const DRIFT: Duration = Duration::from_millis(5);

/// Readings of both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Time,
    /// The wall clock, as time since the Unix epoch.
    pub(super) wall: Duration,
}

impl Moment {
    /// How far the wall clock is ahead, in microseconds.
    fn lead(self) -> i128 {
        self.wall.as_micros().cast_signed() - i128::from(self.now.as_micros())
    }
}

/// Determines when datagrams arrived.
///
/// If the wall clock is set while datagrams are queued, their timestamps are from before the step. They count as having arrived
/// when the step was noticed. A waiting time that is once too short does less harm than one that is an hour too long.
#[derive(Debug)]
pub(super) struct Arrivals {
    last: Moment,
    /// No datagram counts as having arrived before this time.
    earliest: Time,
}

impl Arrivals {
    /// Starts at `moment`. No datagram may have arrived before it.
    pub(super) const fn new(moment: Moment) -> Self {
        Self {
            last: moment,
            earliest: moment.now,
        }
    }

    /// Whether the clocks have drifted so far since the last reading that one of them was stepped. It may also mean that this
    /// thread was stopped between the two readings.
    pub(super) fn is_suspicious(&self, moment: Moment) -> bool {
        let drift = (moment.lead() - self.last.lead()).unsigned_abs();
        drift > DRIFT.as_micros()
    }

    /// Records a reading of the clocks, after a batch of datagrams.
    pub(super) fn read(&mut self, moment: Moment) {
        if self.is_suspicious(moment) {
            self.earliest = moment.now;
        }
        self.last = moment;
    }

    /// When a datagram with this timestamp arrived, by the last reading of the clocks.
    pub(super) fn arrived(&self, stamp: Option<Duration>) -> Time {
        let Moment { now, wall } = self.last;
        let age = stamp.map_or(Duration::ZERO, |stamp| wall.saturating_sub(stamp));
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
        let arrived = Time::from_micros(now.as_micros().saturating_sub(age));
        arrived.max(self.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000;

    /// `now` and `wall` are milliseconds since the start.
    fn moment(now: u64, wall: i64) -> Moment {
        Moment {
            now: time(now),
            wall: stamp(wall),
        }
    }

    fn time(milliseconds: u64) -> Time {
        Time::from_unix_seconds(START) + Duration::from_millis(milliseconds)
    }

    fn stamp(milliseconds: i64) -> Duration {
        let start = START.cast_signed() * 1_000;
        Duration::from_millis((start + milliseconds).unsigned_abs())
    }

    #[test]
    fn a_datagram_arrived_as_long_ago_as_its_stamp_says() {
        let mut arrivals = Arrivals::new(moment(0, 0));
        arrivals.read(moment(3_000, 3_000));
        assert_eq!(arrivals.arrived(Some(stamp(1_000))), time(1_000));
        assert_eq!(arrivals.arrived(Some(stamp(3_000))), time(3_000));
    }

    #[test]
    fn without_a_stamp_or_with_one_of_the_future_it_arrived_now() {
        let mut arrivals = Arrivals::new(moment(0, 0));
        arrivals.read(moment(3_000, 3_000));
        assert_eq!(arrivals.arrived(None), time(3_000));
        assert_eq!(arrivals.arrived(Some(stamp(3_001))), time(3_000));
    }

    #[test]
    fn clocks_that_drift_apart_slowly_are_followed() {
        let mut arrivals = Arrivals::new(moment(0, 0));
        for round in 1..=1_000_u64 {
            let wall = (round * 104).cast_signed();
            assert!(!arrivals.is_suspicious(moment(round * 100, wall)));
            arrivals.read(moment(round * 100, wall));
            assert_eq!(
                arrivals.arrived(Some(stamp(wall - 50))),
                time(round * 100 - 50)
            );
        }
    }

    /// The step is an hour forward or back. No datagram seems an hour old, and afterwards the arrival times are correct again.
    #[test]
    fn a_step_of_the_wall_clock_makes_nothing_old() {
        for step in [3_600_000, -3_600_000] {
            let mut arrivals = Arrivals::new(moment(0, 0));
            arrivals.read(moment(2_000, 2_000));
            let after = moment(2_100, 2_100 + step);
            assert!(arrivals.is_suspicious(after));
            arrivals.read(after);
            for before_the_step in [1_900, 2_050] {
                let arrived = arrivals.arrived(Some(stamp(before_the_step)));
                assert_eq!(arrived, time(2_100), "{step}");
            }
            arrivals.read(moment(2_300, 2_300 + step));
            let old = arrivals.arrived(Some(stamp(2_050)));
            assert!((time(2_100)..=time(2_300)).contains(&old), "{step}");
            let new = arrivals.arrived(Some(stamp(2_250 + step)));
            assert_eq!(new, time(2_250), "{step}");
        }
    }
}
