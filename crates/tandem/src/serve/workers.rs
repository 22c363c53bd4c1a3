//! Starts the data plane: sockets, threads, and a node for each worker.
use super::questions::ControlQueues;
use super::saved_dialogs::SavedDialogs;
use crate::config::{self, Configuration, Routes};
use crate::control::{Control, Running};
use crate::descriptors::{self, Room, shortage};
use anyhow::{Context as _, anyhow};
use arc_swap::ArcSwap;
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{ControlMessage, Exchange, ExchangeOptions, Shared};
use sip_runtime::tls::SharedTls;
use sip_runtime::{Admission, Runtime, SharedPeerPolicy, StreamOptions};
use sip_transport::{Listener, Time};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use tandem_store::Store;
use tracing::{info, warn};

/// What the workers need and the running server keeps.
pub(super) struct Parts<'a> {
    pub(super) store: Store,
    pub(super) tls: Option<Arc<SharedTls>>,
    pub(super) shared: Arc<Shared>,
    pub(super) listeners: Vec<Listener>,
    /// Number of restored bindings.
    pub(super) restored: u64,
    pub(super) routes: Routes,
    /// The calls in progress before the restart. The workers take them.
    pub(super) dialogs: &'a mut SavedDialogs,
}

/// Rejects banned peers before their connection uses resources.
#[derive(Debug)]
struct Gate(Arc<Shared>);

impl Admission for Gate {
    fn admits(&self, peer: IpAddr, now: Time) -> bool {
        !self.0.bans.is_banned(peer, now)
    }
}

/// Opens the sockets and starts the threads.
///
/// # Errors
/// What could not be opened, and how to fix it.
pub(super) fn start(
    control: &Control,
    parts: Parts<'_>,
    queues: &ControlQueues,
) -> anyhow::Result<(sip_runtime::Running<ControlMessage>, Running)> {
    let Parts {
        store,
        tls,
        shared,
        listeners,
        restored,
        routes,
        dialogs,
    } = parts;
    let configuration = control.configuration.load();
    let peer_policy = SharedPeerPolicy::new(config::peer_policy(&configuration));
    let count = NonZeroU16::new(configuration.workers.count.resolve()).unwrap_or(NonZeroU16::MIN);
    let mut options = config::runtime_options(&configuration, control.clock);
    options.streams.tls.clone_from(&tls);
    options.streams.admission = Some(Arc::new(Gate(Arc::clone(&shared))));
    options.streams.policy = Arc::clone(&peer_policy);
    bound_connections(&configuration, listeners.len(), &mut options.streams);
    // The message already names the source of the error.
    let bound = Runtime::bind(listeners, count, options).map_err(|error| anyhow!("{error}"))?;
    let policy = config::policy(&configuration, bound.listeners(), routes, None)?;
    let policy = Arc::new(policy);
    let settings = control.settings(&configuration, bound.listeners(), Arc::clone(&policy));
    let settings = Arc::new(settings);
    let seeds = seeds(count)?;
    let metrics: Vec<Arc<WorkerMetrics>> = seeds.iter().map(|_| Arc::default()).collect();
    let exchange = |worker: u16| {
        let place = usize::from(worker);
        let now = control.clock.now();
        let mut exchange = Exchange::new(ExchangeOptions {
            worker,
            workers: count.get(),
            shared: Arc::clone(&shared),
            settings: Arc::clone(&settings),
            metrics: metrics.get(place).map(Arc::clone).unwrap_or_default(),
            seed: seeds.get(place).copied().unwrap_or_default(),
            now,
        });
        dialogs.restore(worker, &mut exchange, now);
        exchange
    };
    let workers = bound
        .start(exchange, queues)
        .context("cannot start the worker threads")?;
    let running = Running {
        store,
        tls,
        peer_policy,
        shared,
        metrics,
        stats: workers.stats(),
        workers: workers.handle(),
        listeners: workers.listeners().to_vec(),
        policy: ArcSwap::new(policy),
        restored,
    };
    Ok((workers, running))
}

/// Connections need descriptors: raises the limit as far as possible, logs it, and derives the maximum number of connections.
fn bound_connections(configuration: &Configuration, listeners: usize, options: &mut StreamOptions) {
    let limit = sip_runtime::raise_descriptor_limit();
    let taken = descriptors::taken(configuration, listeners);
    if let Some(shortage) = shortage(configuration, limit, taken) {
        warn!("{shortage}");
    }
    Room::new(configuration, limit, taken).apply(options);
    let (connections, per_peer) = (options.max_connections, options.max_per_peer);
    if let Some(limit) = limit {
        info!(
            limit,
            connections,
            per_peer,
            "the limit of open files (RLIMIT_NOFILE) bounds the number of connections"
        );
    }
}

/// A random seed for each worker.
fn seeds(workers: NonZeroU16) -> anyhow::Result<Vec<[u8; 32]>> {
    let seed = |_| {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| anyhow!("cannot get random numbers from the system: {error}"))?;
        Ok(seed)
    };
    (0..workers.get()).map(seed).collect()
}
