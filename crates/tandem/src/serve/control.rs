//! The state of the running server, shared by the control plane's tasks and the admin interface.
use super::changed_subscribers::Followed;
use super::figures::Figures;
use super::log::LogControl;
use super::{order, service_manager};
use crate::config::{self, Changes, Configuration, Mistakes};
use arc_swap::ArcSwap;
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{Answer, Shared};
use sip_runtime::SharedPeerPolicy;
use sip_runtime::tls::{LoadErrors, SharedTls, TlsContext};
use sip_runtime::{Clock, Handle, WorkerStats};
use sip_transport::Listener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tandem_store::Store;
use tokio::sync::{Mutex, watch};

/// How long a worker's inbox may stay full before an order to it fails.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

/// The lifecycle phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opens the database, warms caches, restores registrations.
    Starting,
    /// Accepts requests.
    Ready,
    /// Finishes requests in progress and accepts no new calls.
    Draining,
    /// Shuts down.
    Stopping,
}

impl Phase {
    /// The phase as one word.
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
    /// State shared by the workers.
    pub shared: Arc<Shared>,
    /// SIP counters of each worker.
    pub metrics: Vec<Arc<WorkerMetrics>>,
    /// Socket and queue counters of each worker.
    pub stats: Arc<[Arc<WorkerStats>]>,
    /// Sends orders and answers to the workers.
    pub handle: Handle<Answer>,
    /// The listeners as bound.
    pub listeners: Vec<Listener>,
    /// Number of restored bindings.
    pub restored: u64,
}

/// State shared by the tasks of the control plane.
#[derive(Debug)]
pub struct Control {
    /// The clock of both planes.
    pub clock: Clock,
    /// Start time.
    pub started: Instant,
    /// The configuration file; `None`: built-in defaults.
    pub file: Option<PathBuf>,
    /// The configuration in force.
    pub configuration: ArcSwap<Configuration>,
    /// Counters of the control plane.
    pub figures: Figures,
    /// How far changes of subscribers have been followed.
    pub followed_subscribers: Followed,
    phase: watch::Sender<Phase>,
    store: OnceLock<Store>,
    data_plane: OnceLock<DataPlane>,
    tls: OnceLock<Arc<SharedTls>>,
    /// The peers that are trusted and the origins whose pages may open a WebSocket.
    pub peer_policy: Arc<SharedPeerPolicy>,
    log: Option<LogControl>,
    /// Draining for shutdown, which cannot be reverted.
    ending: AtomicBool,
    /// Serializes reloads and drains. The value is true if the last drain order may not have reached every worker.
    ordering: Mutex<bool>,
    order_patience: Duration,
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server runs without a configuration file.
    NoFile,
    /// The file has errors.
    Mistakes(Mistakes),
    /// The TLS files that the configuration names have errors.
    Certificates(LoadErrors),
    /// These keys cannot change while the server runs.
    NeedsRestart(Vec<String>),
    /// The server is still starting.
    NotReady,
    /// Some workers did not take the order; the others follow it.
    Undelivered {
        /// The numbers of these workers, in ascending order.
        missing: Vec<u16>,
        /// Total number of workers.
        workers: u16,
    },
    /// The server is shutting down.
    Ending,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoFile => {
                formatter.write_str("the server was started without --config: no file to reload")
            }
            Self::Mistakes(mistakes) => write!(
                formatter,
                "nothing changed: the file has errors:\n{mistakes}"
            ),
            Self::Certificates(errors) => write!(
                formatter,
                "nothing changed: certificates have errors:\n{errors}"
            ),
            Self::NeedsRestart(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
                let them = if keys.len() == 1 { "it" } else { "them" };
                write!(
                    formatter,
                    "nothing changed: {} cannot change while the server runs; restart the server, or revert {them}",
                    keys.join(", ")
                )
            }
            Self::Ending => formatter.write_str("the server is shutting down"),
            Self::NotReady => formatter.write_str("nothing changed: the server is still starting"),
            Self::Undelivered { missing, workers } => {
                let missing: Vec<String> = missing.iter().map(u16::to_string).collect();
                let (noun, their) = if missing.len() == 1 {
                    ("worker", "its")
                } else {
                    ("workers", "their")
                };
                write!(
                    formatter,
                    "{noun} {} of {workers} (counted from 0) did not take the order, because {their} inbox stays full or the thread has ended; all other workers follow the order: retry",
                    missing.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for Refused {}

impl Control {
    /// Creates the state at process start.
    pub fn new(
        file: Option<PathBuf>,
        configuration: Configuration,
        log: Option<LogControl>,
    ) -> Self {
        let policy = config::peer_policy(&configuration);
        Self {
            clock: Clock::start(),
            started: Instant::now(),
            file,
            peer_policy: SharedPeerPolicy::new(policy),
            configuration: ArcSwap::from_pointee(configuration),
            figures: Figures::default(),
            followed_subscribers: Followed::default(),
            phase: watch::Sender::new(Phase::Starting),
            store: OnceLock::new(),
            data_plane: OnceLock::new(),
            tls: OnceLock::new(),
            log,
            ending: AtomicBool::new(false),
            ordering: Mutex::new(false),
            order_patience: ORDER_PATIENCE,
        }
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Watches changes of the phase.
    pub fn watch_phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The open database; `None` before it is open.
    pub fn store(&self) -> Option<&Store> {
        self.store.get()
    }

    /// Sets the open database. Only the first call has an effect.
    pub fn set_store(&self, store: Store) -> &Store {
        self.store.get_or_init(|| store)
    }

    /// The running data plane; `None` before it starts.
    pub fn data_plane(&self) -> Option<&DataPlane> {
        self.data_plane.get()
    }

    /// Sets the running data plane. Only the first call has an effect.
    pub fn set_data_plane(&self, data_plane: DataPlane) {
        let _ = self.data_plane.set(data_plane);
    }

    /// Certificates and TLS settings for handshakes; `None` before they are loaded.
    pub fn tls(&self) -> Option<&Arc<SharedTls>> {
        self.tls.get()
    }

    /// Sets the loaded certificates. Only the first call has an effect.
    pub fn set_tls(&self, context: TlsContext) -> &Arc<SharedTls> {
        self.tls.get_or_init(|| SharedTls::new(context))
    }

    /// Reads the file and its certificates again, and applies all changes or none. Returns the keys that changed, including
    /// `certificate` if only the certificates' files changed.
    ///
    /// # Errors
    /// Why nothing changed; or [`Refused::Undelivered`]: the workers not named there have the new settings, and the next reload sends them
    /// to all workers again, whether or not the file has changed since.
    pub async fn reload(&self) -> Result<Vec<String>, Refused> {
        let _one_at_a_time = self.ordering.lock().await;
        service_manager::reloading();
        let result = self.try_reload().await;
        service_manager::reloaded(result.is_ok());
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
        let tls = self.load_certificates(&fresh)?;
        let settings = Arc::new(config::settings(&fresh, &data_plane.listeners));
        self.order(data_plane, &Answer::Settings(settings)).await?;
        if let Some(log) = &self.log {
            log.set_level(fresh.log.level);
        }
        self.peer_policy.replace(config::peer_policy(&fresh));
        self.configuration.store(Arc::new(fresh));
        let mut changed: Vec<String> = differences.into_iter().map(|(key, _)| key).collect();
        if self.replace_certificates(tls) && !changed.iter().any(|key| key == "certificate") {
            changed.push("certificate".to_owned());
        }
        Ok(changed)
    }

    /// Loads the TLS context of a new configuration; `None` if it does not use TLS.
    fn load_certificates(&self, fresh: &Configuration) -> Result<Option<TlsContext>, Refused> {
        let previous = self.tls().map(|tls| tls.context());
        if previous.is_none() && !config::speaks_tls(fresh) {
            return Ok(None);
        }
        config::tls_settings(fresh)
            .load(previous.as_deref())
            .map(Some)
            .map_err(Refused::Certificates)
    }

    /// Uses `fresh` for new handshakes. Returns whether the certificates changed.
    fn replace_certificates(&self, fresh: Option<TlsContext>) -> bool {
        let (Some(tls), Some(fresh)) = (self.tls(), fresh) else {
            return false;
        };
        let others = !fresh.certificates().same_as(tls.context().certificates());
        tls.replace(fresh);
        others
    }

    /// Starts draining before shutdown; this cannot be reverted.
    ///
    /// # Errors
    /// The same as [`Control::drain`].
    pub async fn drain_to_end(&self) -> Result<(), Refused> {
        self.ending.store(true, Ordering::Relaxed);
        self.drain(true).await
    }

    /// Starts or stops draining. Has no effect if every worker is already in that state.
    ///
    /// # Errors
    /// [`Refused::NotReady`], [`Refused::Ending`]; [`Refused::Undelivered`]: the server then counts as draining until a repeated order
    /// reaches every worker.
    pub async fn drain(&self, on: bool) -> Result<(), Refused> {
        let mut unfinished = self.ordering.lock().await;
        let data_plane = self.data_plane().ok_or(Refused::NotReady)?;
        if !on && self.ending.load(Ordering::Relaxed) {
            return Err(Refused::Ending);
        }
        let changes = match self.phase() {
            Phase::Ready => on,
            Phase::Draining => !on || *unfinished,
            Phase::Starting | Phase::Stopping => false,
        };
        if !changes {
            return Ok(());
        }
        // Readiness ends before the first worker refuses calls, and returns only after the last one accepts them.
        self.step(Phase::Ready, Phase::Draining);
        // Set before the order goes out: the waiting caller may be cancelled meanwhile.
        *unfinished = true;
        self.order(data_plane, &Answer::Drain(on)).await?;
        *unfinished = false;
        if !on {
            self.step(Phase::Draining, Phase::Ready);
        }
        Ok(())
    }

    /// Changes the phase only if it is `from`: the server may have begun to stop meanwhile.
    fn step(&self, from: Phase, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let is_there = *phase == from;
            if is_there {
                *phase = to;
            }
            is_there
        });
    }

    /// Sends an order to every worker, waiting for room in their inboxes.
    async fn order(&self, data_plane: &DataPlane, order: &Answer) -> Result<(), Refused> {
        let workers = data_plane.handle.workers();
        let send = |worker| data_plane.handle.send(worker, order.clone());
        order::deliver(workers, self.order_patience, send)
            .await
            .map_err(|missing| Refused::Undelivered { missing, workers })
    }
}

#[cfg(test)]
mod tests {
    use super::super::workers;
    use super::*;
    use sip_elements::Question;
    use sip_runtime::{Options, Running, Runtime};
    use sip_transport::{Input, Node, Output, Protocol, Time};
    use std::num::NonZeroU16;
    use tokio::sync::RwLock;

    /// Records the last order to drain; accepts nothing while `gate` is held.
    struct Gated {
        gate: Arc<RwLock<()>>,
        taken: Arc<AtomicBool>,
    }

    impl Node for Gated {
        type Question = Question;
        type Record = std::convert::Infallible;
        type Answer = Answer;

        fn handle(&mut self, _: Time, input: Input<'_, Answer>, _: &mut Output<Question>) {
            let _open = self.gate.blocking_read();
            if let Input::Answer(Answer::Drain(on)) = input {
                self.taken.store(on, Ordering::SeqCst);
            }
        }

        fn expire(&mut self, _: Time, _: &mut Output<Question>) {}

        fn next_deadline(&self) -> Option<Time> {
            None
        }
    }

    /// A server with two workers and room for one answer each. The first worker waits at its gate.
    struct Fixture {
        control: Control,
        _running: Running<Answer>,
        gates: [Arc<RwLock<()>>; 2],
        draining: [Arc<AtomicBool>; 2],
    }

    impl Fixture {
        fn start() -> Self {
            let configuration = Configuration::default();
            let shared = Arc::new(workers::shared(&configuration, &[7; 32]));
            let gates: [Arc<RwLock<()>>; 2] = Default::default();
            let draining: [Arc<AtomicBool>; 2] = Default::default();
            let listener = Listener {
                protocol: Protocol::Udp,
                address: ([127, 0, 0, 1], 0).into(),
                prefix_length: 8,
                advertised: String::new(),
                behind_balancer: false,
            };
            let options = Options {
                waiting_answers: 1,
                ..Options::default()
            };
            let node = |worker: u16| Gated {
                gate: Arc::clone(&gates[usize::from(worker)]),
                taken: Arc::clone(&draining[usize::from(worker)]),
            };
            let running = Runtime::bind(vec![listener], NonZeroU16::new(2).expect("two"), options)
                .expect("a socket")
                .start(node, &|_, question| Err(question))
                .expect("threads");
            let mut control = Control::new(None, configuration, None);
            control.order_patience = Duration::from_millis(50);
            control.set_data_plane(DataPlane {
                shared,
                metrics: Vec::new(),
                stats: running.stats(),
                handle: running.handle(),
                listeners: running.listeners().to_vec(),
                restored: 0,
            });
            control.enter(Phase::Ready);
            Self {
                control,
                _running: running,
                gates,
                draining,
            }
        }

        /// Waits until both workers have followed the order.
        async fn until_both_drain(&self, on: bool) {
            let deadline = Instant::now() + Duration::from_secs(10);
            let follows = |draining: &Arc<AtomicBool>| draining.load(Ordering::SeqCst) == on;
            while !self.draining.iter().all(follows) {
                assert!(Instant::now() < deadline, "{:?}", self.draining);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        /// Fills the inbox of the first worker, which waits at its gate.
        async fn fill_first_inbox(&self) {
            let data_plane = self.control.data_plane().expect("it runs");
            // It takes one out and waits with it; then there is room for one more.
            for _ in 0..2 {
                while data_plane.handle.send(0, Answer::Saved).is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(test);
    }

    #[test]
    fn an_order_that_a_worker_missed_names_it_and_is_carried_out_when_given_again() {
        run(async {
            let fixture = Fixture::start();
            let control = &fixture.control;
            for on in [true, false] {
                let [gate, _] = &fixture.gates;
                let held = gate.write().await;
                fixture.fill_first_inbox().await;
                let missed = Refused::Undelivered {
                    missing: vec![0],
                    workers: 2,
                };
                assert_eq!(control.drain(on).await, Err(missed.clone()));
                assert!(missed.to_string().starts_with("worker 0 of 2 "), "{missed}");
                assert_eq!(control.phase(), Phase::Draining);
                drop(held);
                assert_eq!(control.drain(on).await, Ok(()));
                fixture.until_both_drain(on).await;
            }
            assert_eq!(control.phase(), Phase::Ready);
        });
    }
}
