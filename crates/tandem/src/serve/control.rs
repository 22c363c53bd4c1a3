//! What the control plane knows of the running server: shared by its tasks and the admin interface.
use super::changed_subscribers::Followed;
use super::figures::Figures;
use super::log::LogControl;
use super::order;
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
    /// How far changes of subscribers have been followed.
    pub followed_subscribers: Followed,
    phase: watch::Sender<Phase>,
    store: OnceLock<Store>,
    data_plane: OnceLock<DataPlane>,
    tls: OnceLock<Arc<SharedTls>>,
    /// Whose connections are trusted, and whose pages may open a WebSocket.
    pub peer_policy: Arc<SharedPeerPolicy>,
    log: Option<LogControl>,
    /// Draining ends with the process and cannot be taken back.
    ending: AtomicBool,
    /// One reload or drain at a time. Within: whether the last order to drain, or to drain no more, may not have reached every worker.
    ordering: Mutex<bool>,
    order_patience: Duration,
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The server runs without a file.
    NoFile,
    /// The file is wrong.
    Mistakes(Mistakes),
    /// Files that the file names for TLS are wrong.
    Certificates(LoadErrors),
    /// These keys cannot change while the server runs.
    NeedsRestart(Vec<String>),
    /// The server has not come up yet.
    NotReady,
    /// These of so many workers did not take the order; the others follow it.
    Undelivered {
        /// Who, in their order.
        missing: Vec<u16>,
        /// Of how many.
        workers: u16,
    },
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
            Self::Certificates(errors) => write!(
                formatter,
                "nothing was changed, certificates are wrong:\n{errors}"
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
            Self::Undelivered { missing, workers } => {
                let missing: Vec<String> = missing.iter().map(u16::to_string).collect();
                let (noun, their) = if missing.len() == 1 {
                    ("worker", "its")
                } else {
                    ("workers", "their")
                };
                write!(
                    formatter,
                    "{noun} {} of {workers} (counted from 0) did not take the order, because {their} inbox stays full or it has ended; every other one follows it: give the order again",
                    missing.join(", ")
                )
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

    /// Certificates, and what handshakes are made with; `None` before they are loaded.
    pub fn tls(&self) -> Option<&Arc<SharedTls>> {
        self.tls.get()
    }

    /// Keeps what was loaded. The first one counts.
    pub fn set_tls(&self, context: TlsContext) -> &Arc<SharedTls> {
        self.tls.get_or_init(|| SharedTls::new(context))
    }

    /// Reads the file again, and the certificates that it names, and takes all of it over, or nothing. Returns the keys that changed;
    /// `certificate` among them also where only the certificates' files have.
    ///
    /// # Errors
    /// Why nothing was changed; or [`Refused::Undelivered`]: the workers not named there have what is new, and the next reload gives it to
    /// all of them again, whether or not the file has changed since.
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

    /// What handshakes would be made with under another configuration.
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

    /// New handshakes use this from now on. Returns whether the certificates are others.
    fn replace_certificates(&self, fresh: Option<TlsContext>) -> bool {
        let (Some(tls), Some(fresh)) = (self.tls(), fresh) else {
            return false;
        };
        let others = !fresh.certificates().same_as(tls.context().certificates());
        tls.replace(fresh);
        others
    }

    /// Begins to drain for good: the process ends afterwards.
    ///
    /// # Errors
    /// As [`Control::drain`].
    pub async fn drain_to_end(&self) -> Result<(), Refused> {
        self.ending.store(true, Ordering::Relaxed);
        self.drain(true).await
    }

    /// Begins or ends draining. Nothing happens when it is so already, on every worker.
    ///
    /// # Errors
    /// [`Refused::NotReady`], [`Refused::Ending`]; [`Refused::Undelivered`]: the server then counts as draining until the order, given
    /// again, reaches every worker.
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
        // Whoever watches readiness must know before the first worker refuses calls, and no sooner than the last one takes them.
        self.step(Phase::Ready, Phase::Draining);
        // Before the order goes out: whoever waits for it may go away meanwhile.
        *unfinished = true;
        self.order(data_plane, &Answer::Drain(on)).await?;
        *unfinished = false;
        if !on {
            self.step(Phase::Draining, Phase::Ready);
        }
        Ok(())
    }

    /// Moves on from there, and from nowhere else: the server may have begun to stop meanwhile.
    fn step(&self, from: Phase, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let is_there = *phase == from;
            if is_there {
                *phase = to;
            }
            is_there
        });
    }

    /// Gives an order to every worker, waiting for room in their inboxes.
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
    use sip_transport::{Flow, Node, Output, Protocol, Time};
    use std::num::NonZeroU16;
    use tokio::sync::RwLock;

    /// Remembers the last order to drain; takes nothing while `gate` is held.
    struct Gated {
        gate: Arc<RwLock<()>>,
        taken: Arc<AtomicBool>,
    }

    impl Node for Gated {
        type Question = Question;
        type Answer = Answer;

        fn receive(&mut self, _: Time, _: Flow, _: &[u8], _: &mut Output<Question>) {}

        fn receive_handed_over(&mut self, _: Time, _: Flow, _: &[u8], _: &mut Output<Question>) {}

        fn answer(&mut self, _: Time, answer: Answer, _: &mut Output<Question>) {
            let _open = self.gate.blocking_read();
            if let Answer::Drain(on) = answer {
                self.taken.store(on, Ordering::SeqCst);
            }
        }

        fn expire(&mut self, _: Time, _: &mut Output<Question>) {}

        fn next_deadline(&self) -> Option<Time> {
            None
        }
    }

    /// A server of two workers with room for one answer each. The first one waits at its gate.
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

        /// Waits until both workers follow.
        async fn until_both_drain(&self, on: bool) {
            let deadline = Instant::now() + Duration::from_secs(10);
            let follows = |draining: &Arc<AtomicBool>| draining.load(Ordering::SeqCst) == on;
            while !self.draining.iter().all(follows) {
                assert!(Instant::now() < deadline, "{:?}", self.draining);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }

        /// Fills the inbox of the first worker, which stands at its gate.
        async fn fill_first_inbox(&self) {
            let data_plane = self.control.data_plane().expect("it runs");
            let filler = |ticket| Answer::Resolved {
                ticket: sip_elements::Ticket(ticket),
                result: Ok(Vec::new()),
            };
            // It takes one out and waits with it; then there is room for one more.
            for ticket in 0..2 {
                while data_plane.handle.send(0, filler(ticket)).is_err() {
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
