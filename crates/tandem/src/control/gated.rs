//! A server for tests whose workers can be held up, and answer nothing. A test can answer in their place.
use super::running::Running;
use super::state::Control;
use super::tables;
use crate::calls::sample;
use crate::config::{self, Configuration};
use arc_swap::ArcSwap;
use sip_dialog::{DialogDetails, DialogId, Leg, PartyDetails};
use sip_elements::{ControlMessage, DialogAnswer, DialogOutcome, FoundDialog, Question};
use sip_runtime::{Options, Runtime, SharedPeerPolicy};
use sip_transport::{Flow, Input, Listener, ListenerId, Node, Output, Protocol, Time};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tandem_store::Store;
use tokio::sync::RwLock;

/// Records the last order to drain; accepts nothing while `gate` is held.
struct Gated {
    gate: Arc<RwLock<()>>,
    taken: Arc<AtomicBool>,
}

impl Node for Gated {
    type Question = Question;
    type Record = std::convert::Infallible;
    type Control = ControlMessage;

    fn handle(&mut self, _: Time, input: Input<'_, ControlMessage>, _: &mut Output<Question>) {
        let _open = self.gate.blocking_read();
        if let Input::Control(ControlMessage::Drain(on)) = input {
            self.taken.store(on, Ordering::SeqCst);
        }
    }

    fn expire(&mut self, _: Time, _: &mut Output<Question>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// A server with two workers and room for one answer each. The first worker waits at its gate.
pub(crate) struct Fixture {
    pub(crate) control: Control,
    pub(super) running: Arc<Running>,
    _workers: sip_runtime::Running<ControlMessage>,
    _directory: tempfile::TempDir,
    pub(super) gates: [Arc<RwLock<()>>; 2],
    draining: [Arc<AtomicBool>; 2],
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        let configuration = Configuration::default();
        let directory = tempfile::tempdir().expect("a directory");
        let database = format!("sqlite:{}", directory.path().join("t.db").display());
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
        let workers = Runtime::bind(vec![listener], NonZeroU16::new(2).expect("two"), options)
            .expect("a socket")
            .start(node, &|_, question| Err(question))
            .expect("threads");
        let running = Arc::new(Running {
            store: Store::open(&database).await.expect("a database"),
            tls: None,
            peer_policy: SharedPeerPolicy::new(config::peer_policy(&configuration)),
            shared: Arc::new(tables::shared(&configuration, &[7; 32])),
            metrics: Vec::new(),
            stats: workers.stats(),
            workers: workers.handle(),
            listeners: workers.listeners().to_vec(),
            policy: ArcSwap::default(),
            restored: 0,
        });
        let mut control = Control::new(None, configuration, None);
        control.order_patience = Duration::from_millis(50);
        control.publish(Arc::clone(&running));
        Self {
            control,
            running,
            _workers: workers,
            _directory: directory,
            gates,
            draining,
        }
    }

    /// The same server, with another time for orders and answers.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.control.order_patience = patience;
        self
    }

    /// Answers the request with this number in place of a worker.
    pub(crate) fn answer(&self, number: u64, outcome: DialogOutcome) {
        let answer = DialogAnswer { number, outcome };
        let sender = &self.control.dialog_answers.sender;
        sender.try_send(answer).expect("room");
    }

    /// Waits until both workers have followed the order.
    pub(super) async fn until_both_drain(&self, on: bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        let follows = |draining: &Arc<AtomicBool>| draining.load(Ordering::SeqCst) == on;
        while !self.draining.iter().all(follows) {
            assert!(Instant::now() < deadline, "{:?}", self.draining);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Fills the inbox of the first worker, which waits at its gate.
    pub(super) async fn fill_first_inbox(&self) {
        // It takes one out and waits with it; then there is room for one more.
        for _ in 0..2 {
            while self.running.workers.send(0, ControlMessage::Saved).is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// A dialog as a worker shows it.
pub(crate) fn found(number: u128, bytes: usize) -> FoundDialog {
    let call = sample::call(number);
    let party = PartyDetails {
        leg: Leg {
            flow: Flow::to(ListenerId(0), call.source),
            protocol: Protocol::Udp,
            is_by_flow: false,
        },
        target: Box::default(),
        route: Box::default(),
        last_cseq: 1,
    };
    let details = DialogDetails {
        call,
        is_confirmed: true,
        is_acknowledged: true,
        expires: None,
        caller: party.clone(),
        callee: Some(party),
        bytes,
    };
    let id = DialogId::NONE;
    FoundDialog { id, details }
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}
