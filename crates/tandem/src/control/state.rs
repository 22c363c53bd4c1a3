//! What exists from the start of the process.
use super::asking::DialogAnswers;
use super::counters::ControlCounters;
use super::lifecycle::{Lifecycle, Phase};
use super::log::LogControl;
use super::order::{self, Orders, Undelivered};
use super::running::Running;
use super::trusted_peers::TrustedGroup;
use crate::calls::events::Hub;
use crate::calls::publishing::PublishCounters;
use crate::calls::records::RecordCounters;
use crate::config::Configuration;
use crate::fleet_store::{FleetCounters, FleetDialogCounters};
use crate::trace::Traces;
use arc_swap::{ArcSwap, ArcSwapOption};
use sip_elements::ControlMessage;
use sip_message::KeyHasher;
use sip_routing::gateway::Descriptions;
use sip_runtime::Clock;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long a worker's inbox may stay full before an order to it fails.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

/// The state of the control plane, shared by the tasks of the control plane and the admin interface.
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
    /// Keyed hashes with the secret of the fleet, once it is read; not set: there are no edges.
    pub(crate) fleet_secret: OnceLock<KeyHasher>,
    /// Counters of the control plane.
    pub counters: ControlCounters,
    /// What happens to call records.
    pub records: RecordCounters,
    /// Pushes call events to readers.
    pub events: Arc<Hub>,
    /// What happens to events that are published to Redis.
    pub publishing: PublishCounters,
    /// What happens to bindings that a fleet shares.
    pub fleet: Arc<FleetCounters>,
    /// What happens to dialogs that a fleet shares.
    pub fleet_dialogs: Arc<FleetDialogCounters>,
    /// What keeps the server from becoming ready; `None`: nothing.
    pub(crate) obstacle: ArcSwapOption<String>,
    /// The traces that run.
    pub(crate) traces: Traces,
    /// What the workers answer to requests about dialogs.
    pub(crate) dialog_answers: DialogAnswers,
    /// The group of the database that is part of `proxy.trusted_peers`.
    pub(crate) trusted_group: ArcSwapOption<TrustedGroup>,
    /// The gateways in use that the database names.
    pub(crate) read_gateways: ArcSwap<Descriptions>,
    pub(super) lifecycle: ArcSwap<Lifecycle>,
    pub(super) log: Option<LogControl>,
    /// Serializes orders to the workers.
    pub(super) orders: Mutex<Orders>,
    /// Serializes reloads, which read the database before they order.
    pub(super) reloads: Mutex<()>,
    pub(super) order_patience: Duration,
}

impl Control {
    /// Creates the state at process start.
    pub fn new(
        file: Option<PathBuf>,
        configuration: Configuration,
        log: Option<LogControl>,
    ) -> Self {
        let clock = Clock::start();
        let events = &configuration.events;
        let run = clock.now().as_micros();
        let hub = Hub::new(run, events.max_readers, events.buffer);
        Self {
            clock,
            started: Instant::now(),
            file,
            traces: Traces::new(configuration.workers.count.resolve().max(1)),
            configuration: ArcSwap::from_pointee(configuration),
            fleet_secret: OnceLock::new(),
            counters: ControlCounters::default(),
            records: RecordCounters::default(),
            events: Arc::new(hub),
            publishing: PublishCounters::default(),
            fleet: Arc::default(),
            fleet_dialogs: Arc::default(),
            obstacle: ArcSwapOption::empty(),
            dialog_answers: DialogAnswers::default(),
            trusted_group: ArcSwapOption::empty(),
            read_gateways: ArcSwap::default(),
            lifecycle: ArcSwap::default(),
            log,
            orders: Mutex::default(),
            reloads: Mutex::default(),
            order_patience: ORDER_PATIENCE,
        }
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.lifecycle.load().phase()
    }

    /// The running server; `None` while it starts.
    pub fn running(&self) -> Option<Arc<Running>> {
        self.lifecycle.load().running().map(Arc::clone)
    }

    /// Publishes the running server: it is ready.
    pub fn publish(&self, running: Arc<Running>) {
        self.lifecycle.store(Arc::new(Lifecycle::Ready(running)));
    }

    /// Enters [`Phase::Stopping`], which is final.
    pub fn stop(&self) {
        self.lifecycle.rcu(|lifecycle| lifecycle.stopping());
    }

    /// Sends an order to every worker, waiting for room in their inboxes.
    pub(super) async fn order(
        &self,
        running: &Running,
        order: &ControlMessage,
    ) -> Result<(), Undelivered> {
        let send = |worker| running.workers.send(worker, order.clone());
        order::deliver(running.workers.workers(), self.order_patience, send).await
    }
}
