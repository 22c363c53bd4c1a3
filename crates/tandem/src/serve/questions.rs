//! Takes the data plane's questions and records, and answers the questions: credentials from the database, next hops from the resolver.
//! Each question has a deadline, and the number of questions in progress is bounded. A question past its deadline is dropped, because its
//! request has already been answered.
use super::changed_subscribers::ChangedSubscribers;
use crate::calls::CallSender;
use crate::control::{Control, LookupCounters, LookupResult, Running};
use crate::fleet_store::{DialogNews, Pulse};
use crate::trace::TraceQueue;
use sip_dialog::Change;
use sip_elements::auth::{Cached, StoredCredentials};
use sip_elements::bans::Notice;
use sip_elements::{
    ControlMessage, DialogAnswer, NameServersFailed, NotDescribed, Question, Record, StoreFailed,
};
use sip_resolver::{Located, Resolver};
use sip_transport::selection::{Candidate, Destination};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{DialogRow, Store, StoreError};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Questions that may wait. The worker counts those beyond and lets their deadlines pass.
const WAITING: usize = 65_536;
/// Notices that may wait for the log. The workers count those beyond.
const WAITING_NOTICES: usize = 4_096;
/// Concurrent database reads.
const CREDENTIALS_AT_ONCE: usize = 16;
/// Next hops located concurrently.
const NAMES_AT_ONCE: usize = 1_024;

/// A question with its worker and its arrival time.
struct Queued {
    worker: u16,
    question: Question,
    since: Instant,
}

/// The workers' end of the queues. Notices and calls have queues of their own. So have names: an unreachable name server does not delay registrations.
#[derive(Clone, Debug)]
pub(super) struct ControlQueues {
    credentials: mpsc::Sender<Queued>,
    names: mpsc::Sender<Queued>,
    notices: mpsc::Sender<Notice>,
    calls: CallSender,
    dialogs: mpsc::Sender<DialogNews>,
    /// Whether this process has run all the time.
    pulse: Pulse,
    answers: mpsc::Sender<DialogAnswer>,
    /// Copies of messages have a queue of their own, so that they displace no other record.
    copies: Arc<TraceQueue>,
}

impl sip_runtime::ControlPlane<Question, Record> for ControlQueues {
    fn ask(&mut self, worker: u16, question: Question) -> Result<(), Question> {
        let queue = match question {
            Question::Credentials { .. } => &self.credentials,
            // No media control yet: its questions are answered at once.
            Question::Resolve { .. } | Question::Describe { .. } => &self.names,
        };
        queue
            .try_send(Queued {
                worker,
                question,
                since: Instant::now(),
            })
            .map_err(|full| full.into_inner().question)
    }

    fn record(&mut self, worker: u16, record: Record) -> Result<(), Record> {
        match record {
            Record::Notice(notice) => self
                .notices
                .try_send(notice)
                .map_err(|full| Record::Notice(full.into_inner())),
            Record::Call(event)
                if matches!(event.change, Change::Ended(_)) && !self.pulse.is_steady() =>
            {
                // Another node may have the call, and write its record.
                let waits = DialogNews::Ended(Box::new(event.clone()));
                let sent = self.dialogs.try_send(waits);
                sent.or_else(|_| self.calls.offer(event).map_err(Record::Call))
            }
            Record::Call(event) => self.calls.offer(event).map_err(Record::Call),
            Record::Dialog { id, state, expires } => {
                let expires_at = u32::try_from(expires.unix_seconds()).unwrap_or(u32::MAX);
                let change = DialogRow {
                    id,
                    expires_at,
                    state,
                };
                let sent = self.dialogs.try_send(DialogNews::Changed(change));
                sent.map_err(|_| Record::Dialog {
                    id,
                    state: None,
                    expires,
                })
            }
            Record::Dialogs(answer) => self
                .answers
                .try_send(*answer)
                .map_err(|full| Record::Dialogs(Box::new(full.into_inner()))),
            Record::Traced(traced) => {
                // The queue counts what it drops.
                self.copies.add(worker, traced);
                Ok(())
            }
            Record::Missed(missed) => {
                let sent = self.dialogs.try_send(DialogNews::Missed(missed.clone()));
                sent.map_err(|_| Record::Missed(missed))
            }
        }
    }
}

/// Questions on their way to the [`Responder`].
pub(super) struct QueuedQuestions {
    credentials: mpsc::Receiver<Queued>,
    names: mpsc::Receiver<Queued>,
}

/// Creates the queues: the workers' end with those for `calls`, `dialogs`, `answers` about dialogs and `copies`, and the ends for questions and
/// notices. What the workers send waits in them until it is taken.
pub(super) fn queues(
    calls: CallSender,
    (dialogs, pulse): (mpsc::Sender<DialogNews>, Pulse),
    answers: mpsc::Sender<DialogAnswer>,
    copies: Arc<TraceQueue>,
) -> (ControlQueues, QueuedQuestions, mpsc::Receiver<Notice>) {
    let (credentials, queued_credentials) = mpsc::channel(WAITING);
    let (names, queued_names) = mpsc::channel(WAITING);
    let (notices, queued_notices) = mpsc::channel(WAITING_NOTICES);
    let queues = ControlQueues {
        credentials,
        names,
        notices,
        calls,
        dialogs,
        pulse,
        answers,
        copies,
    };
    let questions = QueuedQuestions {
        credentials: queued_credentials,
        names: queued_names,
    };
    (queues, questions, queued_notices)
}

/// Finds the answers and sends them to the workers.
#[derive(Debug)]
pub(super) struct Responder {
    pub(super) control: Arc<Control>,
    pub(super) running: Arc<Running>,
    pub(super) subscribers: Arc<ChangedSubscribers>,
    pub(super) resolver: Resolver,
}

impl Responder {
    /// Starts the tasks. They end when the last clone of the [`ControlQueues`] is dropped.
    pub(super) fn start(self, questions: QueuedQuestions) -> [JoinHandle<()>; 2] {
        let responder = Arc::new(self);
        let QueuedQuestions { credentials, names } = questions;
        [
            tokio::spawn(Arc::clone(&responder).serve(credentials, CREDENTIALS_AT_ONCE)),
            tokio::spawn(responder.serve(names, NAMES_AT_ONCE)),
        ]
    }

    async fn serve(self: Arc<Self>, mut queue: mpsc::Receiver<Queued>, at_once: usize) {
        let permits = Arc::new(Semaphore::new(at_once));
        while let Some(queued) = queue.recv().await {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
                return;
            };
            let configuration = self.control.configuration.load_full();
            let deadline = configuration.limits.question_deadline;
            let Some(left) = deadline.checked_sub(queued.since.elapsed()) else {
                self.count(&queued.question, LookupResult::TimedOut);
                continue;
            };
            let responder = Arc::clone(&self);
            tokio::spawn(async move {
                responder
                    .respond(queued.worker, queued.question, left)
                    .await;
                drop(permit);
            });
        }
    }

    async fn respond(&self, worker: u16, question: Question, left: Duration) {
        let answer = match question {
            Question::Credentials {
                ticket,
                username,
                domain,
            } => ControlMessage::Credentials {
                ticket,
                result: self.credentials(&username, &domain, left).await,
            },
            Question::Resolve {
                ticket,
                destination,
                seed,
            } => ControlMessage::Resolved {
                ticket,
                result: self.locate(&destination, seed, left).await,
            },
            Question::Describe { ticket, .. } => ControlMessage::Described {
                ticket,
                result: Err(NotDescribed),
            },
        };
        self.send(worker, answer).await;
    }

    fn count(&self, question: &Question, result: LookupResult) {
        let counters = &self.control.counters;
        let lookups: &LookupCounters = match question {
            Question::Credentials { .. } => &counters.credentials,
            Question::Resolve { .. } | Question::Describe { .. } => &counters.names,
        };
        lookups.of(result).inc();
    }

    /// Queries the database and stores the result in the cache, where the request looks it up. While the database is away, credentials
    /// stay good that would otherwise have expired.
    async fn credentials(
        &self,
        username: &[u8],
        domain: &[u8],
        left: Duration,
    ) -> Result<Credentials, StoreFailed> {
        let clock = self.control.clock;
        let cache = &self.running.shared.credentials;
        // An earlier request of the same subscriber may have filled the cache.
        match cache.find(username, domain, clock.now()) {
            Cached::Known(known) => return Ok(Some(known)),
            Cached::Unknown => return Ok(None),
            Cached::NotCached => {}
        }
        if self.subscribers.is_database_away()
            && let Some(known) = cache.revive(username, domain, clock.now())
        {
            self.control
                .counters
                .credentials
                .of(LookupResult::Found)
                .inc();
            return Ok(Some(known));
        }
        // If the subscriber changes while the query runs, the result may be outdated, so the query is repeated.
        let found = timeout(left, async {
            loop {
                let asking = cache.asking(username, domain);
                self.subscribers.catch_up().await?;
                let found = stored(&self.running.store, username, domain).await?;
                if cache.answered(asking, found, clock.now()) {
                    return Ok::<_, StoreError>(found);
                }
            }
        });
        let (lookup, result) = match found.await {
            Ok(Ok(found)) if found.is_some() => (LookupResult::Found, Ok(found)),
            Ok(Ok(_)) => (LookupResult::NotFound, Ok(None)),
            Ok(Err(error)) => {
                warn!(%error, "subscriber lookup failed");
                (LookupResult::Failed, Err(StoreFailed))
            }
            Err(_) => (LookupResult::TimedOut, Err(StoreFailed)),
        };
        self.control.counters.credentials.of(lookup).inc();
        result
    }

    /// Locates a next hop within the remaining time.
    async fn locate(
        &self,
        destination: &Destination,
        seed: u64,
        left: Duration,
    ) -> Result<Vec<Candidate>, NameServersFailed> {
        let located = timeout(left, self.resolver.locate(destination, seed)).await;
        let (lookup, result) = match located {
            Ok(Located { candidates, .. }) if !candidates.is_empty() => {
                (LookupResult::Found, Ok(candidates))
            }
            Ok(located) if located.incomplete => (LookupResult::Failed, Err(NameServersFailed)),
            Ok(_) => (LookupResult::NotFound, Ok(Vec::new())),
            Err(_) => (LookupResult::TimedOut, Err(NameServersFailed)),
        };
        if lookup != LookupResult::Found {
            debug!(host = %destination.host, result = lookup.label(), "next hop not located");
        }
        self.control.counters.names.of(lookup).inc();
        result
    }

    /// Sends an answer to its worker. If the inbox is full, retries with growing pauses and then drops the answer.
    async fn send(&self, worker: u16, mut answer: ControlMessage) {
        for pause in [1, 4, 16, 64, 256] {
            match self.running.workers.send(worker, answer) {
                Ok(()) | Err(sip_runtime::SendError::Gone(_)) => return,
                Err(sip_runtime::SendError::Full(back)) => answer = back,
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        warn!(worker, "worker inbox stays full: dropped an answer");
    }
}

type Credentials = Option<StoredCredentials>;

/// The credentials of a subscriber in the database.
async fn stored(store: &Store, username: &[u8], domain: &[u8]) -> Result<Credentials, StoreError> {
    let (Ok(username), Ok(domain)) = (std::str::from_utf8(username), std::str::from_utf8(domain))
    else {
        // Names of subscribers are always UTF-8.
        return Ok(None);
    };
    let found = store.subscribers().find(username, domain).await?;
    Ok(found.map(|found| StoredCredentials {
        ha1_md5: found.ha1_md5,
        ha1_sha256: found.ha1_sha256,
    }))
}
