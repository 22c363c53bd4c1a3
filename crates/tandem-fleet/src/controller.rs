//! The running controller: its state, the task that follows the source, and its interfaces.

use crate::api;
use crate::custom_metrics;
use crate::load::Loads;
use crate::members::{Member, MemberSet, MemberState};
use crate::membership::{Membership, NodeView, Refusal};
use crate::nodes::NodeAccess;
use crate::pod_costs;
use crate::source::{Found, Source};
use crate::state_file::StateFile;
use crate::users::UserDatabase;
use anyhow::{Context as _, anyhow};
use axum::body::Bytes;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tandem_http::{Counts, Token};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How to run a controller.
#[derive(Debug)]
pub struct Options {
    /// Address and port of the API.
    pub listen: SocketAddr,
    /// Names that clients may use for the API, in addition to `localhost` and IP addresses.
    pub hosts: Vec<String>,
    /// What every client must send.
    pub token: Token,
    /// Where the members come from.
    pub source: Source,
    /// How long a node that disappears from its source still serves its calls.
    pub grace: Duration,
    /// Where the orders of operators outlive a restart.
    pub state_file: Option<PathBuf>,
    /// How to ask the nodes.
    pub nodes: NodeAccess,
    /// Where test users are added.
    pub database: Option<UserDatabase>,
    /// Maximum number of edges that follow the set.
    pub max_watchers: usize,
    /// How long an edge may take to read a set.
    pub watcher_timeout: Duration,
    /// The interface for autoscalers.
    pub custom_metrics: Option<custom_metrics::Options>,
}

/// A running controller. Dropping it closes its interfaces; streams that edges have open end with the process.
#[derive(Debug)]
pub struct Controller {
    address: SocketAddr,
    custom_metrics: Option<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Controller {
    /// Opens the interfaces and begins to follow the source.
    ///
    /// # Errors
    /// What is wrong with files, addresses and certificates, and how to fix it.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let Options {
            listen,
            hosts,
            token,
            custom_metrics,
            ..
        } = &options;
        let refused = |error: std::io::Error| {
            anyhow!(
                "the API cannot listen on {listen}: {error}; stop the program that listens there, or change `api.listen`"
            )
        };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let opened = match custom_metrics {
            Some(options) => Some(custom_metrics::open(options).await?),
            None => None,
        };
        let (hosts, token) = (hosts.clone(), token.clone());
        let namespace = custom_metrics.as_ref().map(|it| it.namespace.clone());
        let (fleet, source) = Fleet::new(options)?;
        let costs = match &source {
            Source::Kubernetes(pods) => pods.deletion_costs.map(|every| (pods.clone(), every)),
            _ => None,
        };
        let mut tasks = vec![
            tokio::spawn(follow(Arc::clone(&fleet), source)),
            tokio::spawn(api::serve(Arc::clone(&fleet), listener, hosts, token)),
        ];
        if let Some((pods, every)) = costs {
            tasks.push(tokio::spawn(pod_costs::write(
                Arc::clone(&fleet),
                pods,
                every,
            )));
        }
        let mut metrics_address = None;
        if let (Some((listener, at)), Some(namespace)) = (opened, namespace) {
            metrics_address = Some(at);
            tasks.push(tokio::spawn(custom_metrics::serve(
                fleet, listener, namespace,
            )));
        }
        Ok(Self {
            address,
            custom_metrics: metrics_address,
            tasks,
        })
    }

    /// The address of the API.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the interface for autoscalers.
    pub const fn custom_metrics_address(&self) -> Option<SocketAddr> {
        self.custom_metrics
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A set with its line of JSON, which all watchers share.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) set: Arc<MemberSet>,
    pub(crate) line: Bytes,
}

/// Events since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) source_errors: AtomicU64,
    pub(crate) state_errors: AtomicU64,
    pub(crate) node_errors: AtomicU64,
    pub(crate) watchers_refused: AtomicU64,
    pub(crate) watchers_dropped: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What all parts of the controller share.
#[derive(Debug)]
pub(crate) struct Fleet {
    membership: Mutex<Membership>,
    /// The set that edges have; `None` as long as there is none.
    pub(crate) published: watch::Sender<Option<Arc<Published>>>,
    /// Wakes the task that ends grace periods.
    changed: Notify,
    state_file: Option<StateFile>,
    pub(crate) source: &'static str,
    source_problem: Mutex<Option<String>>,
    pub(crate) nodes: NodeAccess,
    pub(crate) loads: Loads,
    pub(crate) database: Option<UserDatabase>,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) max_watchers: usize,
    pub(crate) watcher_timeout: Duration,
    pub(crate) counters: Counters,
    pub(crate) http: Arc<Counts>,
}

impl Fleet {
    fn new(options: Options) -> anyhow::Result<(Arc<Self>, Source)> {
        let (state_file, saved) = match &options.state_file {
            Some(path) => {
                let (file, saved) = StateFile::open(path)?;
                (Some(file), saved)
            }
            None => Default::default(),
        };
        let source = options.source;
        let origin = (!matches!(source, Source::Api)).then(|| source.word());
        let epoch = epoch()?;
        info!(%epoch, source = source.word(), "the controller starts");
        let membership = Membership::new(origin, options.grace, epoch, saved);
        let fleet = Self {
            membership: Mutex::new(membership),
            published: watch::Sender::new(None),
            changed: Notify::new(),
            state_file,
            source: source.word(),
            source_problem: Mutex::new(None),
            nodes: options.nodes,
            loads: Loads::default(),
            database: options.database,
            watchers: Arc::new(Semaphore::new(options.max_watchers)),
            max_watchers: options.max_watchers,
            watcher_timeout: options.watcher_timeout,
            counters: Counters::default(),
            http: Arc::new(Counts::default()),
        };
        fleet.publish(&fleet.membership());
        Ok((Arc::new(fleet), source))
    }

    fn membership(&self) -> MutexGuard<'_, Membership> {
        self.membership
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The set that edges have.
    pub(crate) fn set(&self) -> Option<Arc<Published>> {
        self.published.borrow().clone()
    }

    /// The nodes that edges know.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.set()
            .map(|published| published.set.nodes().to_vec())
            .unwrap_or_default()
    }

    /// All nodes.
    pub(crate) fn views(&self) -> Vec<NodeView> {
        self.membership().nodes()
    }

    /// Nodes that edges know, by state.
    pub(crate) fn count(&self, state: MemberState) -> u64 {
        self.members()
            .iter()
            .filter(|member| member.state == state)
            .count() as u64
    }

    /// What the source failed with, if its last answer was a failure.
    pub(crate) fn source_problem(&self) -> Option<String> {
        self.source_problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Carries out an order, tells the edges, and saves it.
    pub(crate) async fn order<T>(
        &self,
        order: impl FnOnce(&mut Membership) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let done = {
            let mut membership = self.membership();
            let done = order(&mut membership)?;
            self.publish(&membership);
            done
        };
        self.changed.notify_one();
        self.save().await;
        Ok(done)
    }

    /// Tells the edges, if they do not have the set yet. The lock on the membership keeps the sets in order.
    fn publish(&self, membership: &Membership) {
        let Some(set) = membership.published() else {
            return;
        };
        self.published.send_if_modified(|published| {
            if published
                .as_ref()
                .is_some_and(|it| it.set.generation() == set.generation())
            {
                return false;
            }
            let words: Vec<String> = set
                .nodes()
                .iter()
                .map(|it| format!("{}={}", it.name, it.state.word()))
                .collect();
            info!(
                generation = set.generation(),
                nodes = words.join(" "),
                "the member set has changed"
            );
            *published = Some(Arc::new(Published {
                set: Arc::clone(set),
                line: (set.to_json() + "\n").into(),
            }));
            true
        });
    }

    async fn save(&self) {
        let Some(file) = &self.state_file else { return };
        if let Err(error) = file.save(|| self.membership().saved()).await {
            count(&self.counters.state_errors);
            warn!("{error:#}; the order is in force, but not after a restart");
        }
    }

    /// Takes what the source has found.
    async fn take(&self, found: Found) {
        let taken = match found {
            Ok(list) => {
                let mut membership = self.membership();
                let taken = membership.update(list, Instant::now());
                self.publish(&membership);
                taken.map_err(|invalid| invalid.to_string())
            }
            Err(problem) => Err(problem),
        };
        self.note(taken.err());
        self.save().await;
    }

    /// Logs when the source fails, and when it is well again.
    fn note(&self, problem: Option<String>) {
        let mut last = self
            .source_problem
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &problem {
            Some(problem) => {
                count(&self.counters.source_errors);
                if last.as_ref() != Some(problem) {
                    warn!(
                        source = self.source,
                        "the source of members fails: {problem}; the last set stays"
                    );
                }
            }
            None if last.is_some() => {
                info!(source = self.source, "the source of members is well again");
            }
            None => {}
        }
        *last = problem;
    }
}

/// The name of this start: what a former controller has published must never look newer.
fn epoch() -> anyhow::Result<String> {
    let random = getrandom::u64()
        .map_err(|error| anyhow!("{error}"))
        .context("no random numbers")?;
    Ok(format!("{random:016x}"))
}

/// Follows the source, and ends grace periods.
async fn follow(fleet: Arc<Fleet>, source: Source) {
    let (found, mut list) = mpsc::channel(4);
    let following = source.follow(found);
    let taking = async {
        loop {
            let next = fleet.membership().next_tick();
            let over = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                found = list.recv() => match found {
                    Some(found) => fleet.take(found).await,
                    None => return,
                },
                () = fleet.changed.notified() => {}
                () = over => {
                    {
                        let mut membership = fleet.membership();
                        membership.tick(Instant::now());
                        fleet.publish(&membership);
                    }
                    fleet.save().await;
                }
            }
        }
    };
    tokio::join!(following, taking);
}
