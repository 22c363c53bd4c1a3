//! Compares the sum of the waits of a scenario with the seconds in its lines.

use super::Call;
use std::time::Duration;

/// Tolerated rounding error of the sum, in milliseconds.
const NOTHING: f64 = 1e-3;

/// The time of a line, as an interval derived from the lines before it. A file may have rounded each wait independently. Then the time
/// lies within the accumulated rounding error, and each new second narrows the interval. A missing line is noticed if its wait is longer
/// than the interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Elapsed {
    /// Lower bound in milliseconds.
    from: f64,
    /// Upper bound in milliseconds.
    until: f64,
}

impl Elapsed {
    /// Narrows the time to this second of a line. After an error the line's second becomes the time, so that a mistake is reported once.
    ///
    /// # Errors
    /// The lower bound of the time that the waits add up to, in milliseconds.
    pub(super) fn at_second(&mut self, second: u32) -> Result<(), u64> {
        let (begin, end) = (f64::from(second) * 1e3, f64::from(second) * 1e3 + 999.0);
        if self.until + NOTHING < begin || self.from - NOTHING > end {
            // Rounding may make it slightly negative.
            let elapsed = Duration::from_secs_f64(self.from.max(0.0) / 1e3);
            (self.from, self.until) = (begin, end);
            return Err(elapsed.as_millis() as u64);
        }
        self.from = self.from.clamp(begin, end);
        self.until = self.until.clamp(begin, end);
        Ok(())
    }

    /// Adds a call's wait.
    pub(super) fn wait(&mut self, call: &Call) {
        let wait = f64::from(call.wait_ms);
        let rounded = (wait - 1e3 / call.rate).abs().min(1.0);
        self.from += wait - rounded;
        self.until += wait + rounded;
    }

    /// Skips an unreadable line: the next line sets the time.
    pub(super) fn lose(&mut self) {
        (self.from, self.until) = (0.0, f64::INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices of mistaken lines, given their waits and seconds at a rate.
    fn wrong(rate: f64, lines: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
        let mut elapsed = Elapsed::default();
        let mut wrong = Vec::new();
        for (place, (wait_ms, second)) in lines.enumerate() {
            if elapsed.at_second(second).is_err() {
                wrong.push(place);
            }
            elapsed.wait(&Call {
                caller: 0,
                callee: 1,
                wait_ms,
                second,
                rate,
            });
        }
        wrong
    }

    #[test]
    fn one_missing_line_in_a_thousand_a_second_is_noticed_when_the_second_changes() {
        let lines = || (0..10_000).map(|time| (1, time / 1_000));
        assert_eq!(wrong(1_000.0, lines()), [0; 0]);
        let hole = lines().take(4_500).chain(lines().skip(4_501));
        // The line at 5 s now comes after 4.999 s.
        assert_eq!(wrong(1_000.0, hole), [4_999]);
    }

    #[test]
    fn waits_may_have_been_rounded_one_by_one_and_a_missing_line_is_noticed_all_the_same() {
        // Twelve in each second, 83 ms apart: 996 ms.
        let lines = || (0..12_000).map(|call| (83, call / 12));
        assert_eq!(wrong(12.0, lines()), [0; 0]);
        let hole = lines().take(6_006).chain(lines().skip(6_007));
        assert_eq!(wrong(12.0, hole).len(), 1);
    }

    #[test]
    fn after_a_line_that_cannot_be_read_the_next_one_says_the_time() {
        let mut elapsed = Elapsed::default();
        elapsed.lose();
        assert_eq!(elapsed.at_second(7), Ok(()));
        assert_eq!(elapsed.at_second(9), Err(7_000));
    }
}
