//! Requests to the workers about their dialogs. A request looks at one part of one worker's table at a time, so the worker serves calls
//! between the parts.
use super::order::PAUSE;
use super::running::Running;
use super::state::Control;
use sip_elements::trace::Selection;
use sip_elements::{
    ControlMessage, DialogAction, DialogAnswer, DialogFilter, DialogOutcome, DialogRequest,
    EndOutcome, FoundDialog, home_of,
};
use sip_runtime::SendError;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::{sleep, timeout_at};

/// Answers that may wait. Only one is expected at a time; others come too late for their request.
const WAITING: usize = 64;

/// Where the workers' answers arrive.
#[derive(Debug)]
pub(crate) struct DialogAnswers {
    /// The workers' end.
    pub(crate) sender: mpsc::Sender<DialogAnswer>,
    /// One request at a time.
    asked: Mutex<Asked>,
}

#[derive(Debug)]
struct Asked {
    answers: mpsc::Receiver<DialogAnswer>,
    /// The number of the last request.
    number: u64,
}

impl Default for DialogAnswers {
    fn default() -> Self {
        let (sender, answers) = mpsc::channel(WAITING);
        let asked = Asked { answers, number: 0 };
        Self {
            sender,
            asked: Mutex::new(asked),
        }
    }
}

/// Why a request about dialogs failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialogError {
    /// The worker did not answer.
    #[error(
        "worker {worker} of {workers} (counted from 0) did not answer in time, because it is overloaded or its thread has ended: retry"
    )]
    Silent { worker: u16, workers: u16 },
    /// Other requests kept the workers busy.
    #[error("other requests about dialogs are not finished: retry")]
    Busy,
}

/// A place in the tables of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) worker: u16,
    pub(crate) slot: u32,
}

/// A dialog and where it is.
#[derive(Clone, Debug)]
pub(crate) struct PlacedDialog {
    pub(crate) worker: u16,
    pub(crate) dialog: FoundDialog,
}

impl PlacedDialog {
    /// The place after it.
    pub(crate) const fn next(&self) -> Position {
        Position {
            worker: self.worker,
            slot: self.dialog.id.slot().saturating_add(1),
        }
    }
}

impl Control {
    /// The dialogs that `filter` admits, at most `most`, beginning at a place.
    ///
    /// # Errors
    /// [`DialogError`].
    pub(crate) async fn dialogs(
        &self,
        running: &Running,
        filter: DialogFilter,
        after: Position,
        most: usize,
    ) -> Result<Vec<PlacedDialog>, DialogError> {
        let workers = homes(&filter, running.workers.workers());
        let filter = Arc::new(filter);
        let mut asking = self.asking(running).await?;
        let mut found = Vec::new();
        for worker in workers.start.max(after.worker)..workers.end {
            let mut from = (worker == after.worker).then_some(after.slot).or(Some(0));
            while let Some(slot) = from
                && found.len() < most
            {
                let action = DialogAction::Show {
                    filter: Arc::clone(&filter),
                    most: most - found.len(),
                };
                let outcome = asking.ask(worker, slot, action).await?;
                let DialogOutcome::Shown { found: part, next } = outcome else {
                    return Err(asking.silent(worker));
                };
                found.extend(
                    part.into_iter()
                        .map(|dialog| PlacedDialog { worker, dialog }),
                );
                from = next;
            }
        }
        Ok(found)
    }

    /// Ends a dialog, with this value of Reason.
    ///
    /// # Errors
    /// [`DialogError`].
    pub(crate) async fn end_dialog(
        &self,
        running: &Running,
        placed: &PlacedDialog,
        reason: &Arc<[u8]>,
    ) -> Result<EndOutcome, DialogError> {
        let worker = placed.worker;
        let mut asking = self.asking(running).await?;
        let mut from = 0;
        loop {
            let action = DialogAction::End {
                id: placed.dialog.id,
                reason: Arc::clone(reason),
            };
            match asking.ask(worker, from, action).await? {
                DialogOutcome::Ended(EndOutcome::Continue(next)) => from = next,
                DialogOutcome::Ended(outcome) => return Ok(outcome),
                DialogOutcome::Shown { .. } => return Err(asking.silent(worker)),
            }
        }
    }

    /// Waits until the workers may be asked.
    async fn asking<'c>(&'c self, running: &'c Running) -> Result<Asking<'c>, DialogError> {
        let deadline = Instant::now() + self.order_patience;
        let asked = timeout_at(deadline.into(), self.dialog_answers.asked.lock());
        Ok(Asking {
            running,
            asked: asked.await.map_err(|_| DialogError::Busy)?,
            deadline,
        })
    }
}

/// The workers that may have such dialogs: the home of a Call-ID, or all.
fn homes(filter: &DialogFilter, workers: u16) -> Range<u16> {
    match &filter.about {
        Some(Selection::Call(call_id)) => {
            let home = home_of(call_id, workers);
            home..home + 1
        }
        _ => 0..workers,
    }
}

/// The right to ask the workers, until a deadline.
struct Asking<'c> {
    running: &'c Running,
    asked: MutexGuard<'c, Asked>,
    deadline: Instant,
}

impl Asking<'_> {
    /// Asks a worker, and waits for its answer.
    async fn ask(
        &mut self,
        worker: u16,
        from: u32,
        action: DialogAction,
    ) -> Result<DialogOutcome, DialogError> {
        self.asked.number += 1;
        let number = self.asked.number;
        let request = DialogRequest {
            number,
            from,
            action,
        };
        self.send(worker, ControlMessage::Dialogs(request)).await?;
        loop {
            let answer = timeout_at(self.deadline.into(), self.asked.answers.recv()).await;
            match answer {
                Ok(Some(answer)) if answer.number == number => return Ok(answer.outcome),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Err(self.silent(worker)),
            }
        }
    }

    /// Sends a message to a worker, waiting for room in its inbox.
    async fn send(&self, worker: u16, message: ControlMessage) -> Result<(), DialogError> {
        let mut message = message;
        loop {
            message = match self.running.workers.send(worker, message) {
                Ok(()) => return Ok(()),
                Err(SendError::Full(message)) if Instant::now() < self.deadline => message,
                Err(SendError::Full(_) | SendError::Gone(_)) => return Err(self.silent(worker)),
            };
            sleep(PAUSE).await;
        }
    }

    fn silent(&self, worker: u16) -> DialogError {
        let workers = self.running.workers.workers();
        DialogError::Silent { worker, workers }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gated::{Fixture, run};
    use super::*;

    fn of_call(call_id: &[u8]) -> DialogFilter {
        DialogFilter {
            about: Some(Selection::Call(call_id.into())),
            ..DialogFilter::default()
        }
    }

    #[test]
    fn a_worker_that_does_not_answer_is_named_and_a_late_answer_is_no_answer() {
        run(async {
            let fixture = Fixture::start().await;
            let (control, running) = (&fixture.control, &fixture.running);
            let late = DialogAnswer {
                number: 7,
                outcome: DialogOutcome::Ended(EndOutcome::Gone),
            };
            control.dialog_answers.sender.try_send(late).expect("room");
            for (filter, worker) in [
                (DialogFilter::default(), 0),
                (of_call(b"a"), home_of(b"a", 2)),
                (of_call(b"b"), home_of(b"b", 2)),
            ] {
                let listed = control
                    .dialogs(running, filter, Position::default(), 10)
                    .await;
                let silent = DialogError::Silent { worker, workers: 2 };
                assert!(
                    silent
                        .to_string()
                        .starts_with(&format!("worker {worker} of 2 "))
                );
                assert_eq!(listed.map(|found| found.len()), Err(silent));
            }
        });
    }

    #[test]
    fn a_worker_whose_inbox_stays_full_is_named() {
        run(async {
            let fixture = Fixture::start().await;
            let (control, running) = (&fixture.control, &fixture.running);
            let [gate, _] = &fixture.gates;
            let held = gate.write().await;
            fixture.fill_first_inbox().await;
            let all = DialogFilter::default();
            let listed = control.dialogs(running, all, Position::default(), 10).await;
            let (worker, workers) = (0, 2);
            let silent = DialogError::Silent { worker, workers };
            assert_eq!(listed.map(|found| found.len()), Err(silent));
            drop(held);
        });
    }

    #[test]
    fn one_request_at_a_time_occupies_the_workers() {
        run(async {
            let fixture = Fixture::start().await;
            let (control, running) = (&fixture.control, &fixture.running);
            let asking = control.asking(running).await.expect("the first one");
            let all = DialogFilter::default();
            let listed = control.dialogs(running, all, Position::default(), 10).await;
            assert_eq!(listed.map(|found| found.len()), Err(DialogError::Busy));
            drop(asking);
        });
    }
}
