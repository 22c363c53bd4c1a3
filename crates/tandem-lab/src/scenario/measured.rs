//! Measured traffic: its volume in each interval of several days.

use super::course::{Course, Stretch};
use super::read::shown;
use std::fmt;
use std::io::{BufRead, Read};
use std::time::Duration;

/// The built-in week of Milan. `data/README.md` names its source.
const MILANO: &str = include_str!("../../../../data/milano_calls.csv");
const HEADER: &str = "timestamp_utc_ms,calls";
/// Maximum number of intervals in a file.
const MOST: usize = 1_000_000;
const MAX_LINE: u64 = 256;
const DAY_MS: u64 = 86_400_000;

/// Measured traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Length of an interval, in milliseconds.
    interval_ms: u64,
    /// Traffic per interval, in an arbitrary unit.
    intervals: Vec<f64>,
}

/// Why measured traffic cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Unusable {
    /// From 1, the header.
    pub line: u64,
    /// What is wrong, and what is valid.
    pub problem: String,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

impl Measured {
    /// A week of telephone calls in Milan, from Sunday 3 November 2013, in intervals of ten minutes. Telecom Italia open dataset
    /// (Barlacchi et al., Scientific Data 2, 150055, 2015), Open Database License 1.0.
    pub fn milano() -> Self {
        Self::read(MILANO.as_bytes()).unwrap_or_else(|wrong| unreachable!("line {wrong}"))
    }

    /// Reads lines `timestamp_utc_ms,calls` at equal intervals.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn read(mut input: impl BufRead) -> Result<Self, Unusable> {
        let mut buffer = Vec::new();
        let mut times = Times::default();
        let mut intervals = Vec::new();
        for line in 1.. {
            let wrong = |problem| Unusable { line, problem };
            buffer.clear();
            let mut limited = input.by_ref().take(MAX_LINE);
            let read = limited.read_until(b'\n', &mut buffer);
            match read.map_err(|error| wrong(format!("reading stopped: {error}")))? {
                0 => break,
                length if length as u64 == MAX_LINE => {
                    return Err(wrong(format!("the line is longer than {MAX_LINE} bytes")));
                }
                _ => {}
            }
            let text = buffer.trim_ascii_end();
            if line == 1 {
                if text != HEADER.as_bytes() {
                    let found = shown(text);
                    return Err(wrong(format!("`{found}` is not the header `{HEADER}`")));
                }
                continue;
            }
            let (time, traffic) = fields(text).map_err(wrong)?;
            times.next(time).map_err(wrong)?;
            if intervals.len() == MOST {
                return Err(wrong(format!("more than {MOST} intervals")));
            }
            intervals.push(traffic);
        }
        let Some(interval_ms) = times.interval else {
            let problem = format!("at least two intervals are needed after the header `{HEADER}`");
            return Err(Unusable {
                line: intervals.len() as u64 + 1,
                problem,
            });
        };
        Ok(Self {
            interval_ms,
            intervals,
        })
    }

    /// Number of complete days.
    pub fn days(&self) -> u64 {
        self.intervals.len() as u64 * self.interval_ms / DAY_MS
    }

    /// The course of `days` days, counting `first` from 1. It is scaled so that the highest interval has `peak` calls per second, and
    /// stretched or compressed to the duration. Without a duration it takes the original time.
    ///
    /// # Errors
    /// The file does not have these days; those of [`Course::new`].
    pub fn course(
        &self,
        first: u32,
        days: u32,
        peak: f64,
        duration: Option<Duration>,
    ) -> Result<Course, String> {
        if !DAY_MS.is_multiple_of(self.interval_ms) {
            return Err(format!(
                "intervals of {} ms do not divide a day",
                self.interval_ms
            ));
        }
        let of_day = DAY_MS / self.interval_ms;
        let (first, days) = (u64::from(first), u64::from(days));
        if first == 0 || days == 0 || first + days - 1 > self.days() {
            return Err(format!(
                "no {days} days are available from day {first}: the days are 1 to {}",
                self.days()
            ));
        }
        let intervals = self.intervals.iter().skip(((first - 1) * of_day) as usize);
        let intervals: Vec<f64> = intervals.take((days * of_day) as usize).copied().collect();
        let highest = intervals.iter().copied().fold(0.0, f64::max);
        if highest <= 0.0 {
            return Err("these days have no traffic".into());
        }
        let took = Duration::from_millis(days * DAY_MS);
        let duration = duration.unwrap_or(took).as_secs_f64();
        let length = duration / intervals.len() as f64;
        let stretches = intervals.iter().map(|traffic| Stretch {
            length,
            rate: traffic / highest * peak,
        });
        Course::new(stretches.collect())
    }
}

/// The start times of intervals, which must be equally spaced.
#[derive(Default)]
struct Times {
    last: Option<u64>,
    interval: Option<u64>,
}

impl Times {
    fn next(&mut self, time: u64) -> Result<(), String> {
        let Some(last) = self.last.replace(time) else {
            return Ok(());
        };
        let distance = time.checked_sub(last).filter(|distance| *distance > 0);
        let distance = distance
            .ok_or_else(|| format!("timestamp {time} is not after {last}, the previous one"))?;
        let interval = *self.interval.get_or_insert(distance);
        if distance == interval {
            return Ok(());
        }
        Err(format!(
            "timestamp {time} is {distance} ms after the previous one, but intervals are {interval} ms: is a line missing?"
        ))
    }
}

fn fields(line: &[u8]) -> Result<(u64, f64), String> {
    let text = std::str::from_utf8(line).ok();
    let parts = text.and_then(|text| text.split_once(','));
    let (time, traffic) = parts.ok_or_else(|| format!("`{}` is not `{HEADER}`", shown(line)))?;
    let time = time.parse().map_err(|_| {
        format!(
            "timestamp_utc_ms `{}`: must be milliseconds since 1970",
            shown(time.as_bytes())
        )
    })?;
    let number = traffic.parse().ok();
    let number = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
    let traffic = number.ok_or_else(|| {
        format!(
            "calls `{}`: must be a number of at least 0",
            shown(traffic.as_bytes())
        )
    })?;
    Ok((time, traffic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_week_of_milan_has_the_shape_that_was_measured() {
        let milano = Measured::milano();
        assert_eq!(
            (milano.days(), milano.interval_ms, milano.intervals.len()),
            (7, 600_000, 1_008)
        );
        // Monday to Friday.
        for day in milano.intervals.chunks(144).skip(1).take(5) {
            let highest = day.iter().copied().fold(0.0, f64::max);
            let lowest = day.iter().copied().fold(f64::INFINITY, f64::min);
            let mean = day.iter().sum::<f64>() / 144.0;
            assert!(
                (97.0..113.5).contains(&(highest / lowest)),
                "{}",
                highest / lowest
            );
            assert!((1.9..2.3).contains(&(highest / mean)), "{}", highest / mean);
        }
    }

    #[test]
    fn a_day_is_scaled_to_its_peak_and_compressed() {
        let course = Measured::milano()
            .course(2, 1, 50.0, Some(Duration::from_secs(3 * 3_600)))
            .unwrap();
        assert!((course.duration() - 3.0 * 3_600.0).abs() < 1e-6);
        // Peak over mean is 2.0 to 2.2.
        let mean = course.expected_calls() / course.duration();
        assert!((2.0..2.2).contains(&(50.0 / mean)), "{mean}");
        let whole = Measured::milano().course(1, 7, 50.0, None).unwrap();
        assert!((whole.duration() - 7.0 * 86_400.0).abs() < 1e-3);
    }

    #[test]
    fn days_that_there_are_not_are_refused() {
        for (first, days) in [(0, 1), (1, 0), (8, 1), (7, 2), (u32::MAX, u32::MAX)] {
            let refused = Measured::milano()
                .course(first, days, 50.0, None)
                .unwrap_err();
            assert!(refused.ends_with("the days are 1 to 7"), "{refused}");
        }
    }

    #[test]
    fn unusable_input_is_reported_with_its_line() {
        for (lines, line, problem) in [
            ("", 1, "two intervals"),
            ("time,calls\n", 1, "`time,calls` is not the header"),
            ("timestamp_utc_ms,calls\n0,1\n", 2, "two intervals"),
            (
                "timestamp_utc_ms,calls\n0,1\n600000\n",
                3,
                "`600000` is not",
            ),
            ("timestamp_utc_ms,calls\n0,1\n600000,-1\n", 3, "calls `-1`"),
            (
                "timestamp_utc_ms,calls\n0,1\n600000,NaN\n",
                3,
                "calls `NaN`",
            ),
            (
                "timestamp_utc_ms,calls\n0,1\n600000,1,2\n",
                3,
                "calls `1,2`",
            ),
            (
                "timestamp_utc_ms,calls\n0,1\n6e5,1\n",
                3,
                "timestamp_utc_ms `6e5`",
            ),
            (
                "timestamp_utc_ms,calls\n0,1\n600000,1\n1800000,1\n",
                4,
                "is a line missing",
            ),
            (
                "timestamp_utc_ms,calls\n600000,1\n0,1\n",
                3,
                "timestamp 0 is not after 600000",
            ),
        ] {
            let unusable = Measured::read(lines.as_bytes()).unwrap_err();
            assert_eq!(unusable.line, line, "{lines}");
            assert!(unusable.problem.contains(problem), "{unusable}");
        }
        let long = format!("{HEADER}\n{}", "9".repeat(10_000));
        assert_eq!(Measured::read(long.as_bytes()).unwrap_err().line, 2);
    }
}
