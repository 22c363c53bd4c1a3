//! A trial while it runs: what the server uses, and whether going on is of any use.

use super::Capacity;
use super::server::{Server, Usage};
use crate::run::Second;
use std::ops::ControlFlow;

/// Seconds in a row for which too much must be in progress.
const HOPELESS: u32 = 10;
/// How much longer than the objective allows units are in progress by then, in the mean.
const FACTOR: f64 = 3.0;
/// Units in progress that say nothing.
const FEW: f64 = 100.0;

/// What is seen of a trial.
#[derive(Debug)]
pub(super) struct Watch {
    /// Failures that the objective allows in the whole trial.
    failures: f64,
    /// Units in progress that a rate has which keeps the objective.
    in_progress: f64,
    seconds: f64,
    too_many: u32,
    failed: u64,
    at_start: Option<Usage>,
    at_end: Option<Usage>,
    hopeless: Option<String>,
}

/// What was seen of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// What the server used while units began that are counted.
    pub(super) used: Option<Usage>,
    /// Why the trial was ended before its time.
    pub(super) hopeless: Option<String>,
}

impl Watch {
    /// Of a trial at that rate; the server has used so much before.
    pub(super) fn new(capacity: &Capacity, rate: f64, before: Option<Usage>) -> Self {
        let (run, objective) = (&capacity.run, &capacity.objective);
        let call = run.profile.call;
        let units = rate * run.duration.as_secs_f64();
        let longest = objective.p99_us as f64 / 1e6 * FACTOR;
        let calls = (call.ringing + call.talking).as_secs_f64();
        Self {
            failures: (units * objective.failures).max(10.0),
            in_progress: rate * (longest + calls) * run.profile.mixture() + FEW,
            seconds: run.duration.as_secs_f64(),
            too_many: 0,
            failed: 0,
            at_start: before,
            at_end: None,
            hopeless: None,
        }
    }

    /// Looks at a second; those of the warm-up lie before the start. Ends a trial that cannot keep the objective any more.
    pub(super) fn look(&mut self, second: &Second, server: &Server) -> ControlFlow<()> {
        let usage = || server.usage().ok().flatten();
        if second.time <= 0.0 {
            self.at_start = usage();
        } else if second.time < self.seconds + 0.5 {
            self.at_end = usage();
        }
        if second.time > 0.0 {
            self.failed += second.failed;
        }
        let is_too_much = second.in_progress as f64 > self.in_progress;
        self.too_many = if is_too_much { self.too_many + 1 } else { 0 };
        self.hopeless = if self.failed as f64 > self.failures {
            Some(format!("{} units failed", self.failed))
        } else if self.too_many >= HOPELESS {
            Some(format!("{} units in progress", second.in_progress))
        } else {
            return ControlFlow::Continue(());
        };
        ControlFlow::Break(())
    }

    pub(super) fn verdict(self) -> Verdict {
        let used = self.at_start.zip(self.at_end);
        Verdict {
            used: used.map(|(start, end)| end.since(start)),
            hopeless: self.hopeless,
        }
    }
}
