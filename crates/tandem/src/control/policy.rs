//! The routing policy in force, and how the next one replaces it: on a reload of the configuration, and on a reload of prefixes and gateways
//! alone.
use super::order::Undelivered;
use super::running::Running;
use super::state::Control;
use crate::calls;
use crate::config::{self, Configuration, Dispatcher, PolicyError, Prefixes, Routes};
use crate::prefixes::PrefixError;
use crate::routes::{self, ReadRoutes};
use prometheus_client::metrics::counter::Counter;
use sip_elements::{ControlMessage, Settings};
use sip_routing::Policy;
use sip_routing::gateway::Descriptions;
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
    /// There is no table of gateways.
    #[error(
        "`dispatcher.source` is \"none\": all gateways are in the configuration file, which `config.reload` reads"
    )]
    NoDispatcher,
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

/// The policy of a new configuration.
#[derive(Debug)]
pub(super) struct NextPolicy {
    policy: Arc<Policy>,
    /// The gateways of it that are not in the file.
    gateways: Arc<Descriptions>,
    /// When the prefixes were read, and how long that took; `None` if there are none.
    read: Option<(Time, Duration)>,
}

impl NextPolicy {
    fn new(
        configuration: &Configuration,
        running: &Running,
        present: &Policy,
        read: TimedRoutes,
    ) -> Result<Self, PolicyError> {
        let TimedRoutes { routes, read, .. } = read;
        let gateways = Arc::clone(&routes.gateways);
        let policy = config::policy(configuration, &running.listeners, routes, Some(present))?;
        Ok(Self {
            policy: Arc::new(policy),
            gateways,
            read,
        })
    }
}

/// Routes that were read.
#[derive(Debug)]
pub(crate) struct TimedRoutes {
    pub(crate) routes: Routes,
    /// When they were read, and how long that took; `None` if there are no prefixes.
    pub(crate) read: Option<(Time, Duration)>,
    notes: Vec<String>,
}

/// What a reload of gateways has read.
#[derive(Debug)]
pub struct ReloadedGateways {
    /// Gateways of the table.
    pub gateways: usize,
    /// Groups of the table.
    pub groups: usize,
    /// What could not be carried over.
    pub notes: Vec<String>,
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
    /// Reads the gateways and prefixes of a configuration that are not in its file.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) async fn read_routes(
        &self,
        configuration: &Configuration,
        store: &Store,
    ) -> Result<TimedRoutes, PrefixError> {
        let (at, begun) = (self.clock.now(), Instant::now());
        let ReadRoutes { routes, notes } = routes::read(configuration, store).await?;
        let took = begun.elapsed();
        for note in &notes {
            warn!("{note}");
        }
        if configuration.dispatcher != Dispatcher::None {
            let (gateways, groups) = (&routes.gateways.gateways, &routes.gateways.groups);
            info!(
                gateways = gateways.len(),
                groups = groups.len(),
                "read the table of gateways"
            );
        }
        let has_source = configuration.prefixes != Prefixes::None;
        if has_source {
            let (prefixes, bytes) = (routes.prefixes.len(), routes.prefixes.bytes());
            info!(
                prefixes,
                bytes,
                "read the prefixes in {} ms",
                took.as_millis()
            );
        }
        Ok(TimedRoutes {
            routes,
            read: has_source.then_some((at, took)),
            notes,
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
        settings.fleet = self.fleet_secret.get().copied();
        settings
    }

    /// The policy of a new configuration. Its gateways and prefixes are read again. While the database is away, those from the same tables
    /// stay in use, so that a reload of other settings does not depend on the database.
    ///
    /// # Errors
    /// Why there is no policy.
    pub(super) async fn next_policy(
        &self,
        fresh: &Configuration,
        running: &Running,
    ) -> Result<NextPolicy, PolicyReloadError> {
        let present = running.policy.load_full();
        let read = match self.read_routes(fresh, &running.store).await {
            Err(error) if error.is_temporary() && self.has_same_sources(fresh) => {
                warn!(%error, "cannot read the routes; those that were read last stay in use");
                TimedRoutes {
                    routes: Routes {
                        gateways: self.read_gateways.load_full(),
                        prefixes: Arc::clone(&present.prefixes),
                    },
                    read: self.counters.prefixes.last(),
                    notes: Vec::new(),
                }
            }
            read => read?,
        };
        Ok(NextPolicy::new(fresh, running, &present, read)?)
    }

    /// Whether a configuration reads its routes from where those in use are from.
    fn has_same_sources(&self, fresh: &Configuration) -> bool {
        let present = self.configuration.load();
        fresh.prefixes == present.prefixes && fresh.dispatcher == present.dispatcher
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
        self.read_gateways.store(next.gateways);
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
        self.replace_routes(running, &configuration).await?;
        self.counters.prefixes.reloads.inc();
        Ok(running.policy.load().prefixes.len())
    }

    /// Reads the table of gateways again, and the prefixes, which may name its groups. Replaces both in all workers, or changes nothing.
    ///
    /// # Errors
    /// Why nothing changed; or [`PolicyReloadError::Undelivered`].
    pub async fn reload_gateways(
        &self,
        running: &Running,
    ) -> Result<ReloadedGateways, PolicyReloadError> {
        let _one_at_a_time = self.reloads.lock().await;
        let configuration = self.configuration.load_full();
        if configuration.dispatcher == Dispatcher::None {
            return Err(PolicyReloadError::NoDispatcher);
        }
        match self.replace_routes(running, &configuration).await {
            Ok(notes) => {
                let read = self.read_gateways.load();
                let (gateways, groups) = (read.gateways.len(), read.groups.len());
                info!("reloaded {gateways} gateways in {groups} groups");
                Ok(ReloadedGateways {
                    gateways,
                    groups,
                    notes,
                })
            }
            Err(problem) => {
                error!("reload of the gateways: {problem}");
                Err(problem)
            }
        }
    }

    /// Reads the routes of the configuration in force again, and replaces them in all workers. Returns what could not be carried over.
    async fn replace_routes(
        &self,
        running: &Running,
        configuration: &Configuration,
    ) -> Result<Vec<String>, PolicyReloadError> {
        let mut read = self.read_routes(configuration, &running.store).await?;
        let notes = std::mem::take(&mut read.notes);
        let present = running.policy.load_full();
        let next = NextPolicy::new(configuration, running, &present, read)?;
        let _no_other_orders = self.orders.lock().await;
        self.order_settings(running, configuration, next).await?;
        Ok(notes)
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
