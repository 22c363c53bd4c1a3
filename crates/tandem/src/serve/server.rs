//! A running server: the order of startup and shutdown.
use super::changed_subscribers::ChangedSubscribers;
use super::dialogs::{self, DialogSaver};
use super::questions::{self, Responder};
use super::saver::Saver;
use super::shared_dialogs::{self, Joining};
use super::taken_over::TakenOver;
use super::workers::{self, Parts};
use super::{at_rest, banner, bans, gateway_log, shared_locations, upkeep};
use crate::admin;
use crate::calls::{self, Recording};
use crate::config::{self, Configuration};
use crate::control::{Control, LogControl, Running, TimedRoutes, service_manager};
use crate::fleet_secret;
use crate::fleet_store::Pulse;
use crate::trace;
use crate::warnings::dangerous_settings;
use anyhow::{Error, anyhow};
use sip_elements::ControlMessage;
use sip_resolver::Resolver;
use sip_runtime::tls::{LoadErrors, SharedTls};
use sip_transport::selection::Reach;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tandem_store::Store;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How often a draining server checks for completion.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// Time limit of the last save.
const LAST_SAVE: Duration = Duration::from_secs(10);
/// Time limit of the last save in an immediate stop.
const QUICK_SAVE: Duration = Duration::from_secs(1);

/// How long to wait for the name of this node. A database server notices within half a minute that the machine of another process is gone.
const NAME_PATIENCE: Duration = Duration::from_secs(45);

/// A running server.
#[derive(Debug)]
pub struct Server {
    control: Arc<Control>,
    running: Arc<Running>,
    workers: sip_runtime::Running<ControlMessage>,
    saver: Saver,
    dialogs: DialogSaver,
    tasks: Vec<JoinHandle<()>>,
    /// Writes what the workers notice.
    log: JoinHandle<()>,
    recording: Recording,
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
    ) -> anyhow::Result<Self> {
        Self::start_within(NAME_PATIENCE, file, configuration, log).await
    }

    /// Like [`Server::start`], but waits for `patience` if another process has the name of this node on a database server.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start_within(
        patience: Duration,
        file: Option<PathBuf>,
        configuration: Configuration,
        log: Option<LogControl>,
    ) -> anyhow::Result<Self> {
        let control = Arc::new(Control::new(file, configuration, log));
        let configuration = control.configuration.load_full();
        for warning in dangerous_settings(&configuration) {
            warn!("{warning}");
        }
        if let Some(file) = &configuration.fleet.secret_file {
            // It is set once.
            let _ = control.fleet_secret.set(fleet_secret::read(&file.0)?);
        }
        let tls = load_tls(&configuration)?;
        let admin = admin::listen(&control).await?;
        let listeners = config::listeners(&configuration).map_err(Error::msg)?;
        // The future is large.
        let at_rest = Box::pin(at_rest::read(&control, &listeners, patience));
        let mut at_rest = at_rest.await?;
        let shared = Arc::new(at_rest.shared);
        let joined = Box::pin(shared_locations::join(&control, &shared, &listeners));
        let locations = joined.await?;
        let resolver = Resolver::new(
            &config::resolver_settings(&configuration),
            Reach::of(&listeners),
        )?;
        let (calls, call_events) = calls::channel(&control);
        let (dialogs, dialog_changes) = dialogs::queue();
        let answers = control.dialog_answers.sender.clone();
        let copies = Arc::clone(&control.traces.queue);
        let pulse = Pulse::new(control.clock);
        let waiting_calls = calls.clone();
        let dialogs = (dialogs, pulse.clone());
        let (queues, questions, notices) = questions::queues(calls, dialogs, answers, copies);
        let read = read_routes(&control, &at_rest.store).await?;
        let parts = Parts {
            routes: read.routes,
            store: at_rest.store,
            tls,
            shared,
            listeners,
            restored: locations
                .as_ref()
                .map_or(at_rest.restored, |it| it.restored),
            dialogs: &mut at_rest.dialogs,
        };
        let (workers, running) = workers::start(&control, parts, &queues)?;
        let running = Arc::new(running);
        let subscribers =
            ChangedSubscribers::new(control.clone(), running.clone(), at_rest.version);
        let responder = Responder {
            control: Arc::clone(&control),
            running: Arc::clone(&running),
            subscribers: Arc::new(subscribers),
            resolver,
        };
        let mut tasks = upkeep_tasks(&responder, at_rest.taken_over);
        tasks.extend(responder.start(questions));
        let dialogs = match configuration.shared_dialogs() {
            Some(url) => {
                let joining = Joining {
                    news: dialog_changes,
                    pulse,
                    calls: waiting_calls,
                };
                DialogSaver::of_fleet(shared_dialogs::start(&control, &running, url, joining))
            }
            None => DialogSaver::start(
                Arc::clone(&control),
                running.store.clone(),
                dialog_changes,
                at_rest.dialogs,
            ),
        };
        let server = Self {
            tasks,
            log: bans::log(Arc::clone(&control), notices),
            recording: Recording::start(&control, &running.store, call_events),
            saver: Saver::start(Arc::clone(&control), Arc::clone(&running), locations),
            dialogs,
            control,
            running,
            workers,
            admin,
        };
        server.control.publish(Arc::clone(&server.running));
        for line in banner::lines(&server.control, &server.running, server.admin.address()).await {
            info!("{line}");
        }
        let running = &server.running;
        service_manager::started(running.listeners.len(), running.metrics.len());
        Ok(server)
    }

    /// The state of the control plane.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What the server runs.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The address of the admin interface.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Stops accepting calls, other than from edges, and waits until calls in setup are done or the configured time has passed. Returns whether
    /// they are done.
    pub async fn drain(&self) -> bool {
        let configuration = self.control.configuration.load_full();
        let longest = configuration.shutdown.drain_timeout;
        service_manager::stopping(longest + LAST_SAVE + 5 * QUICK_SAVE);
        if let Err(error) = self.control.drain_for_shutdown(&self.running).await {
            warn!(%error, "could not start draining on all workers");
        }
        let deadline = Instant::now() + longest;
        let notice = match self.control.fleet_secret.get() {
            Some(_) => configuration.fleet.notice.min(longest),
            None => Duration::ZERO,
        };
        // Edges send new calls until they have noticed.
        tokio::time::sleep(notice).await;
        loop {
            // The workers need time to take the order before the first check.
            tokio::time::sleep(DRAIN_LOOK).await;
            match self.running.in_progress() {
                0 => return true,
                _ if Instant::now() < deadline => {}
                left => {
                    warn!(left, "draining timed out with requests in progress");
                    return false;
                }
            }
        }
    }

    /// Stops the server: first the workers, then a last save, then the rest. Returns whether all bindings, dialogs and call records are
    /// saved. `quickly` limits each save to one second.
    pub async fn stop(self, quickly: bool) -> bool {
        self.control.stop();
        // Joins the worker threads, which end after their current round.
        let workers = self.workers;
        let _ = tokio::task::spawn_blocking(move || workers.stop()).await;
        let patience = if quickly { QUICK_SAVE } else { LAST_SAVE };
        let (saved, dialogs_saved, recorded) = tokio::join!(
            self.saver.finish(patience),
            self.dialogs.finish(patience),
            self.recording.finish(patience)
        );
        let _ = tokio::time::timeout(QUICK_SAVE, self.control.events.stop()).await;
        // The workers have stopped, so the log ends after the notices that still wait.
        let _ = tokio::time::timeout(QUICK_SAVE, self.log).await;
        for task in &self.tasks {
            task.abort();
        }
        self.admin.close();
        let _ = tokio::time::timeout(QUICK_SAVE, self.running.store.close()).await;
        saved && dialogs_saved && recorded
    }
}

/// Starts the periodic tasks.
fn upkeep_tasks(responder: &Responder, taken_over: Option<TakenOver>) -> Vec<JoinHandle<()>> {
    let (control, running) = (&responder.control, &responder.running);
    let mut tasks = vec![
        bans::sweep(Arc::clone(control), Arc::clone(running)),
        upkeep::look_at_readers(Arc::clone(control)),
        upkeep::sweep(Arc::clone(control), Arc::clone(running)),
        gateway_log::log(Arc::clone(control), Arc::clone(running)),
        upkeep::sweep_limits(Arc::clone(control), Arc::clone(running)),
        upkeep::follow_subscribers(Arc::clone(control), Arc::clone(&responder.subscribers)),
        trace::keep(Arc::clone(control), Arc::clone(running)),
    ];
    tasks.extend(taken_over.map(|taken_over| {
        upkeep::follow_kamailio(Arc::clone(control), Arc::clone(running), taken_over)
    }));
    tasks
}

/// Reads the gateways and prefixes that the configuration in force names.
async fn read_routes(control: &Control, store: &Store) -> anyhow::Result<TimedRoutes> {
    // With the trusted peers of the database.
    let configuration = control.configuration.load_full();
    let read = control.read_routes(&configuration, store).await;
    let read = read.map_err(|error| anyhow!(error.lines().join("\n")))?;
    control.counters.prefixes.replace(read.read);
    let gateways = Arc::clone(&read.routes.gateways);
    control.read_gateways.store(gateways);
    Ok(read)
}

/// Loads the certificates; `None`: the configuration does not use TLS.
fn load_tls(configuration: &Configuration) -> Result<Option<Arc<SharedTls>>, LoadErrors> {
    if !config::speaks_tls(configuration) {
        return Ok(None);
    }
    let context = config::tls_settings(configuration).load(None)?;
    Ok(Some(SharedTls::new(context)))
}
