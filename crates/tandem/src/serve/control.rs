//! What the control plane knows of the running server: shared by its tasks and the admin interface.
use super::figures::Figures;
use super::log::LogControl;
use crate::config::{self, Changes, Configuration, Mistakes};
use arc_swap::ArcSwap;
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{Answer, Shared};
use sip_runtime::{Clock, Handle, WorkerStats};
use sip_transport::Listener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tandem_store::Store;
use tokio::sync::{Mutex, watch};

/// How long a worker's inbox may stay full before an order to it is given up.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

/// Where the server stands between start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It opens the database, warms caches, restores registrations.
    Starting,
    /// It takes requests.
    Ready,
    /// It finishes what it has and takes nothing new.
    Draining,
    /// It ends.
    Stopping,
}

impl Phase {
    /// In one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
        }
    }
}

/// The data plane as the control plane sees it.
#[derive(Debug)]
pub struct DataPlane {
    /// What the workers share.
    pub shared: Arc<Shared>,
    /// Each worker's counters of SIP.
    pub metrics: Vec<Arc<WorkerMetrics>>,
    /// Each worker's counters of sockets and queues.
    pub stats: Arc<[Arc<WorkerStats>]>,
    /// Speaks to the workers.
    pub handle: Handle<Answer>,
    /// As bound.
    pub listeners: Vec<Listener>,
    /// How many bindings were restored.
    pub restored: u64,
}

/// What the tasks of the control plane share.
#[derive(Debug)]
pub struct Control {
    /// The one clock.
    pub clock: Clock,
    /// When it began.
    pub started: Instant,
    /// Where the configuration came from; `None`: the defaults.
    pub file: Option<PathBuf>,
    /// What is in force.
    pub configuration: ArcSwap<Configuration>,
    /// Counters of the control plane.
    pub figures: Figures,
    phase: watch::Sender<Phase>,
    store: OnceLock<Store>,
    data_plane: OnceLock<DataPlane>,
    log: Option<LogControl>,
    /// Draining ends with the process and cannot be taken back.
    ending: AtomicBool,
    /// One reload or drain at a time.
    ordering: Mutex<()>,
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server runs without a file.
    NoFile,
    /// The file is wrong.
    Mistakes(Mistakes),
    /// These keys cannot change while the server runs.
    NeedsRestart(Vec<String>),
    /// The server has not come up yet.
    NotReady,
    /// A worker takes no orders.
    Busy,
    /// The server is on its way out.
    Ending,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoFile => formatter
                .write_str("the server was started without --config: there is nothing to reload"),
            Self::Mistakes(mistakes) => write!(
                formatter,
                "nothing was changed, the file is wrong:\n{mistakes}"
            ),
            Self::NeedsRestart(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                let them = if keys.len() == 1 { "it" } else { "them" };
                write!(
                    formatter,
                    "nothing was changed: {} cannot change while the server runs; restart it, or take {them} back",
                    keys.join(", ")
                )
            }
            Self::Ending => formatter.write_str("the server has been told to end"),
            Self::NotReady => {
                formatter.write_str("nothing was changed: the server is still starting")
            }
            Self::Busy => {
                formatter.write_str("a worker takes no orders: its inbox stays full; try again")
            }
        }
    }
}

impl std::error::Error for Refused {}

impl Control {
    /// At the very start.
    pub fn new(
        file: Option<PathBuf>,
        configuration: Configuration,
        log: Option<LogControl>,
    ) -> Self {
        Self {
            clock: Clock::start(),
            started: Instant::now(),
            file,
            configuration: ArcSwap::from_pointee(configuration),
            figures: Figures::default(),
            phase: watch::Sender::new(Phase::Starting),
            store: OnceLock::new(),
            data_plane: OnceLock::new(),
            log,
            ending: AtomicBool::new(false),
            ordering: Mutex::new(()),
        }
    }

    /// Where the server stands.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Moves on.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Tells of every move.
    pub fn watch_phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The open database; `None` before it is open.
    pub fn store(&self) -> Option<&Store> {
        self.store.get()
    }

    /// Keeps the open database. The first one counts.
    pub fn set_store(&self, store: Store) -> &Store {
        self.store.get_or_init(|| store)
    }

    /// The running data plane; `None` before it runs.
    pub fn data_plane(&self) -> Option<&DataPlane> {
        self.data_plane.get()
    }

    /// Keeps the running data plane. The first one counts.
    pub fn set_data_plane(&self, data_plane: DataPlane) {
        let _ = self.data_plane.set(data_plane);
    }

    /// Reads the file again and takes all of it over, or nothing. Returns the keys that changed.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn reload(&self) -> Result<Vec<String>, Refused> {
        let _one_at_a_time = self.ordering.lock().await;
        let result = self.try_reload().await;
        self.figures.reloaded(result.is_ok());
        result
    }

    async fn try_reload(&self) -> Result<Vec<String>, Refused> {
        let file = self.file.as_deref().ok_or(Refused::NoFile)?;
        let fresh = config::load(Some(file)).map_err(Refused::Mistakes)?;
        let data_plane = self.data_plane().ok_or(Refused::NotReady)?;
        let differences = self.configuration.load().differences(&fresh);
        let fixed: Vec<String> = differences
            .iter()
            .filter(|(_, changes)| *changes == Changes::Restart)
            .map(|(key, _)| key.clone())
            .collect();
        if !fixed.is_empty() {
            return Err(Refused::NeedsRestart(fixed));
        }
        let settings = Arc::new(config::settings(&fresh, &data_plane.listeners));
        self.order(data_plane, &Answer::Settings(settings)).await?;
        if let Some(log) = &self.log {
            log.set_level(fresh.log.level);
        }
        self.configuration.store(Arc::new(fresh));
        Ok(differences.into_iter().map(|(key, _)| key).collect())
    }

    /// Begins to drain for good: the process ends afterwards.
    ///
    /// # Errors
    /// [`Refused::NotReady`], [`Refused::Busy`].
    pub async fn drain_to_end(&self) -> Result<(), Refused> {
        self.ending.store(true, Ordering::Relaxed);
        self.drain(true).await
    }

    /// Begins or ends draining. Nothing happens when it is so already.
    ///
    /// # Errors
    /// [`Refused::NotReady`], [`Refused::Busy`], [`Refused::Ending`].
    pub async fn drain(&self, on: bool) -> Result<(), Refused> {
        let _one_at_a_time = self.ordering.lock().await;
        let data_plane = self.data_plane().ok_or(Refused::NotReady)?;
        if !on && self.ending.load(Ordering::Relaxed) {
            return Err(Refused::Ending);
        }
        let (from, to) = if on {
            (Phase::Ready, Phase::Draining)
        } else {
            (Phase::Draining, Phase::Ready)
        };
        if self.phase() != from {
            return Ok(());
        }
        // Whoever watches readiness must know first.
        self.enter(to);
        self.order(data_plane, &Answer::Drain(on)).await
    }

    /// Gives an order to every worker, waiting for room in their inboxes.
    async fn order(&self, data_plane: &DataPlane, order: &Answer) -> Result<(), Refused> {
        let deadline = Instant::now() + ORDER_PATIENCE;
        let mut waiting: Vec<u16> = (0..data_plane.handle.workers()).collect();
        loop {
            waiting.retain(|worker| data_plane.handle.send(*worker, order.clone()).is_err());
            if waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Refused::Busy);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
