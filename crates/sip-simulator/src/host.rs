//! One machine: its workers, the queues between them, and a control plane that answers their questions soon, late, or
//! never.
use crate::dice::Dice;
use crate::observe::{Account, BoundContact, Census, HostFacts, SavedDialog};
use sip_dialog::CallEvent;
use sip_transport::{Flow, HandOverKind, Node, Output, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The interval at which the control plane of a machine saves and sweeps, unless it says otherwise.
const HOUSEKEEPING: Duration = Duration::from_millis(250);

/// The questions that the node of a machine asks.
pub type QuestionOf<M> = <<M as Machine>::Node as Node>::Question;
/// The records that the node of a machine emits.
pub type RecordOf<M> = <<M as Machine>::Node as Node>::Record;
/// The output of a machine's nodes.
pub type OutputOf<M> = Output<QuestionOf<M>, RecordOf<M>>;
/// The answers to them.
pub type ControlOf<M> = <<M as Machine>::Node as Node>::Control;

/// A machine under test: how it starts, what its disk keeps, how its control plane answers, and what can be counted.
pub trait Machine {
    /// The node that each worker runs.
    type Node: Node;

    /// The facts about the machine that the invariants need.
    fn facts(&self) -> HostFacts;

    /// Starts the machine from its saved state: one node for each worker. `key` seeds the nodes' randomness.
    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Self::Node>;

    /// Simulates a power failure: all unsaved state is lost. `boot` follows.
    fn crash(&mut self, now: Time);

    /// The control plane's answer to a question. With `failing`, its store is not available.
    fn reply(&mut self, now: Time, question: &QuestionOf<Self>, failing: bool) -> ControlOf<Self>;

    /// Saves, sweeps, and gives orders to workers. Called at each [`housekeeping_interval`](Self::housekeeping_interval).
    fn housekeeping(&mut self, now: Time, orders: &mut Vec<(usize, ControlOf<Self>)>);

    /// How often [`housekeeping`](Self::housekeeping) is called.
    fn housekeeping_interval(&self) -> Duration {
        HOUSEKEEPING
    }

    /// Keeps what a node has recorded. Returns the change of a call, if it is one.
    fn keep(&mut self, now: Time, record: RecordOf<Self>) -> Option<CallEvent> {
        let _ = (now, record);
        None
    }

    /// The dialogs on its disk.
    fn saved_dialogs(&self) -> Vec<SavedDialog> {
        Vec::new()
    }

    /// Counts the entries in the tables of one worker.
    fn census(&self, node: &Self::Node) -> Census;

    /// Counts the bindings.
    fn bindings(&self) -> Account;

    /// The bindings in the registrar's view.
    fn bound_contacts(&self, now: Time) -> Vec<BoundContact>;
}

/// How the control plane behaves. Rates are per thousand.
#[derive(Clone, Copy, Debug)]
pub struct ControlManners {
    /// Minimum and maximum time from question to answer.
    pub delay: (Duration, Duration),
    /// Questions that are never answered.
    pub ignored: u32,
    /// Questions that are answered twice.
    pub doubled: u32,
    /// Questions that are answered with a failure.
    pub failing: u32,
}

impl ControlManners {
    /// Answers every question once, after two milliseconds.
    pub const PROMPT: Self = Self {
        delay: (Duration::from_millis(2), Duration::from_millis(2)),
        ignored: 0,
        doubled: 0,
        failing: 0,
    };

    /// Draws any behaviour, from prompt to hopeless.
    pub fn any(dice: &mut Dice) -> Self {
        if dice.chance(400) {
            return Self::PROMPT;
        }
        let rate = |dice: &mut Dice, most| u32::try_from(dice.range(0, most)).unwrap_or(0);
        let slowest = dice.span(Duration::from_millis(1), Duration::from_secs(4));
        Self {
            delay: (Duration::from_micros(200), slowest),
            ignored: rate(dice, 100),
            doubled: rate(dice, 100),
            failing: rate(dice, 100),
        }
    }
}

/// A message from a sibling worker.
pub(crate) struct HandedOver {
    pub(crate) kind: HandOverKind,
    pub(crate) arrived: Time,
    pub(crate) flow: Flow,
    pub(crate) bytes: Rc<[u8]>,
}

/// One worker: its node, its output, and its next wake-up.
pub(crate) struct Worker<N: Node> {
    pub(crate) node: N,
    pub(crate) output: Output<N::Question, N::Record>,
    pub(crate) wake: Option<Time>,
    /// Open questions by number, with the time at which each one's wait ends.
    pub(crate) outstanding: BTreeMap<u64, Time>,
    /// Messages that sibling workers handed over, in order.
    pub(crate) inbox: VecDeque<HandedOver>,
}

/// A machine in the world.
pub(crate) struct Host<M: Machine> {
    pub(crate) machine: M,
    pub(crate) facts: HostFacts,
    pub(crate) manners: ControlManners,
    pub(crate) dice: Dice,
    /// Empty while the machine is down.
    pub(crate) workers: Vec<Worker<M::Node>>,
    /// Whether its system lives on while its process is down, and returns datagrams with an ICMP error.
    pub(crate) returns_datagrams: bool,
    /// Counts the starts, to recognise events that were planned for an earlier life.
    pub(crate) life: u32,
    /// Nothing runs on the machine before this time.
    pub(crate) stalled_until: Time,
    /// The control plane answers nothing before this time.
    pub(crate) control_away_until: Time,
}

impl<M: Machine> Host<M> {
    pub(crate) fn new(machine: M, manners: ControlManners, dice: Dice, now: Time) -> Self {
        let facts = machine.facts();
        let workers = Vec::new();
        Self {
            machine,
            facts,
            manners,
            dice,
            workers,
            returns_datagrams: false,
            life: 0,
            stalled_until: now,
            control_away_until: now,
        }
    }

    pub(crate) const fn is_up(&self) -> bool {
        !self.workers.is_empty()
    }

    pub(crate) fn boot(&mut self, now: Time) {
        let key = self.dice.key();
        self.life += 1;
        let worker = |node| Worker {
            node,
            output: Output::default(),
            wake: None,
            outstanding: BTreeMap::new(),
            inbox: VecDeque::new(),
        };
        self.workers = self
            .machine
            .boot(now, key)
            .into_iter()
            .map(worker)
            .collect();
    }

    pub(crate) fn crash(&mut self, now: Time) {
        self.workers.clear();
        self.machine.crash(now);
    }

    /// The worker whose socket the kernel picks for a datagram: a hash of both addresses.
    pub(crate) fn worker_for(&self, source: SocketAddr, destination: SocketAddr) -> usize {
        let key = crate::observe::hash(&[
            source.to_string().as_bytes(),
            destination.to_string().as_bytes(),
        ]);
        let count = u64::try_from(self.workers.len()).unwrap_or(1).max(1);
        usize::try_from(key % count).unwrap_or(0)
    }
}
