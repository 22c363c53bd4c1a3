//! The bindings that the nodes of a fleet share (`location.store`), and the uses of nonces: joins the exchange before the server is ready, and
//! leaves it at the end.
use super::bindings::ListenerNames;
use super::saver::tell_workers;
use crate::config::{self, Durability, RedisUrl};
use crate::control::{Control, Running, service_manager};
use crate::fleet_store::{
    FleetLocations, FleetOptions, Link, LinkOptions, NonceLink, NonceLinkOptions, stamp_until,
};
use anyhow::{Context as _, anyhow};
use sip_elements::Shared;
use sip_transport::Listener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::error;

/// Initial and maximum pause before the next attempt to read the store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Bytes of records that may wait for the store. A hundred thousand bindings have about half of it.
const QUEUE: usize = 64 << 20;
/// How often a step of the sweep over the store begins. It has 1,024 steps.
const SWEEP: Duration = Duration::from_millis(500);

/// The exchange of bindings, before the workers start.
pub(super) struct SharedLocations {
    fleet: Arc<FleetLocations>,
    link: Link,
    nonces: NonceLink,
    /// Bindings that were loaded.
    pub(super) restored: u64,
}

/// Reads all bindings of the fleet. Waits for a store that does not answer, as long as it takes: a server without the bindings would answer
/// calls to registered phones with 480. `None`: the configuration names no store.
///
/// # Errors
/// If the system has no random numbers.
pub(super) async fn join(
    control: &Control,
    shared: &Arc<Shared>,
    listeners: &[Listener],
) -> anyhow::Result<Option<SharedLocations>> {
    let configuration = control.configuration.load_full();
    let Some(url) = configuration.location.store.redis() else {
        return Ok(None);
    };
    let process = random_text()?;
    let fleet = Arc::new(FleetLocations::new(FleetOptions {
        instance: configuration.instance().to_owned(),
        process: process.clone(),
        shared: Arc::clone(shared),
        names: ListenerNames::new(listeners),
        clock: control.clock,
        ahead: Duration::ZERO,
        longest: configuration.registrar.max_expires,
        most_bindings: shared_room(control),
        queue_bytes: QUEUE,
        waits_for_store: configuration.location.durability == Durability::Commit,
        counters: Arc::clone(&control.fleet),
    }));
    let options = LinkOptions {
        server: url.server().clone(),
        shown: RedisUrl::shown(url).as_str().to_owned(),
        prefix: configuration.fleet.prefix.0.as_str().to_owned(),
        epoch: process,
        sweep: SWEEP,
        save_time: config::save_time(&configuration),
    };
    let mut link = Link::new(Arc::clone(&fleet), options);
    let (mut pause, longest) = PAUSES;
    let (restored, nonces) = loop {
        let loaded = link.load().await;
        let joined = match loaded {
            Ok(restored) => join_nonces(control, shared, url)
                .await
                .map(|it| (restored, it)),
            Err(problem) => Err(problem),
        };
        match joined {
            Ok(joined) => break joined,
            Err(problem) => {
                let problem = format!("{problem:#}");
                error!("waiting for the bindings of the fleet: {problem}");
                service_manager::waiting(
                    longest,
                    "Waits for the bindings of the fleet, see the log",
                );
                control.obstacle.store(Some(Arc::new(problem)));
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    };
    control.obstacle.store(None);
    Ok(Some(SharedLocations {
        fleet,
        link,
        nonces,
        restored,
    }))
}

async fn join_nonces(
    control: &Control,
    shared: &Arc<Shared>,
    url: &RedisUrl,
) -> anyhow::Result<NonceLink> {
    let configuration = control.configuration.load();
    NonceLink::join(NonceLinkOptions {
        server: url.server().clone(),
        prefix: configuration.fleet.prefix.0.as_str().to_owned(),
        shared: Arc::clone(shared),
        lifetime: configuration.auth.nonce_lifetime,
        counters: Arc::clone(&control.fleet),
    })
    .await
    .with_context(|| format!("location.store {}", RedisUrl::shown(url).as_str()))
}

fn shared_room(control: &Control) -> usize {
    config::location_limits(&control.configuration.load()).max_bindings
}

/// A text that no other call returns.
fn random_text() -> anyhow::Result<String> {
    let number = getrandom::u64()
        .map_err(|error| anyhow!("cannot get random numbers from the system: {error}"))?;
    Ok(format!("{number:016x}"))
}

/// The tasks of a server in a fleet.
#[derive(Debug)]
pub(super) struct Exchanging {
    /// Ends when all changes are in the store, after `finish`.
    pub(super) stamping: JoinHandle<bool>,
    pub(super) links: [JoinHandle<()>; 2],
}

impl SharedLocations {
    /// Starts the exchange of changes, until `finished`.
    pub(super) fn start(
        self,
        control: Arc<Control>,
        running: Arc<Running>,
        finished: oneshot::Receiver<()>,
    ) -> Exchanging {
        let Self {
            fleet,
            link,
            nonces,
            ..
        } = self;
        fleet.report_to({
            let (control, running) = (Arc::clone(&control), running);
            move |save, room| {
                control.counters.saves.inc();
                tell_workers(&running, save, room);
            }
        });
        let interval = move || control.configuration.load().location.save_interval;
        let stamping = async move {
            stamp_until(fleet, interval, finished).await;
            true
        };
        Exchanging {
            stamping: tokio::spawn(stamping),
            links: [tokio::spawn(link.run()), tokio::spawn(nonces.run())],
        }
    }
}
