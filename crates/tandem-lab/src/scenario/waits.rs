//! Whether the waits of a scenario are those of its rates.
//!
//! Each line says how many calls are expected until the next one: wait times rate. Where calls are evenly spaced that is one, but
//! for rounding to milliseconds. Where they come at random (a Poisson process) it is one on average, with a deviation of one: so
//! many lines together must lie close to their number.

use super::Call;
use super::mistake::Problem;
use crate::run::Spacing;

/// Lines that are looked at together.
const WINDOW: u64 = 1_000;
/// Fewer say nothing where calls come at random.
const FEWEST: u64 = 100;
/// Deviations of random calls that are nobody's mistake: they happen once in a thousand million times.
const DEVIATIONS: f64 = 8.0;
/// Part of evenly spaced calls by which waits that were rounded one by one may be wrong together.
const ROUNDING: f64 = 0.02;

/// Looks at the waits of lines, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    spacing: Spacing,
    window: Sum,
    all: Sum,
    before: f64,
    /// Whether lines were wrong together already.
    told: bool,
}

/// Of lines.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    from: u64,
    calls: u64,
    /// Calls that waits and rates expect, in thousandths.
    expected: f64,
    milliseconds: u64,
    highest: f64,
    /// How much the rate went up and down.
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
        // A millisecond that went to a neighbour counts at the difference of their rates.
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

    /// Looks at a line.
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

    /// Looks at what is left when the last line has come.
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

/// Whether the wait is the rate's, to the millisecond and to the digits that a rate is written with.
fn is_even(call: &Call) -> bool {
    let expected = 1e3 / call.rate;
    (f64::from(call.wait_ms) - expected).abs() <= 1.001 + expected * 1e-5
}
