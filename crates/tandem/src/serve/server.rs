//! A running server: what is started in which order, and how it ends.
use super::bindings::{self, ListenerNames};
use super::control::{Control, Phase};
use super::log::LogControl;
use super::resolver::Resolver;
use super::saver::Saver;
use super::{banner, bans, questions, upkeep, workers};
use crate::admin;
use crate::config::{self, Configuration, Durability};
use sip_elements::auth::StoredCredentials;
use sip_elements::{Answer, Shared};
use sip_runtime::Running;
use sip_transport::Listener;
use sip_transport::selection::Reach;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::{Commits, Store};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How often a draining server looks whether it is done.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long the last save may take.
const LAST_SAVE: Duration = Duration::from_secs(10);
/// How long it may take when there is no patience.
const QUICK_SAVE: Duration = Duration::from_secs(1);

/// Why the server did not start, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(String);

impl StartError {
    fn new(what: impl std::fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A running server.
#[derive(Debug)]
pub struct Server {
    control: Arc<Control>,
    workers: Running<Answer>,
    saver: Saver,
    tasks: Vec<JoinHandle<()>>,
    admin: admin::Listening,
}

impl Server {
    /// Starts everything: certificates, admin interface, database, caches, registrations, sockets, in this order, so that the first request finds
    /// everything in its place. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What could not be opened, and what to do about it.
    pub async fn start(
        file: Option<PathBuf>,
        configuration: Configuration,
        log: Option<LogControl>,
    ) -> Result<Self, StartError> {
        let control = Arc::new(Control::new(file, configuration, log));
        if config::speaks_tls(&control.configuration.load()) {
            let tls = config::tls_settings(&control.configuration.load()).load(None);
            control.set_tls(tls.map_err(StartError::new)?);
        }
        let admin = admin::listen(&control).await.map_err(StartError)?;
        let url = control.configuration.load().database.url.0.clone();
        info!("reading subscribers and registrations from {url}");
        let commits = match control.configuration.load().location.durability {
            Durability::Interval => Commits::Written,
            Durability::Commit => Commits::Synced,
        };
        let store = Store::open_committing(&url, commits).await;
        let store = store.map_err(StartError::new)?;
        let store = control.set_store(store);
        let secret = store.secret().await.map_err(StartError::new)?;
        let shared = Arc::new(workers::shared(&control.configuration.load(), &secret));
        let version = warm_credentials(&control, store, &shared).await?;
        let listeners = config::listeners(&control.configuration.load()).map_err(StartError)?;
        let restored = restore(&control, store, &shared, &listeners).await?;
        let dns = &control.configuration.load().dns;
        let resolver = Resolver::new(dns, Reach::of(&listeners)).map_err(StartError::new)?;
        let (desk, desk_tasks) = questions::open(&control, resolver);
        let workers =
            workers::start(&control, listeners, shared, &desk, restored).map_err(StartError)?;
        let mut tasks = vec![
            bans::watch(Arc::clone(&control)),
            upkeep::sweep(Arc::clone(&control)),
            upkeep::follow_subscribers(Arc::clone(&control), version),
        ];
        tasks.extend(desk_tasks);
        let saver = Saver::start(Arc::clone(&control));
        control.enter(Phase::Ready);
        let server = Self {
            control,
            workers,
            saver,
            tasks,
            admin,
        };
        for line in banner::lines(&server.control, server.admin.address()).await {
            info!("{line}");
        }
        Ok(server)
    }

    /// What its tasks share.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Where the admin interface listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Takes no new calls and waits until the ones being set up are done, or the configured time has passed. Returns whether they are done.
    pub async fn drain(&self) -> bool {
        if let Err(error) = self.control.drain_to_end().await {
            warn!(%error, "draining could not begin on all workers");
        }
        let deadline = Instant::now()
            + self
                .control
                .configuration
                .load()
                .shutdown
                .drain_timeout
                .duration();
        loop {
            // Before the first look the workers must have had time to take the order.
            tokio::time::sleep(DRAIN_LOOK).await;
            match in_progress(&self.control) {
                0 => return true,
                _ if Instant::now() < deadline => {}
                left => {
                    warn!(left, "the time for draining is over");
                    return false;
                }
            }
        }
    }

    /// Ends: no more requests, then a last save, then everything else. Returns whether all bindings are saved. `quickly` gives the save one
    /// second.
    pub async fn stop(self, quickly: bool) -> bool {
        let Self {
            control,
            workers,
            saver,
            tasks,
            admin,
        } = self;
        control.enter(Phase::Stopping);
        // It joins threads, which end within their round.
        let _ = tokio::task::spawn_blocking(move || workers.stop()).await;
        let saved = saver
            .finish(if quickly { QUICK_SAVE } else { LAST_SAVE })
            .await;
        for task in &tasks {
            task.abort();
        }
        admin.close();
        if let Some(store) = control.store() {
            let _ = tokio::time::timeout(QUICK_SAVE, store.close()).await;
        }
        saved
    }
}

/// How many requests wait for a final response, for the control plane or for a save, and answered calls for their ACK.
fn in_progress(control: &Control) -> u64 {
    let metrics = control
        .data_plane()
        .map(|data_plane| data_plane.metrics.as_slice())
        .unwrap_or_default();
    metrics
        .iter()
        .map(|worker| {
            worker.response_contexts.value()
                + worker.parked.value()
                + worker.held_answers.value()
                + worker.unacknowledged.value()
        })
        .sum()
}

/// Fills the cache of credentials, as far as it holds. Returns the version of the subscribers from which on changes count.
async fn warm_credentials(
    control: &Control,
    store: &Store,
    shared: &Shared,
) -> Result<u64, StartError> {
    let subscribers = store.subscribers();
    let version = subscribers.version().await.map_err(StartError::new)?;
    let mut room = control.configuration.load().auth.cache_size;
    let now = control.clock.now();
    let filled = subscribers.for_each(|username, domain, found| {
        if room > 0 {
            room -= 1;
            let known = StoredCredentials {
                ha1_md5: found.ha1_md5,
                ha1_sha256: found.ha1_sha256,
            };
            shared
                .credentials
                .insert(username.as_bytes(), domain.as_bytes(), Some(known), now);
        }
    });
    filled.await.map_err(StartError::new)?;
    Ok(version)
}

/// Puts the registrations back that the database holds. Returns how many.
async fn restore(
    control: &Control,
    store: &Store,
    shared: &Shared,
    listeners: &[Listener],
) -> Result<u64, StartError> {
    let names = ListenerNames::new(listeners);
    let now = control.clock.now();
    let found = bindings::restore(store, &shared.locations, &names, now).await;
    let found = found.map_err(StartError::new)?;
    if found.unreadable > 0 {
        let rows = found.unreadable;
        warn!(
            rows,
            "bindings in the database could not be read and were passed over"
        );
    }
    Ok(found.bindings)
}
