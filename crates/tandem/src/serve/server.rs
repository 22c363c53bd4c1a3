//! A running server: the order of startup and shutdown.
use super::bindings::{self, ListenerNames};
use super::control::{Control, Phase};
use super::log::LogControl;
use super::resolver::Resolver;
use super::saver::Saver;
use super::{banner, bans, questions, service_manager, upkeep, workers};
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
use tandem_store::{Commits, NodeName, Store};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How often a draining server checks for completion.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// Time limit of the last save.
const LAST_SAVE: Duration = Duration::from_secs(10);
/// Time limit of the last save in an immediate stop.
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
    /// Starts certificates, admin interface, database, caches, registrations and sockets, in this order, so that the first request finds
    /// everything ready. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// What could not be opened, and how to fix it.
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
        let store = Store::open_as(&url, NodeName::default(), commits).await;
        let store = store.map_err(StartError::new)?;
        let store = control.set_store(store);
        let secret = store.secret().await.map_err(StartError::new)?;
        let shared = Arc::new(workers::shared(&control.configuration.load(), &secret));
        let version = warm_credentials(&control, store, &shared).await?;
        let listeners = config::listeners(&control.configuration.load()).map_err(StartError)?;
        let restored = restore(&control, store, &shared, &listeners).await?;
        let dns = &control.configuration.load().dns;
        let resolver = Resolver::new(dns, Reach::of(&listeners)).map_err(StartError::new)?;
        let (records, recorded) = mpsc::channel(bans::WAITING_RECORDS);
        let (desk, desk_tasks) = questions::open(&control, resolver, records);
        let workers =
            workers::start(&control, listeners, shared, &desk, restored).map_err(StartError)?;
        let mut tasks = vec![
            bans::log(Arc::clone(&control), recorded),
            bans::sweep(Arc::clone(&control)),
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
        service_manager::started(
            server.workers.listeners().len(),
            server.workers.stats().len(),
        );
        Ok(server)
    }

    /// The state shared by the tasks.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// The address of the admin interface.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Stops accepting calls and waits until calls in setup are done or the configured time has passed. Returns whether they are done.
    pub async fn drain(&self) -> bool {
        let longest = self.control.configuration.load().shutdown.drain_timeout;
        service_manager::stopping(longest + LAST_SAVE + QUICK_SAVE);
        if let Err(error) = self.control.drain_to_end().await {
            warn!(%error, "could not start draining on all workers");
        }
        let deadline = Instant::now() + longest;
        loop {
            // The workers need time to take the order before the first check.
            tokio::time::sleep(DRAIN_LOOK).await;
            match in_progress(&self.control) {
                0 => return true,
                _ if Instant::now() < deadline => {}
                left => {
                    warn!(left, "draining timed out with requests in progress");
                    return false;
                }
            }
        }
    }

    /// Stops the server: first the workers, then a last save, then the rest. Returns whether all bindings are saved. `quickly` limits the
    /// save to one second.
    pub async fn stop(self, quickly: bool) -> bool {
        let Self {
            control,
            workers,
            saver,
            tasks,
            admin,
        } = self;
        control.enter(Phase::Stopping);
        // Joins the worker threads, which end after their current round.
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

/// Number of requests that wait for a final response, the control plane or a save, plus answered calls that wait for their ACK.
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

/// Fills the credentials cache up to its capacity. Returns the version of the subscribers from which changes must be followed.
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

/// Restores the registrations from the database. Returns their number.
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
            "skipped bindings in the database that could not be read"
        );
    }
    Ok(found.bindings)
}
