//! Asks workers about their dialogs, and waits for the answers.
use super::order::PAUSE;
use super::running::Running;
use super::state::Control;
use sip_elements::{
    ControlMessage, DialogAction, DialogAnswer, DialogOutcome, DialogRequest, FoundDialog,
};
use sip_runtime::SendError;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard, mpsc};
use tokio::time::{sleep, timeout, timeout_at};

/// Answers that may wait: one of each worker, and those that come too late for their request.
const WAITING: usize = 1_024;

/// Where the workers' answers arrive.
#[derive(Debug)]
pub(crate) struct DialogAnswers {
    /// The workers' end.
    pub(crate) sender: mpsc::Sender<DialogAnswer>,
    /// One search at a time.
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
    /// The worker has the request, but did not answer. It may still do what is requested.
    #[error(
        "worker {worker} of {workers} (counted from 0) did not answer in time, because it is overloaded or its thread has ended: retry"
    )]
    Silent { worker: u16, workers: u16 },
    /// The worker did not get the request.
    #[error(
        "worker {worker} of {workers} (counted from 0) did not take the request, because its inbox stays full or its thread has ended: retry"
    )]
    Undelivered { worker: u16, workers: u16 },
    /// Other requests kept the workers busy.
    #[error("other requests about dialogs are not finished: retry")]
    Busy,
    /// Each worker answered in time, but there was too much to search.
    #[error(
        "the search did not end in time, because there are many calls and the workers are busy: retry, or page through dialogs.list"
    )]
    Unfinished,
}

/// A place in the tables of all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) worker: u16,
    pub(crate) slot: u32,
}

/// The right to ask the workers.
pub(super) struct Asking<'c> {
    running: &'c Running,
    asked: MutexGuard<'c, Asked>,
    /// The time for one answer.
    patience: Duration,
    /// When the search should end.
    end: Instant,
    /// Requests without an answer, the oldest first.
    expected: Vec<Expected>,
}

struct Expected {
    number: u64,
    worker: u16,
    deadline: Instant,
}

impl Control {
    /// Waits until the workers may be asked.
    pub(super) async fn asking<'c>(
        &'c self,
        running: &'c Running,
    ) -> Result<Asking<'c>, DialogError> {
        let patience = self.order_patience;
        let asked = timeout(patience, self.dialog_answers.asked.lock());
        Ok(Asking {
            running,
            asked: asked.await.map_err(|_| DialogError::Busy)?,
            patience,
            end: Instant::now() + patience * 2,
            expected: Vec::new(),
        })
    }
}

impl Asking<'_> {
    /// Whether the search has taken as long as two answers may take.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Asks a worker, and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        place: Position,
        action: DialogAction,
    ) -> Result<DialogOutcome, DialogError> {
        self.put(place, action).await?;
        match self.answer().await {
            Some((_, answer)) => answer,
            None => Err(self.silent(place.worker)),
        }
    }

    /// Sends a worker a request, waiting for room in its inbox.
    pub(super) async fn put(
        &mut self,
        place: Position,
        action: DialogAction,
    ) -> Result<(), DialogError> {
        let Position { worker, slot: from } = place;
        let deadline = Instant::now() + self.patience;
        self.asked.number += 1;
        let number = self.asked.number;
        let mut message = ControlMessage::Dialogs(DialogRequest {
            number,
            from,
            action,
        });
        loop {
            message = match self.running.workers.send(worker, message) {
                Ok(()) => break,
                Err(SendError::Full(message)) if Instant::now() < deadline => message,
                Err(SendError::Full(_) | SendError::Gone(_)) => {
                    let workers = self.running.workers.workers();
                    return Err(DialogError::Undelivered { worker, workers });
                }
            };
            sleep(PAUSE).await;
        }
        self.expected.push(Expected {
            number,
            worker,
            deadline,
        });
        Ok(())
    }

    /// The next answer to any of the requests, with its worker; `None` if all have one. A worker that does not answer in time is not waited
    /// for again.
    pub(super) async fn answer(&mut self) -> Option<(u16, Result<DialogOutcome, DialogError>)> {
        loop {
            let oldest = self.expected.first()?;
            let (worker, deadline) = (oldest.worker, oldest.deadline);
            let answers = &mut self.asked.answers;
            let Ok(Some(answer)) = timeout_at(deadline.into(), answers.recv()).await else {
                self.expected.remove(0);
                return Some((worker, Err(self.silent(worker))));
            };
            let mut expected = self.expected.iter();
            // An answer that nothing expects is late.
            if let Some(place) = expected.position(|it| it.number == answer.number) {
                let worker = self.expected.remove(place).worker;
                return Some((worker, Ok(answer.outcome)));
            }
        }
    }

    /// The dialogs in an answer, and where to continue.
    pub(super) fn shown(
        &self,
        worker: u16,
        outcome: DialogOutcome,
    ) -> Result<(Vec<FoundDialog>, Option<u32>), DialogError> {
        match outcome {
            DialogOutcome::Shown { found, next } => Ok((found, next)),
            DialogOutcome::Ended(_) => Err(self.silent(worker)),
        }
    }

    pub(super) fn silent(&self, worker: u16) -> DialogError {
        let workers = self.running.workers.workers();
        DialogError::Silent { worker, workers }
    }
}
