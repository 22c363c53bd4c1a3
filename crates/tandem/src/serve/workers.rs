//! Starts the data plane: shared tables, sockets, and a node for each worker.
use super::control::{Control, DataPlane};
use super::questions::Desk;
use crate::config::{self, Configuration};
use crate::descriptors::{self, Room, shortage};
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::bans::Bans;
use sip_elements::location::Locations;
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{Answer, DeadTargets, Exchange, ExchangeOptions, Shared};
use sip_message::KeyHasher;
use sip_runtime::{Admission, Running, Runtime, StreamOptions};
use sip_transport::{Listener, Time};
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Creates the empty tables that all workers share. The signing secret survives a restart, and so do nonces and Record-Route cookies.
pub(super) fn shared(configuration: &Configuration, secret: &[u8; 32]) -> Shared {
    let (first, second) = secret.split_at(16);
    let auth = &configuration.auth;
    let (known, unknown) = (auth.cache_lifetime, auth.unknown_lifetime);
    Shared {
        locations: Locations::new(config::location_limits(configuration)),
        credentials: CredentialCache::new(
            auth.cache_size,
            whole_seconds(known),
            whole_seconds(unknown),
        ),
        nonces: Nonces::new(pair(first), auth.nonce_slots),
        bans: Bans::new(configuration.bans.table),
        dead_targets: DeadTargets::default(),
        hasher: KeyHasher::new(pair(second)),
    }
}

fn whole_seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Converts sixteen bytes into the key of a keyed hash.
fn pair(bytes: &[u8]) -> (u64, u64) {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .take(8)
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    (word(bytes), word(bytes.get(8..).unwrap_or_default()))
}

/// Rejects banned peers before their connection uses resources.
#[derive(Debug)]
struct Gate(Arc<Shared>);

impl Admission for Gate {
    fn admits(&self, peer: IpAddr, now: Time) -> bool {
        !self.0.bans.is_banned(peer, now)
    }
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

/// Opens the sockets, starts the threads and registers them with the control plane.
///
/// # Errors
/// What could not be opened, and how to fix it.
pub(super) fn start(
    control: &Control,
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
    desk: &Desk,
    restored: u64,
) -> Result<Running<Answer>, String> {
    let configuration = control.configuration.load();
    let count = NonZeroU16::new(configuration.workers.count.resolve()).unwrap_or(NonZeroU16::MIN);
    let mut options = config::runtime_options(&configuration, control.clock);
    options.streams.tls = control.tls().cloned();
    options.streams.admission = Some(Arc::new(Gate(Arc::clone(&shared))));
    options.streams.policy = Arc::clone(&control.peer_policy);
    bound_connections(&configuration, listeners.len(), &mut options.streams);
    let bound = Runtime::bind(listeners, count, options).map_err(|error| error.to_string())?;
    let settings = Arc::new(config::settings(&configuration, bound.listeners()));
    let seeds = seeds(count)?;
    let metrics: Vec<Arc<WorkerMetrics>> = seeds.iter().map(|_| Arc::default()).collect();
    let exchange = |worker: u16| {
        let place = usize::from(worker);
        Exchange::new(ExchangeOptions {
            worker,
            workers: count.get(),
            shared: Arc::clone(&shared),
            settings: Arc::clone(&settings),
            metrics: metrics.get(place).map(Arc::clone).unwrap_or_default(),
            seed: seeds.get(place).copied().unwrap_or_default(),
            now: control.clock.now(),
        })
    };
    let running = bound
        .start(exchange, desk)
        .map_err(|error| format!("cannot start the worker threads: {error}"))?;
    control.set_data_plane(DataPlane {
        shared,
        metrics,
        stats: running.stats(),
        handle: running.handle(),
        listeners: running.listeners().to_vec(),
        restored,
    });
    Ok(running)
}

/// A random seed for each worker.
fn seeds(workers: NonZeroU16) -> Result<Vec<[u8; 32]>, String> {
    let seed = |_| {
        let mut seed = [0; 32];
        let filled = getrandom::fill(&mut seed);
        filled
            .map(|()| seed)
            .map_err(|error| format!("cannot get random numbers from the system: {error}"))
    };
    (0..workers.get()).map(seed).collect()
}
