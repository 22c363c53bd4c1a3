//! The course of a scenario: the expected rate of calls over time.

use crate::run::Rate;
use std::time::Duration;

/// Maximum number of stretches of a course.
const MAX_STRETCHES: f64 = 1_000_000.0;
/// Maximum number of calls in a scenario, so that a typing error cannot fill the disk.
const MAX_CALLS: f64 = 100_000_000.0;
/// Maximum length of a scenario. The format allows 49 days.
const LONGEST: Duration = Duration::from_secs(31 * 86_400);
/// Maximum calls per second.
const MAX_RATE: f64 = 1_000_000.0;
/// Lower rates count as zero: one call in eleven days.
const LEAST_RATE: f64 = 1e-6;

/// A period of constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// Seconds.
    pub length: f64,
    /// Calls per second.
    pub rate: f64,
}

/// Calls per second over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Course(Vec<Stretch>);

impl Course {
    /// A course of consecutive stretches. A rate below one call in eleven days counts as zero.
    ///
    /// # Errors
    /// The stretches have no calls, too many calls, or take too long.
    pub fn new(mut stretches: Vec<Stretch>) -> Result<Self, String> {
        for Stretch { length, rate } in &mut stretches {
            if !(0.0..=MAX_RATE).contains(&*rate) {
                return Err(format!(
                    "a rate of {rate} calls per second: must be 0 to {MAX_RATE}"
                ));
            }
            if !(length.is_finite() && *length > 0.0) {
                return Err(format!("a stretch of {length} s: must be above 0 s"));
            }
            if *rate < LEAST_RATE {
                *rate = 0.0;
            }
        }
        let course = Self(stretches);
        let (duration, calls) = (course.duration(), course.expected_calls());
        if duration > LONGEST.as_secs_f64() {
            return Err(format!(
                "a scenario of {duration:.0} s is too long: the maximum is 31 days"
            ));
        }
        if calls > MAX_CALLS {
            return Err(format!(
                "{calls:.0} calls are too many: the maximum is {MAX_CALLS}"
            ));
        }
        if calls <= 0.0 {
            return Err("there would be no calls: the rate is always 0".into());
        }
        Ok(course)
    }

    /// A course with this rate and duration.
    ///
    /// # Errors
    /// Those of [`Course::new`], or too many steps.
    pub fn of(rate: Rate, duration: Duration) -> Result<Self, String> {
        let length = duration.as_secs_f64();
        let every = match rate {
            Rate::Constant(_) => length,
            Rate::Steps { every, .. } => every.as_secs_f64().min(length),
        };
        let steps = length / every;
        if steps > MAX_STRETCHES {
            return Err(format!(
                "{steps:.0} steps are too many: the maximum is {MAX_STRETCHES}"
            ));
        }
        let begins = (0..).map(|step| f64::from(step) * every);
        let stretches = begins.take_while(|begin| *begin < length);
        // Takes the rate in the middle of a step, where rounding does not matter.
        let stretches = stretches.map(|begin| Stretch {
            length: every.min(length - begin),
            rate: rate.at(begin + every / 2.0),
        });
        Self::new(stretches.collect())
    }

    /// Duration in seconds.
    pub fn duration(&self) -> f64 {
        self.0.iter().map(|stretch| stretch.length).sum()
    }

    /// Expected number of calls in total.
    pub fn expected_calls(&self) -> f64 {
        let calls = self.0.iter().map(|stretch| stretch.length * stretch.rate);
        calls.sum()
    }

    pub(super) fn walk(self) -> Walk {
        Walk {
            course: self,
            place: 0,
            begun: 0.0,
            expected: 0.0,
        }
    }
}

/// Walks along a course, to find when a number of calls is expected.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    course: Course,
    place: usize,
    /// Start of the current stretch, in seconds.
    begun: f64,
    /// Expected calls before the current stretch.
    expected: f64,
}

/// A point of a course.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Seconds since the start.
    pub(super) time: f64,
    /// Calls per second at this point, above 0.
    pub(super) rate: f64,
    /// Index of its stretch.
    pub(super) place: usize,
}

impl Walk {
    /// The point at which `expected` calls are expected; the argument must never decrease. `None` if the course has fewer calls.
    pub(super) fn point(&mut self, expected: f64) -> Option<Point> {
        loop {
            let Stretch { length, rate } = *self.course.0.get(self.place)?;
            let more = expected - self.expected;
            if more < length * rate {
                return Some(Point {
                    time: self.begun + more / rate,
                    rate,
                    place: self.place,
                });
            }
            self.place += 1;
            self.begun += length;
            self.expected += length * rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_stretches() {
        let rate = Rate::Steps {
            from: 12.0,
            step: 6.0,
            every: Duration::from_secs(300),
        };
        let course = Course::of(rate, Duration::from_secs(750)).unwrap();
        let stretch = |length, rate| Stretch { length, rate };
        assert_eq!(
            course.0,
            [
                stretch(300.0, 12.0),
                stretch(300.0, 18.0),
                stretch(150.0, 24.0)
            ]
        );
        assert!((course.expected_calls() - 12_600.0).abs() < 1e-9);
    }

    #[test]
    fn a_point_is_where_the_calls_are_expected_and_never_where_none_comes() {
        let stretch = |length, rate| Stretch { length, rate };
        let course = [
            stretch(5.0, 0.0),
            stretch(10.0, 2.0),
            stretch(7.0, 0.0),
            stretch(1.0, 4.0),
        ];
        let mut walk = Course::new(course.to_vec()).unwrap().walk();
        let times = [0.0, 2.0, 19.0, 20.0, 22.0].map(|calls| walk.point(calls).unwrap().time);
        let expected = [5.0, 6.0, 14.5, 22.0, 22.5];
        let same = times
            .iter()
            .zip(expected)
            .all(|(time, expected)| (time - expected).abs() < 1e-9);
        assert!(same, "{times:?}");
        assert_eq!(walk.point(24.0), None);
    }

    #[test]
    fn a_course_that_makes_no_sense_is_refused() {
        let refused = |rate, seconds| {
            Course::of(Rate::Constant(rate), Duration::from_secs(seconds)).unwrap_err()
        };
        assert!(refused(0.0, 10).contains("no call"));
        assert!(refused(-1.0, 10).contains("a rate of -1"));
        assert!(refused(f64::NAN, 10).contains("a rate of NaN"));
        assert!(refused(1.0, 0).contains("no call"), "{}", refused(1.0, 0));
        assert!(refused(1.0, 32 * 86_400).contains("too long"));
        assert!(refused(1e6, 86_400).contains("too many"));
        let rate = Rate::Steps {
            from: 1.0,
            step: 1.0,
            every: Duration::from_nanos(1),
        };
        assert!(
            Course::of(rate, Duration::from_secs(1))
                .unwrap_err()
                .contains("steps")
        );
    }
}
