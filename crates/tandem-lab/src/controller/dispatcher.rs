//! The clock of a run: sends each call to its agent when it is due.

use super::Controller;
use super::plan::Plan;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Interval between checks whether a run was stopped or has ended.
const LOOKING: Duration = Duration::from_millis(100);

/// Dispatches the calls of a run on a thread of its own, because tokio's timers have a resolution of a millisecond.
pub(super) fn start(
    controller: &Arc<Controller>,
    id: u64,
    plan: Arc<Plan>,
    started: Instant,
) -> io::Result<()> {
    let controller = Arc::clone(controller);
    let dispatcher = Builder::new().name("dispatcher".into());
    dispatcher.spawn(move || dispatch(&controller, id, &plan, started))?;
    Ok(())
}

/// Dispatches the calls that are due together in one batch. It never waits for an agent: messages wait in the agent's queue.
fn dispatch(controller: &Controller, id: u64, plan: &Plan, started: Instant) {
    let calls = &plan.calls;
    let mut next = 0;
    while let Some(planned) = calls.get(next) {
        let due = started + planned.call.at;
        let wait = due.saturating_duration_since(Instant::now());
        std::thread::sleep(wait.min(LOOKING));
        let now = Instant::now();
        let is_due = |at: Duration| started + at <= now;
        let behind = calls.get(next..).unwrap_or_default();
        let count = behind.partition_point(|planned| is_due(planned.call.at));
        if !controller.state().dispatch(id, (next, next + count)) {
            return;
        }
        next += count;
    }
    let mut state = controller.state();
    if let Some(run) = state.run.as_mut().filter(|run| run.id == id) {
        run.all_commanded(Instant::now());
    }
}

/// Checks the run periodically.
pub(super) async fn look_after(controller: Arc<Controller>) {
    loop {
        tokio::time::sleep(LOOKING).await;
        let mut state = controller.state();
        let Some(run) = &mut state.run else { continue };
        let before = run.status;
        run.look(Instant::now());
        if run.status == before {
            continue;
        }
        let draft = run.draft(Instant::now());
        drop(state);
        let report = draft.finish();
        let totals = &report.totals;
        let verdict = if report.trusted {
            ""
        } else {
            ". The run cannot be trusted"
        };
        let what = format!(
            "{}: ended after {:.1} s: {} calls commanded, {} answered, {} failed, {} lost{verdict}",
            report.scenario,
            report.seconds,
            totals.commanded,
            totals.answered,
            totals.failed,
            totals.lost
        );
        controller.state().event(what);
    }
}
