//! Checks that the waits of a scenario match its rates.
//!
//! Each line defines the expected number of calls until the next one: wait times rate. For evenly spaced calls that is one, except for
//! rounding to milliseconds. For random calls (a Poisson process) it is one on average, with a deviation of one. Then the sum over many
//! lines must be close to their number.

use super::Call;
use super::mistake::Problem;
use crate::run::Spacing;

/// Lines that are checked together.
const WINDOW: u64 = 1_000;
/// With fewer lines, random calls are not checked.
const FEWEST: u64 = 100;
/// Tolerated deviations of random calls. A correct file exceeds them once in a thousand million times.
const DEVIATIONS: f64 = 8.0;
/// Tolerated relative error of evenly spaced calls with independently rounded waits.
const ROUNDING: f64 = 0.02;

/// Checks the waits of lines, in order.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    spacing: Spacing,
    window: Sum,
    all: Sum,
    before: f64,
    /// Whether a mistake over many lines has been reported.
    told: bool,
}

/// Sums over lines.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    from: u64,
    calls: u64,
    /// Expected calls, in thousandths.
    expected: f64,
    milliseconds: u64,
    highest: f64,
    /// Total variation of the rate.
    changes: f64,
}

impl Sum {
    fn add(&mut self, line: u64, call: &Call, before: f64) {
        if self.calls == 0 {
            self.from = line;
        } else {
            self.changes += (call.rate - before).abs();
        }
        self.calls += 1;
        self.expected += f64::from(call.wait_ms) * call.rate;
        self.milliseconds += u64::from(call.wait_ms);
        self.highest = self.highest.max(call.rate);
    }

    fn problem(&self, spacing: Spacing) -> Option<Problem> {
        let calls = self.calls as f64;
        // A millisecond that rounding moves to a neighbour counts at the difference of their rates.
        let rounded = 1.0 + (2.0 * self.highest + self.changes) / 1e3;
        let allowed = match spacing {
            Spacing::Regular => ROUNDING * calls,
            Spacing::Poisson if self.calls < FEWEST => return None,
            Spacing::Poisson => DEVIATIONS * calls.sqrt(),
        };
        let milliseconds = self.milliseconds.max(1) as f64;
        ((self.expected / 1e3 - calls).abs() > rounded + allowed).then(|| Problem::Waits {
            from: self.from,
            said: self.expected / milliseconds,
            made: calls * 1e3 / milliseconds,
        })
    }
}

impl Waits {
    pub(super) fn new(spacing: Spacing) -> Self {
        Self {
            spacing,
            window: Sum::default(),
            all: Sum::default(),
            before: 0.0,
            told: false,
        }
    }

    /// Checks a line.
    pub(super) fn look(&mut self, line: u64, call: &Call) -> Option<Problem> {
        self.window.add(line, call, self.before);
        self.all.add(line, call, self.before);
        self.before = call.rate;
        let alone = (self.spacing == Spacing::Regular && !is_even(call)).then_some(Problem::Wait {
            wait_ms: call.wait_ms,
            rate: call.rate,
        });
        let together = (self.window.calls == WINDOW)
            .then(|| self.end_window())
            .flatten();
        alone.or(together)
    }

    /// Checks the remaining lines at the end of the file.
    pub(super) fn end(mut self) -> Option<Problem> {
        let last = self.end_window();
        if self.told {
            return last;
        }
        self.all.problem(self.spacing)
    }

    fn end_window(&mut self) -> Option<Problem> {
        let problem = std::mem::take(&mut self.window).problem(self.spacing);
        self.told |= problem.is_some();
        problem
    }
}

/// Whether the wait matches the rate, to the millisecond and to the precision of the rate.
fn is_even(call: &Call) -> bool {
    let expected = 1e3 / call.rate;
    (f64::from(call.wait_ms) - expected).abs() <= 1.001 + expected * 1e-5
}
