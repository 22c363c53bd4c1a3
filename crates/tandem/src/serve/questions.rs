//! Answers the data plane's questions: credentials from the database, next hops from the resolver. Each question has a deadline, and the
//! number of questions in progress is bounded. A question past its deadline is dropped, because its request has already been answered.
use super::changed_subscribers;
use super::control::{Control, Phase};
use super::figures::{Ending, Lookups};
use super::resolver::{Located, Resolver};
use sip_elements::auth::{Cached, StoredCredentials};
use sip_elements::{Answer, NameServersFailed, NotDescribed, Question, Record, StoreFailed};
use sip_transport::selection::{Candidate, Destination};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{Store, StoreError};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{debug, warn};

/// Questions that may wait. The worker counts those beyond and lets their deadlines pass.
const WAITING: usize = 65_536;
/// Concurrent database reads.
const CREDENTIALS_AT_ONCE: usize = 16;
/// Next hops located concurrently.
const NAMES_AT_ONCE: usize = 1_024;

/// A question with its worker and its arrival time.
struct Asked {
    worker: u16,
    question: Question,
    since: Instant,
}

/// The queues for the workers' questions. Names have a queue of their own, so that an unreachable name server does not delay registrations.
#[derive(Clone, Debug)]
pub struct Desk {
    credentials: mpsc::Sender<Asked>,
    names: mpsc::Sender<Asked>,
    records: mpsc::Sender<Record>,
}

impl sip_runtime::ControlPlane<Question, Record> for Desk {
    fn ask(&mut self, worker: u16, question: Question) -> Result<(), Question> {
        let queue = match question {
            Question::Credentials { .. } => &self.credentials,
            // No media control yet: its questions are answered at once.
            Question::Resolve { .. } | Question::Describe { .. } => &self.names,
        };
        queue
            .try_send(Asked {
                worker,
                question,
                since: Instant::now(),
            })
            .map_err(|full| full.into_inner().question)
    }

    fn record(&mut self, _: u16, record: Record) -> Result<(), Record> {
        self.records
            .try_send(record)
            .map_err(mpsc::error::TrySendError::into_inner)
    }
}

/// Opens the desk and starts its tasks, which end when the last clone of the desk is dropped. `records` takes what the workers record.
pub fn open(
    control: &Arc<Control>,
    resolver: Resolver,
    records: mpsc::Sender<Record>,
) -> (Desk, [JoinHandle<()>; 2]) {
    let (credentials, asked_credentials) = mpsc::channel(WAITING);
    let (names, asked_names) = mpsc::channel(WAITING);
    let resolver = Arc::new(resolver);
    let tasks = [
        tokio::spawn(serve(
            Arc::clone(control),
            Arc::clone(&resolver),
            asked_credentials,
            CREDENTIALS_AT_ONCE,
        )),
        tokio::spawn(serve(
            Arc::clone(control),
            resolver,
            asked_names,
            NAMES_AT_ONCE,
        )),
    ];
    let desk = Desk {
        credentials,
        names,
        records,
    };
    (desk, tasks)
}

async fn serve(
    control: Arc<Control>,
    resolver: Arc<Resolver>,
    mut asked: mpsc::Receiver<Asked>,
    at_once: usize,
) {
    // The first question may arrive before startup is complete.
    if control
        .watch_phase()
        .wait_for(|phase| *phase != Phase::Starting)
        .await
        .is_err()
    {
        return;
    }
    let places = Arc::new(Semaphore::new(at_once));
    while let Some(Asked {
        worker,
        question,
        since,
    }) = asked.recv().await
    {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let deadline = control.configuration.load().limits.question_deadline;
        let Some(left) = deadline.checked_sub(since.elapsed()) else {
            lookups(&control, &question).ended(Ending::Late);
            continue;
        };
        let (control, resolver) = (Arc::clone(&control), Arc::clone(&resolver));
        tokio::spawn(async move {
            match question {
                Question::Credentials {
                    ticket,
                    username,
                    domain,
                } => {
                    let result = credentials(&control, &username, &domain, left).await;
                    answer(&control, worker, Answer::Credentials { ticket, result }).await;
                }
                Question::Resolve {
                    ticket,
                    destination,
                    seed,
                } => {
                    let result = locate(&control, &resolver, &destination, seed, left).await;
                    answer(&control, worker, Answer::Resolved { ticket, result }).await;
                }
                Question::Describe { ticket, .. } => {
                    let result = Err(NotDescribed);
                    answer(&control, worker, Answer::Described { ticket, result }).await;
                }
            }
            drop(place);
        });
    }
}

fn lookups<'c>(control: &'c Control, question: &Question) -> &'c Lookups {
    match question {
        Question::Credentials { .. } => &control.figures.credentials,
        Question::Resolve { .. } | Question::Describe { .. } => &control.figures.names,
    }
}

type Credentials = Option<StoredCredentials>;

/// Queries the database and stores the result in the cache, where the request looks it up.
async fn credentials(
    control: &Control,
    username: &[u8],
    domain: &[u8],
    left: Duration,
) -> Result<Credentials, StoreFailed> {
    let (Some(store), Some(data_plane)) = (control.store(), control.data_plane()) else {
        return Err(StoreFailed);
    };
    let cache = &data_plane.shared.credentials;
    // An earlier request of the same subscriber may have filled the cache.
    match cache.find(username, domain, control.clock.now()) {
        Cached::Known(known) => return Ok(Some(known)),
        Cached::Unknown => return Ok(None),
        Cached::NotCached => {}
    }
    // If the subscriber changes while the query runs, the result may be outdated, so the query is repeated.
    let found = timeout(left, async {
        loop {
            let asking = cache.asking(username, domain);
            changed_subscribers::catch_up(control, store).await?;
            let found = stored(store, username, domain).await?;
            if cache.answered(asking, found, control.clock.now()) {
                return Ok::<_, StoreError>(found);
            }
        }
    });
    let (ending, result) = match found.await {
        Ok(Ok(found)) if found.is_some() => (Ending::Found, Ok(found)),
        Ok(Ok(_)) => (Ending::Missing, Ok(None)),
        Ok(Err(error)) => {
            warn!(%error, "subscriber lookup failed");
            (Ending::Failed, Err(StoreFailed))
        }
        Err(_) => (Ending::Late, Err(StoreFailed)),
    };
    control.figures.credentials.ended(ending);
    result
}

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

/// Locates a next hop within the remaining time.
async fn locate(
    control: &Control,
    resolver: &Resolver,
    destination: &Destination,
    seed: u64,
    left: Duration,
) -> Result<Vec<Candidate>, NameServersFailed> {
    let (ending, result) = match timeout(left, resolver.locate(destination, seed)).await {
        Ok(Located { candidates, .. }) if !candidates.is_empty() => (Ending::Found, Ok(candidates)),
        Ok(located) if located.incomplete => (Ending::Failed, Err(NameServersFailed)),
        Ok(_) => (Ending::Missing, Ok(Vec::new())),
        Err(_) => (Ending::Late, Err(NameServersFailed)),
    };
    if ending != Ending::Found {
        debug!(host = %destination.host, ?ending, "next hop not located");
    }
    control.figures.names.ended(ending);
    result
}

/// Sends an answer to its worker. If the inbox is full, retries with growing pauses and then drops the answer.
async fn answer(control: &Control, worker: u16, answer: Answer) {
    let Some(data_plane) = control.data_plane() else {
        return;
    };
    let mut answer = answer;
    for pause in [1, 4, 16, 64, 256] {
        match data_plane.handle.send(worker, answer) {
            Ok(()) | Err(sip_runtime::SendError::Gone(_)) => return,
            Err(sip_runtime::SendError::Full(back)) => answer = back,
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    warn!(worker, "worker inbox stays full: dropped an answer");
}
