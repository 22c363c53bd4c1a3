//! Generates the calls of a scenario.

use super::Call;
use super::course::{Course, Point, Walk};
use super::pairs::{Draw, Pairing, Phones};
use crate::run::{Arrivals, Rate, Spacing};
use std::time::Duration;

/// Rate of arrivals in their own time, in which calls take the place of seconds; it ends after a year of that time. A power of two, so
/// that summing the distances causes no rounding errors.
const HASTE: f64 = 1_024.0;
/// Resolution of arrivals, in parts of a call. Arrivals are rounded to nanoseconds, and the rounding must not move a call out of its
/// stretch.
const PARTS: f64 = 10_000.0;

/// The calls of a scenario, in order. The same seed generates the same calls.
///
/// Arrivals at rate 1 are stretched to follow the course. This is exact, also where the rate changes between two calls.
#[derive(Clone, Debug)]
pub struct Generator {
    arrivals: Arrivals,
    /// Expected calls before the first one.
    skipped: f64,
    walk: Walk,
    draw: Draw,
    next: Option<(Point, f64)>,
    /// Time of the first call, in seconds of the course.
    start: f64,
}

impl Generator {
    /// Calls at the rates of a course, between these phones.
    ///
    /// # Errors
    /// The phones do not suit the convention.
    pub fn new(
        course: Course,
        phones: Phones,
        pairing: Pairing,
        spacing: Spacing,
        seed: u64,
    ) -> Result<Self, String> {
        pairing.check(phones)?;
        let mut generator = Self {
            arrivals: Arrivals::new(Rate::Constant(HASTE), spacing, seed),
            skipped: 0.0,
            walk: course.walk(),
            draw: Draw::new(phones, pairing, seed ^ 0x7061_6972),
            next: None,
            start: 0.0,
        };
        // A scenario starts with its first call.
        generator.skipped = generator.arrived().unwrap_or_default();
        generator.next = generator.walk.point(0.0).map(|point| (point, 0.0));
        generator.start = generator.next.map_or(0.0, |(point, _)| point.time);
        Ok(generator)
    }

    /// Expected calls before the next one.
    fn expected(&self) -> Option<f64> {
        let expected = self.arrived()? - self.skipped;
        Some((expected * PARTS).round() / PARTS)
    }

    /// The next arrival in its own time, not rounded: evenly spaced ones are whole numbers apart, so that they all round to whole numbers.
    fn arrived(&self) -> Option<f64> {
        Some(self.arrivals.peek()?.as_secs_f64() * HASTE)
    }

    /// Time in the scenario, rounded to milliseconds.
    fn milliseconds(&self, time: f64) -> u64 {
        let since = Duration::from_secs_f64((time - self.start).max(0.0));
        (since + Duration::from_micros(500)).as_millis() as u64
    }
}

impl Iterator for Generator {
    type Item = Call;

    fn next(&mut self) -> Option<Call> {
        let (point, expected) = self.next?;
        self.arrivals.advance();
        let expected_next = self.expected()?;
        let more = expected_next - expected;
        self.next = self
            .walk
            .point(expected_next)
            .map(|point| (point, expected_next));
        let (time_next, rate) = match self.next {
            Some((next, _)) if next.place != point.place && next.time > point.time => {
                (next.time, more / (next.time - point.time))
            }
            Some((next, _)) => (next.time, point.rate),
            // After the last call, assume that the rate stays constant.
            None => (point.time + more / point.rate, point.rate),
        };
        let (caller, callee) = self.draw.pair();
        let time = self.milliseconds(point.time);
        Some(Call {
            caller,
            callee,
            // The limits of courses keep this within 32 bits.
            wait_ms: (self.milliseconds(time_next) - time) as u32,
            second: (time / 1_000) as u32,
            rate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(rate: Rate, seconds: u64, spacing: Spacing, seed: u64) -> Vec<Call> {
        let course = Course::of(rate, Duration::from_secs(seconds)).unwrap();
        let phones = Phones {
            first: 0,
            count: 200,
        };
        let pairing = Pairing::EvenPodCallsOdd { pod: 100 };
        Generator::new(course, phones, pairing, spacing, seed)
            .unwrap()
            .collect()
    }

    #[test]
    fn one_call_a_second_is_what_the_format_shows() {
        let calls = calls(Rate::Constant(1.0), 1_800, Spacing::Regular, 1);
        assert_eq!(calls.len(), 1_800);
        for (second, call) in (0..).zip(&calls) {
            assert_eq!((call.wait_ms, call.second, call.rate), (1_000, second, 1.0));
            assert_eq!(call.callee, call.caller + 100);
        }
    }

    #[test]
    fn waits_do_not_add_up_to_another_rate() {
        let calls = calls(Rate::Constant(3_000.0), 60, Spacing::Regular, 1);
        let waits: u64 = calls.iter().map(|call| u64::from(call.wait_ms)).sum();
        assert_eq!(calls.len(), 180_000);
        assert_eq!(waits, 60_000);
        assert!(calls.iter().all(|call| call.wait_ms <= 1));
    }

    #[test]
    fn each_step_has_its_calls_and_its_rate() {
        let rate = Rate::Steps {
            from: 12.0,
            step: 6.0,
            every: Duration::from_secs(300),
        };
        let calls = calls(rate, 1_800, Spacing::Regular, 1);
        for step in 0..6 {
            let within = |call: &&Call| call.second / 300 == step;
            let expected = 12 + 6 * step;
            let of_step: Vec<&Call> = calls.iter().filter(within).collect();
            let count = expected as usize * 300;
            assert!(
                of_step.len().abs_diff(count) <= 1,
                "{step}: {}",
                of_step.len()
            );
            let same = of_step
                .iter()
                .filter(|call| (call.rate - f64::from(expected)).abs() < 1e-9)
                .count();
            assert!(same + 1 >= of_step.len(), "{step}: {same}");
        }
    }

    #[test]
    fn the_seed_makes_the_calls() {
        let of = |seed| calls(Rate::Constant(50.0), 60, Spacing::Poisson, seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        // Random, but at that rate: 3,000 calls, with a deviation of 55.
        assert!((2_700..3_300).contains(&of(1).len()));
    }

    #[test]
    fn no_call_is_made_while_the_rate_is_zero() {
        let rates = [(10.0, 0.0), (10.0, 5.0), (10.0, 0.0), (10.0, 5.0)];
        let stretches = rates.map(|(length, rate)| super::super::Stretch { length, rate });
        let course = Course::new(stretches.to_vec()).unwrap();
        let phones = Phones { first: 0, count: 2 };
        let generator = Generator::new(course, phones, Pairing::Any, Spacing::Regular, 1).unwrap();
        let calls: Vec<Call> = generator.collect();
        // Second 10 of the course is second 0 of the scenario.
        let within = |from, until| {
            calls
                .iter()
                .filter(|call| (from..until).contains(&call.second))
                .count()
        };
        assert_eq!((within(0, 10), within(10, 20), within(20, 30)), (50, 0, 50));
        let waited = calls[49];
        assert_eq!(waited.wait_ms, 10_200);
        assert!((waited.rate - 1.0 / 10.2).abs() < 1e-9);
    }
}
