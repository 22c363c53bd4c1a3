//! The routing policy in force, and how the next one replaces it: on a reload of the configuration, and on a reload of the prefixes alone.
use super::order::Undelivered;
use super::running::Running;
use super::state::Control;
use crate::calls;
use crate::config::{self, Configuration, PolicyError, Prefixes};
use crate::prefixes::{self, PrefixError};
use prometheus_client::metrics::counter::Counter;
use sip_elements::{ControlMessage, Settings};
use sip_routing::Policy;
use sip_routing::prefix::PrefixTable;
use sip_transport::{Listener, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tandem_store::Store;
use tracing::{error, info, warn};

/// How often the server looks whether all workers have dropped a replaced policy, and how often at most.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 600;

/// Why the prefixes or the policy were not replaced.
#[derive(Debug, thiserror::Error)]
pub enum PolicyReloadError {
    /// The prefixes.
    #[error("nothing changed: {}", .0.lines().join("\n"))]
    Prefixes(#[from] PrefixError),
    /// What the configuration declares.
    #[error("nothing changed: {0}")]
    Policy(#[from] PolicyError),
    /// There is nothing to read.
    #[error("`prefixes.source` is \"none\": there are no prefixes to read")]
    NoSource,
    /// The workers not named here have the new policy.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
}

impl PolicyReloadError {
    /// The error as lines for people.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Prefixes(error) => error.lines(),
            other => other.to_string().lines().map(str::to_owned).collect(),
        }
    }
}

/// A prefix table.
#[derive(Debug)]
pub(crate) struct ReadTable {
    pub(crate) table: Arc<PrefixTable>,
    /// When it was read, and how long that took; `None` if there is no source.
    pub(crate) read: Option<(Time, Duration)>,
}

/// The policy of a new configuration.
#[derive(Debug)]
pub(super) struct NextPolicy {
    policy: Arc<Policy>,
    /// As in [`ReadTable`].
    read: Option<(Time, Duration)>,
}

impl NextPolicy {
    fn new(
        configuration: &Configuration,
        running: &Running,
        present: &Policy,
        prefixes: ReadTable,
    ) -> Result<Self, PolicyError> {
        let ReadTable { table, read } = prefixes;
        let policy = config::policy(configuration, &running.listeners, table, Some(present))?;
        Ok(Self {
            policy: Arc::new(policy),
            read,
        })
    }
}

/// What happened to the prefix table.
#[derive(Debug, Default)]
pub struct PrefixCounters {
    /// Tables that replaced another one.
    pub reloads: Counter,
    /// Tables that were rejected.
    pub failures: Counter,
    /// When the table in force was read, in microseconds since the Unix epoch; 0 if there is none.
    read_at: AtomicU64,
    /// How long it took, in microseconds.
    took: AtomicU64,
}

impl PrefixCounters {
    /// When the table in force was read.
    pub fn read_at(&self) -> Option<Time> {
        let micros = self.read_at.load(Relaxed);
        (micros > 0).then(|| Time::from_micros(micros))
    }

    /// How long it took to read the table in force.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.took.load(Relaxed))
    }

    /// When the table in force was read, and how long it took.
    fn last(&self) -> Option<(Time, Duration)> {
        Some((self.read_at()?, self.took()))
    }

    /// Records which table is in force: when it was read, and how long it took.
    pub(crate) fn replace(&self, read: Option<(Time, Duration)>) {
        let (at, took) = read.unwrap_or_default();
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.took.store(micros, Relaxed);
        self.read_at.store(at.as_micros(), Relaxed);
    }
}

impl Control {
    /// Reads the prefixes of a configuration.
    ///
    /// # Errors
    /// Why there is no table.
    pub(crate) async fn read_prefixes(
        &self,
        configuration: &Configuration,
        store: &Store,
    ) -> Result<ReadTable, PrefixError> {
        let (at, begun) = (self.clock.now(), Instant::now());
        let table = prefixes::read(configuration, store).await?;
        let took = begun.elapsed();
        let has_source = configuration.prefixes != Prefixes::None;
        if has_source {
            let (prefixes, bytes) = (table.len(), table.bytes());
            info!(
                prefixes,
                bytes,
                "read the prefixes in {} ms",
                took.as_millis()
            );
        }
        Ok(ReadTable {
            table: Arc::new(table),
            read: has_source.then_some((at, took)),
        })
    }

    /// The settings of the workers.
    pub(crate) fn settings(
        &self,
        configuration: &Configuration,
        listeners: &[Listener],
        policy: Arc<Policy>,
    ) -> Settings {
        let mut settings = config::settings(configuration, listeners);
        settings.dialogs.events = calls::switch(&self.events, configuration);
        settings.policy = policy;
        settings
    }

    /// The policy of a new configuration. Its prefixes are read again. While the database is away, prefixes from the same table stay in use,
    /// so that a reload of other settings does not depend on the database.
    ///
    /// # Errors
    /// Why there is no policy.
    pub(super) async fn next_policy(
        &self,
        fresh: &Configuration,
        running: &Running,
    ) -> Result<NextPolicy, PolicyReloadError> {
        let present = running.policy.load_full();
        let prefixes = match self.read_prefixes(fresh, &running.store).await {
            Err(error)
                if error.is_temporary() && fresh.prefixes == self.configuration.load().prefixes =>
            {
                warn!(%error, "cannot read the prefixes; those that were read last stay in use");
                ReadTable {
                    table: Arc::clone(&present.prefixes),
                    read: self.counters.prefixes.last(),
                }
            }
            read => read?,
        };
        Ok(NextPolicy::new(fresh, running, &present, prefixes)?)
    }

    /// Sends settings with a policy to all workers. The policy is the one in force even if some workers do not take it, because the others
    /// use it, and the next one takes over its state.
    ///
    /// # Errors
    /// The workers that did not take it.
    pub(super) async fn order_settings(
        &self,
        running: &Running,
        configuration: &Configuration,
        next: NextPolicy,
    ) -> Result<(), Undelivered> {
        let policy = Arc::clone(&next.policy);
        let settings = self.settings(configuration, &running.listeners, policy);
        let settings = ControlMessage::Settings(Arc::new(settings));
        let delivered = self.order(running, &settings).await;
        self.counters.prefixes.replace(next.read);
        let replaced = running.policy.swap(next.policy);
        tokio::spawn(release(replaced));
        delivered
    }

    /// Reads the prefixes again and replaces the table in all workers, or changes nothing. Returns the number of prefixes.
    ///
    /// # Errors
    /// Why nothing changed; or [`PolicyReloadError::Undelivered`].
    pub async fn reload_prefixes(&self, running: &Running) -> Result<usize, PolicyReloadError> {
        let _one_at_a_time = self.reloads.lock().await;
        let result = self.try_reload_prefixes(running).await;
        match &result {
            Ok(prefixes) => info!("reloaded {prefixes} prefixes"),
            Err(problem) => {
                self.counters.prefixes.failures.inc();
                error!("reload of the prefixes: {problem}");
            }
        }
        result
    }

    async fn try_reload_prefixes(&self, running: &Running) -> Result<usize, PolicyReloadError> {
        let configuration = self.configuration.load_full();
        if configuration.prefixes == Prefixes::None {
            return Err(PolicyReloadError::NoSource);
        }
        let prefixes = self.read_prefixes(&configuration, &running.store).await?;
        let present = running.policy.load_full();
        let count = prefixes.table.len();
        let next = NextPolicy::new(&configuration, running, &present, prefixes)?;
        let _no_other_orders = self.orders.lock().await;
        self.order_settings(running, &configuration, next).await?;
        self.counters.prefixes.reloads.inc();
        Ok(count)
    }
}

/// Frees a replaced policy on a blocking thread once the workers have dropped theirs, so that no worker frees millions of prefixes.
async fn release(policy: Arc<Policy>) {
    for _ in 0..LOOKS {
        if Arc::strong_count(&policy) == 1 {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let _ = tokio::task::spawn_blocking(move || drop(policy)).await;
}
