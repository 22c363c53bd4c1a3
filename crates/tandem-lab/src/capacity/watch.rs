//! Watches a running trial: the server's resource usage, and whether the trial can still succeed.

use super::Capacity;
use super::server::{Server, Usage};
use crate::run::Second;
use std::ops::ControlFlow;

/// Consecutive seconds with too many units in progress that end a trial.
const HOPELESS: u32 = 10;
/// Factor by which the mean time in progress then exceeds what the objective allows.
const FACTOR: f64 = 3.0;
/// Fewer units in progress prove nothing.
const FEW: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Watch {
    /// Failures that the objective allows in the whole trial.
    failures: f64,
    /// Units in progress at a rate that meets the objective.
    in_progress: f64,
    seconds: f64,
    too_many: u32,
    failed: u64,
    at_start: Option<Usage>,
    at_end: Option<Usage>,
    hopeless: Option<String>,
}

/// The result of watching a trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Resources that the server used while the counted units started.
    pub(super) used: Option<Usage>,
    /// Why the trial ended early.
    pub(super) hopeless: Option<String>,
}

impl Watch {
    /// Watches a trial at this rate. `before` is the server's usage until now.
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

    /// Checks one second; seconds of the warm-up have times before 0. Breaks when the trial cannot meet the objective any more.
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
