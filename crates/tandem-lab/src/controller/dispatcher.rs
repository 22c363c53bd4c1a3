//! The clock of a run: gives each call to its agent when it is due.

use super::Controller;
use super::plan::Plan;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until};

/// How often a run looks whether it has been stopped while nothing is due.
const LOOKING: Duration = Duration::from_millis(100);

/// Commands the calls of a run, each at its time; those that are due together go together. It never waits for an agent: what waits
/// is in the agent's queue.
pub(super) async fn run(controller: Arc<Controller>, id: u64, plan: Arc<Plan>, started: Instant) {
    let calls = &plan.calls;
    let mut next = 0;
    while let Some(planned) = calls.get(next) {
        let due = started + planned.call.at;
        let now = Instant::now();
        if due > now {
            sleep_until((due.min(now + LOOKING)).into()).await;
        }
        let since = Instant::now().saturating_duration_since(started);
        let is_due = Instant::now() >= due;
        let behind = calls.get(next..).unwrap_or_default();
        let count = if is_due {
            behind.partition_point(|planned| planned.call.at <= since)
        } else {
            0
        };
        if !controller.state().dispatch(id, (next, next + count)) {
            return;
        }
        next += count;
    }
    if let Some(run) = controller.state().run.as_mut().filter(|run| run.id == id) {
        run.all_commanded(Instant::now());
    }
}

/// Looks after the run from time to time.
pub(super) async fn look_after(controller: Arc<Controller>) {
    loop {
        sleep(LOOKING).await;
        let mut state = controller.state();
        let Some(run) = &mut state.run else { continue };
        let before = run.status;
        run.look(Instant::now());
        if run.status != before {
            let report = run.to_report(Instant::now());
            let totals = &report.totals;
            let verdict = if report.trusted {
                ""
            } else {
                ". It cannot be trusted"
            };
            let what = format!(
                "{}: over after {:.1} s: {} calls commanded, {} answered, {} failed, {} lost{verdict}",
                report.scenario,
                report.seconds,
                totals.commanded,
                totals.answered,
                totals.failed,
                totals.lost
            );
            state.event(what);
        }
    }
}
