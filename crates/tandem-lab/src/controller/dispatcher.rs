//! The clock of a run: gives each call to its agent when it is due.

use super::Controller;
use super::plan::Plan;
use std::io;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How often it is looked whether a run has been stopped or is over.
const LOOKING: Duration = Duration::from_millis(100);

/// Commands the calls of a run, each at its time, on a thread of its own: tokio's timers know but whole milliseconds.
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

/// Calls that are due together go together. It never waits for an agent: what waits is in the agent's queue.
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

/// Looks after the run from time to time.
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
        controller.state().event(what);
    }
}
