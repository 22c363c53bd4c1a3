//! The exchange: registrar and proxy as one [`Node`]. There is one instance per worker.

use crate::metrics::WorkerMetrics;
use crate::named_servers::{self, NamedServers};
use crate::parked::Parked;
use crate::probes::Probes;
use crate::proxy::{Proxy, ProxyStats, key_of};
use crate::registered::Registered;
use crate::registrar::held::HeldAnswers;
use crate::registrations::Registrations;
use crate::trace::{Mark, Tap, TraceOrder};
use crate::worker::{Worker, home_of};
use crate::{
    ControlMessage, Owner, Question, Record, Settings, Shared, WorkerParts, classify, parking,
    pipeline, probes, registrations, undeliverable,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sip_dialog::{Dialog, DialogStats};
use sip_message::KeyHasher;
use sip_transaction::{Event, Limits, Stats, Transactions};
use sip_transport::overload::Urgency;
use sip_transport::{Flow, Input, Node, Output, Received, Time};
use std::sync::Arc;

/// The parts that an exchange is built from.
#[derive(Debug)]
pub struct ExchangeOptions {
    /// The index of the worker, from 0.
    pub worker: u16,
    /// The number of workers.
    pub workers: u16,
    /// The state that all workers share.
    pub shared: Arc<Shared>,
    /// The operator's configuration.
    pub settings: Arc<Settings>,
    /// The counters of this worker.
    pub metrics: Arc<WorkerMetrics>,
    /// The seed of all random numbers.
    pub seed: [u8; 32],
    /// The start time.
    pub now: Time,
}

/// The registrar and proxy of one worker. It owns all state of the calls whose home it is.
#[derive(Debug)]
pub struct Exchange {
    worker: u16,
    workers: u16,
    shared: Arc<Shared>,
    settings: Arc<Settings>,
    metrics: Arc<WorkerMetrics>,
    random: ChaCha8Rng,
    transactions: Transactions<Owner>,
    proxy: Proxy,
    parked: Parked,
    registered: Registered,
    held: HeldAnswers,
    probes: Probes,
    servers: NamedServers,
    registrations: Registrations,
    draining: bool,
    /// Copies messages. `None`: nothing is traced.
    tap: Option<Box<Tap>>,
    events: Vec<Event<Owner>>,
    scratch: Vec<u8>,
}

impl Exchange {
    /// Creates an exchange without any calls.
    pub fn new(options: ExchangeOptions) -> Self {
        let ExchangeOptions {
            worker,
            workers,
            shared,
            settings,
            metrics,
            seed,
            now,
        } = options;
        let mut random = ChaCha8Rng::from_seed(seed);
        let epoch = random.next_u32();
        let transactions = Transactions::new(
            now,
            settings.timers,
            limits(&settings),
            shared.hasher,
            epoch,
        );
        let mut probes = Probes::new(now);
        probes.configure(worker, &settings, now);
        let mut servers = NamedServers::default();
        servers.configure(&settings, now);
        let mut registrations = Registrations::new(now);
        registrations.configure(worker, &settings, now);
        Self {
            worker,
            workers,
            shared,
            settings,
            metrics,
            random,
            transactions,
            proxy: Proxy::new(now),
            parked: Parked::new(),
            registered: Registered::default(),
            held: HeldAnswers::default(),
            probes,
            servers,
            registrations,
            draining: false,
            tap: None,
            events: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The counts of the transaction layer.
    pub fn transaction_stats(&self) -> Stats {
        self.transactions.stats()
    }

    /// The counts of the response contexts.
    pub fn proxy_stats(&self) -> ProxyStats {
        self.proxy.stats()
    }

    /// The counts of dialogs.
    pub fn dialog_stats(&self) -> DialogStats {
        self.proxy.dialog_stats()
    }

    /// The number of requests that wait for the control plane.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// The bytes of messages that it holds: the total of the ledger, and the same counted one by one. Both are always equal.
    pub fn held_bytes(&self) -> (usize, usize) {
        let counted =
            self.transactions.count_bytes() + self.proxy.count_bytes() + self.parked.count_bytes();
        (self.transactions.ledger_stats().bytes as usize, counted)
    }

    /// The calls that hold places in limits, counted one by one.
    pub fn count_calls_with_places(&self) -> usize {
        self.proxy.count_calls_with_places() + self.parked.count_calls_with_places()
    }

    /// The number of unproven sources that it holds something for.
    pub fn held_sources(&self) -> u64 {
        self.transactions.ledger_stats().sources
    }

    /// The worker that is the home of the dialog with this state, among so many; `None` if the state can't be read. Only this worker can
    /// [restore](Exchange::restore) it.
    pub fn home_of_dialog(state: &[u8], workers: u16) -> Option<u16> {
        Dialog::encoded_call_id(state).map(|call_id| home_of(call_id, workers))
    }

    /// The key of the dialog with this state, the same on every node with this secret ([`Shared::hasher`]). Requests of the dialog name it
    /// ([`MissedDialog::keys`](crate::MissedDialog::keys)). `None` if the state can't be read.
    pub fn key_of_dialog(state: &[u8], hasher: &KeyHasher) -> Option<u64> {
        Dialog::read(state, |dialog| key_of(dialog, hasher))
    }

    /// Restores a dialog from the state in [`Record::Dialog`]. Returns whether this worker is its home, and its life is not over yet. Call
    /// it before the first message arrives.
    pub fn restore(&mut self, now: Time, state: &[u8]) -> bool {
        let mut output = Output::default();
        let mut is_restored = false;
        self.with_worker((now, now), &mut output, |worker| {
            is_restored = worker.restore(state);
        });
        is_restored
    }

    fn with_worker(
        &mut self,
        (arrived, now): (Time, Time),
        output: &mut Output<Question, Record>,
        act: impl FnOnce(&mut Worker<'_, '_>),
    ) {
        let mut worker = Worker {
            index: self.worker,
            workers: self.workers,
            parts: WorkerParts {
                now,
                arrived,
                output,
                transactions: &mut self.transactions,
                settings: &self.settings,
                shared: &self.shared,
                metrics: &self.metrics,
                random: &mut self.random,
            },
            proxy: &mut self.proxy,
            parked: &mut self.parked,
            registered: &mut self.registered,
            held: &mut self.held,
            probes: &mut self.probes,
            servers: &mut self.servers,
            registrations: &mut self.registrations,
            draining: &mut self.draining,
            is_ignored: false,
            events: &mut self.events,
            scratch: &mut self.scratch,
        };
        act(&mut worker);
        self.publish();
    }

    /// Follows an order about which messages to copy.
    fn trace(&mut self, order: &Arc<TraceOrder>) {
        self.tap = Tap::new(Arc::clone(order), self.shared.hasher, self.tap.as_deref());
        self.metrics.trace_order.set(order.number);
    }

    /// Where the output of the next input begins, and what the tap needs to know of that, if messages are copied.
    fn mark(&self, output: &Output<Question, Record>) -> (usize, Option<Mark>) {
        let mark = self.tap.as_ref().map(|_| Mark::of(output));
        (output.outgoing().len(), mark)
    }

    /// Ends an input: what was sent since `mark` is copied if it is traced, and responses among it go round edges that are gone.
    fn finish(
        &mut self,
        now: Time,
        (first, mark): (usize, Option<Mark>),
        received: Option<Received<'_>>,
        output: &mut Output<Question, Record>,
    ) {
        let edges = &self.shared.edges;
        if edges.any_is_gone() {
            let redirected = output.redirect(first, |flow, bytes| {
                // Through another edge, a request would have another Via: a callee that has it already would take it for a merged one.
                let is_response = bytes.starts_with(b"SIP/");
                is_response.then(|| edges.around(flow, now)).flatten()
            });
            self.metrics.round_edges.add(redirected as u64);
        }
        self.copy_traced(now, mark, received, output);
    }

    /// Copies what was received, and what was sent since `mark`.
    fn copy_traced(
        &mut self,
        now: Time,
        mark: Option<Mark>,
        received: Option<Received<'_>>,
        output: &mut Output<Question, Record>,
    ) {
        if let (Some(mark), Some(tap)) = (mark, &mut self.tap) {
            tap.copy((mark, now), received, output);
        }
    }

    /// Copies the gauges to the metrics, where other threads can read them.
    fn publish(&self) {
        let stats = self.transactions.stats();
        self.metrics.publish_transactions(&stats);
        self.metrics.response_contexts.set(self.proxy.stats().live);
        let dialogs = self.proxy.dialog_stats();
        self.metrics.dialogs_early.set(dialogs.early);
        self.metrics.dialogs_confirmed.set(dialogs.confirmed);
        self.metrics.dialogs_bytes.set(dialogs.bytes);
        self.metrics
            .unacknowledged
            .set(self.proxy.unacknowledged() as u64);
        self.metrics.parked.set(self.parked.len() as u64);
        self.metrics
            .registrations_leaving
            .set(self.registrations.leaving() as u64);
        let refreshed = self.proxy.refreshed_stats();
        self.metrics.refreshed_targets.set(refreshed.live);
        self.metrics
            .refreshed_targets_evicted
            .set(refreshed.evicted);
        self.metrics.held_answers.set(self.held.len() as u64);
        let held = self.transactions.ledger_stats();
        self.metrics.held_bytes.set(held.bytes);
        self.metrics.held_sources.set(held.sources);
        self.metrics.shares_refused.set(held.shares_refused);
        self.metrics
            .responses_withheld
            .set(stats.responses_withheld);
    }
}

impl Node for Exchange {
    type Question = Question;
    type Record = Record;
    type Control = ControlMessage;

    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, ControlMessage>,
        output: &mut Output<Question, Record>,
    ) {
        let (mark, mut received) = (self.mark(output), None);
        let arrived = match &input {
            Input::Received(message) => {
                self.metrics.queueing.record(now - message.arrived);
                received = Some(*message);
                message.arrived
            }
            Input::Control(ControlMessage::Settings(settings)) => {
                self.settings = Arc::clone(settings);
                self.transactions
                    .reconfigure(settings.timers, limits(settings));
                self.probes.configure(self.worker, settings, now);
                self.servers.configure(settings, now);
                self.registrations.configure(self.worker, settings, now);
                self.proxy.follow_limits(settings, now);
                now
            }
            Input::Control(ControlMessage::Trace(order)) => {
                self.trace(order);
                now
            }
            _ => now,
        };
        self.with_worker((arrived, now), output, |worker| {
            match input {
                Input::Received(message) => pipeline::receive(worker, message),
                Input::Undeliverable(message) => undeliverable::receive(worker, &message),
                Input::ConnectionEnded(flow) => worker.registered.end_bindings(&worker.parts, flow),
                Input::Control(message) => pipeline::control(worker, message),
            }
            received = received.filter(|_| !worker.is_ignored);
        });
        self.finish(now, mark, received, output);
    }

    fn urgency(&self, flow: Flow, bytes: &[u8]) -> Urgency {
        match classify::urgency(bytes, self.settings.proxy.record_route) {
            // A trunk has no credentials to show.
            Urgency::New if self.settings.proxy.trusted_peers.contains(flow.remote.ip()) => {
                Urgency::Proven
            }
            urgency => urgency,
        }
    }

    fn refuse(&mut self, now: Time, message: Received<'_>, output: &mut Output<Question, Record>) {
        let (mark, mut received) = (self.mark(output), None);
        self.metrics.queueing.record(now - message.arrived);
        self.with_worker((message.arrived, now), output, |worker| {
            pipeline::refuse(worker, message);
            received = (!worker.is_ignored).then_some(message);
        });
        self.finish(now, mark, received, output);
    }

    fn expire(&mut self, now: Time, output: &mut Output<Question, Record>) {
        let mark = self.mark(output);
        self.with_worker((now, now), output, |worker| {
            worker
                .parts
                .transactions
                .expire(now, worker.parts.output, worker.events);
            for event in worker.events.drain(..) {
                // Probes and registrations have deadlines of their own.
                if let Event::ClientTimeout { id, owner } = event {
                    worker.proxy.client_timeout(&mut worker.parts, id, owner);
                }
            }
            worker.proxy.expire(&mut worker.parts);
            parking::expire(worker);
            probes::expire(worker);
            named_servers::expire(worker);
            registrations::expire(worker);
            worker.held.expire(&mut worker.parts);
        });
        self.finish(now, mark, None, output);
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.transactions.next_deadline(),
            self.proxy.next_deadline(),
            self.parked.next_deadline(),
            self.held.next_deadline(),
            self.probes.next_deadline(),
            self.servers.next_deadline(),
            self.registrations.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        servers: settings.limits.server_transactions,
        clients: settings.limits.client_transactions,
        bytes: settings.limits.held_bytes,
        amplification: settings.limits.amplification,
    }
}
