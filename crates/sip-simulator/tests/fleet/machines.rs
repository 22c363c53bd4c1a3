//! The machines of a fleet.

use super::bindings::SharedBindings;
use super::dialogs::SharedDialogs;
use super::process::{FleetControl, FleetQuestion, Process, Worker};
use super::store::Field;
use super::{Planted, SharedFleet};
use crate::exchange::ExchangeMachine;
use sip_dialog::CallEvent;
use sip_elements::{ControlMessage, Record};
use sip_message::KeyHasher;
use sip_simulator::{
    Account, BoundContact, Bounds, Census, HostFacts, HostPlan, Machine, host_address,
};
use sip_transport::{Listener, Output, Protocol, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{
    Control, Edge, EdgeMetrics, EdgeOptions, Members, Settings, Shared, Unanswered,
};

const SECRET: KeyHasher = KeyHasher::new((11, 12));
const EDGE_WORKERS: u16 = 2;
const HOUSEKEEPING: Duration = Duration::from_millis(50);
/// How often the answer to a write is lost, per thousand.
const LOST_ANSWERS: u32 = 20;

/// A machine of the fleet.
pub enum FleetMachine {
    Edge(EdgeMachine),
    Node(Box<NodeMachine>),
}

/// The machine of an edge.
pub struct EdgeMachine {
    fleet: SharedFleet,
    address: SocketAddr,
    settings: Arc<Settings>,
    members: Arc<Members>,
    generation: u64,
    ahead: Duration,
}

/// The machine of a node.
pub struct NodeMachine {
    fleet: SharedFleet,
    host: usize,
    exchange: ExchangeMachine,
    workers: u16,
    bindings: SharedBindings,
    dialogs: SharedDialogs,
    /// The data that it is connected to, as long as it is.
    epoch: Option<u64>,
    next_exchange: Time,
    is_draining: bool,
    orders: Vec<(usize, ControlMessage)>,
    ahead: Duration,
}

fn listener(address: SocketAddr) -> Listener {
    Listener {
        protocol: Protocol::Udp,
        address,
        prefix_length: 8,
        advertised: address.to_string(),
        behind_balancer: false,
    }
}

impl FleetMachine {
    /// The edge that is the host with this index.
    pub fn edge(host: usize, ahead: Duration, fleet: SharedFleet) -> Self {
        let address = host_address(host, false);
        let settings = Arc::new(Settings::new(vec![listener(address)]));
        let (members, generation) = {
            let fleet = fleet.borrow();
            (fleet.members.clone(), fleet.generation)
        };
        let members = Members::new(members, &settings, EDGE_WORKERS, None).expect("a set");
        Self::Edge(EdgeMachine {
            fleet,
            address,
            settings,
            members: Arc::new(members),
            generation,
            ahead,
        })
    }

    /// The node that is the host with this index. All nodes have the same secrets and subscribers, so their plans differ in the address only.
    pub fn node(host: usize, plan: &HostPlan, ahead: Duration, fleet: SharedFleet) -> Self {
        let plan = HostPlan {
            listeners: vec![host_address(host, false)],
            ..plan.clone()
        };
        let mut exchange = ExchangeMachine::new(&plan);
        exchange.is_of_fleet = true;
        let mut settings = (*exchange.settings).clone();
        settings.dialogs.adopts = true;
        settings.fleet = Some(SECRET);
        exchange.settings = Arc::new(settings);
        if fleet.borrow().planted == Planted::Estranged {
            exchange.hasher = KeyHasher::new((host as u64, 7));
        }
        Self::Node(Box::new(NodeMachine {
            host,
            workers: plan.workers,
            bindings: SharedBindings::new(host),
            dialogs: SharedDialogs::new(host, plan.workers, exchange.hasher),
            exchange,
            epoch: None,
            next_exchange: Time::default(),
            is_draining: false,
            orders: Vec::new(),
            ahead,
            fleet,
        }))
    }

    /// How often each binding has changed at this node.
    pub fn changes(&self) -> &BTreeMap<Field, u64> {
        match self {
            Self::Edge(_) => panic!("an edge has no bindings"),
            Self::Node(node) => node.bindings.changes(),
        }
    }
}

impl EdgeMachine {
    fn facts(&self) -> HostFacts {
        HostFacts {
            domain: "edge.test".to_owned(),
            listeners: vec![self.address],
            outbound: None,
            relays: true,
            challenged: Vec::new(),
            description_mark: None,
            session_timers: false,
            // An edge holds nothing for clients that repeat their requests themselves.
            bounds: Bounds {
                servers: 0,
                clients: 0,
                contexts: 0,
                dialogs: 0,
                parked: 0,
                held_bytes: 0,
                bindings: 0,
                // A round of probes.
                fan_out: self.fleet.borrow().members.len(),
                t1: Duration::from_millis(500),
                invite_answered: Duration::MAX,
                other_answered: Duration::MAX,
                question_deadline: Duration::ZERO,
                response_waits: Duration::ZERO,
                write_behind: Duration::ZERO,
                save_window: Duration::ZERO,
                dialog_lifetime: Duration::MAX,
            },
        }
    }

    fn boot(&mut self, now: Time) -> Vec<Process> {
        let members = self.fleet.borrow().members.clone();
        self.generation = self.fleet.borrow().generation;
        let members = Members::new(members, &self.settings, EDGE_WORKERS, None).expect("a set");
        self.members = Arc::new(members);
        let shared = Arc::new(Shared {
            hasher: SECRET,
            unanswered: Unanswered::new(1 << 20),
        });
        let worker = |worker| {
            let edge = Edge::new(EdgeOptions {
                worker,
                shared: Arc::clone(&shared),
                settings: Arc::clone(&self.settings),
                members: Arc::clone(&self.members),
                metrics: Arc::new(EdgeMetrics::default()),
                now: now + self.ahead,
            });
            Process {
                worker: Worker::Edge(Box::new(edge), Output::default()),
                ahead: self.ahead,
                loses: None,
            }
        };
        (0..EDGE_WORKERS).map(worker).collect()
    }

    /// Gives the workers the set of the controller.
    fn housekeeping(&mut self, orders: &mut Vec<(usize, FleetControl)>) {
        let fleet = self.fleet.borrow();
        if fleet.generation == self.generation {
            return;
        }
        self.generation = fleet.generation;
        let members = fleet.members.clone();
        let previous = Some(&*self.members);
        let members = Members::new(members, &self.settings, EDGE_WORKERS, previous);
        self.members = Arc::new(members.expect("a set"));
        for worker in 0..usize::from(EDGE_WORKERS) {
            let order = Control::Members(Arc::clone(&self.members));
            orders.push((worker, FleetControl::Edge(order)));
        }
    }
}

impl NodeMachine {
    /// Starts with what the store has.
    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Process> {
        let now = now + self.ahead;
        let nodes = self.exchange.boot(now, key);
        self.bindings = SharedBindings::new(self.host);
        self.dialogs = SharedDialogs::new(self.host, self.workers, self.exchange.hasher);
        self.orders.clear();
        self.is_draining = false;
        let fleet = self.fleet.borrow();
        let locations = &self.exchange.shared.locations;
        self.bindings.compare(&fleet.store, locations, now);
        self.dialogs.restore(&fleet.store, &mut self.orders);
        self.epoch = Some(fleet.store.epoch);
        let has = |planted| fleet.planted == planted;
        let lost = [
            (Planted::LosesByes, &b"BYE "[..]),
            (Planted::LosesAcks, b"ACK "),
        ];
        let loses = lost
            .into_iter()
            .find_map(|(planted, method)| has(planted).then_some(method));
        let process = |node| Process {
            worker: Worker::Node(Box::new(node), Output::default()),
            ahead: self.ahead,
            loses,
        };
        nodes.into_iter().map(process).collect()
    }

    fn housekeeping(&mut self, world: Time, orders: &mut Vec<(usize, FleetControl)>) {
        let now = world + self.ahead;
        let locations = &self.exchange.shared.locations;
        locations.sweep(now);
        self.bindings.stamp(locations, now);
        self.exchange_with_store(world);
        let wants_drain = self.fleet.borrow().draining.contains(&self.host);
        if wants_drain != self.is_draining {
            self.is_draining = wants_drain;
            let workers = 0..usize::from(self.workers);
            let drain = |worker| (worker, ControlMessage::Drain(wants_drain));
            self.orders.extend(workers.map(drain));
        }
        let given = self.orders.drain(..);
        orders.extend(given.map(|(worker, order)| (worker, FleetControl::Node(order))));
    }

    fn exchange_with_store(&mut self, world: Time) {
        let now = world + self.ahead;
        let mut fleet = self.fleet.borrow_mut();
        let fleet = &mut *fleet;
        if !fleet.store_answers(self.host, world) {
            self.epoch = None;
            return;
        }
        if world < self.next_exchange {
            return;
        }
        self.next_exchange = world + fleet.dice.span(Duration::ZERO, fleet.slowest);
        let locations = &self.exchange.shared.locations;
        let store = &mut fleet.store;
        let is_deaf = fleet.planted == Planted::Deaf;
        if self.epoch != Some(store.epoch) {
            self.epoch = Some(store.epoch);
            self.bindings.compare(store, locations, now);
            self.dialogs.write_all();
        } else if !is_deaf {
            self.bindings.read(store, locations, now);
        }
        let is_answered = !fleet.dice.chance(LOST_ANSWERS);
        self.bindings.write(store, is_answered);
        self.dialogs.exchange(store, &mut self.orders);
        if !is_answered {
            self.epoch = None;
        }
    }

    fn keep(&mut self, record: Record) -> Option<CallEvent> {
        match record {
            Record::Call(event) => return Some(event),
            Record::Dialog { id, state, .. } => self.dialogs.change(id, state),
            Record::Missed(missed) => self.dialogs.miss(missed),
            Record::Notice(_) | Record::Dialogs(_) | Record::Traced(_) => {}
        }
        None
    }
}

impl Machine for FleetMachine {
    type Node = Process;

    fn facts(&self) -> HostFacts {
        match self {
            Self::Edge(edge) => edge.facts(),
            Self::Node(node) => node.exchange.facts(),
        }
    }

    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Process> {
        match self {
            Self::Edge(edge) => edge.boot(now),
            Self::Node(node) => node.boot(now, key),
        }
    }

    fn crash(&mut self, _: Time) {}

    fn reply(&mut self, now: Time, question: &FleetQuestion, failing: bool) -> FleetControl {
        match (self, question) {
            (Self::Node(node), FleetQuestion::Node(question)) => {
                let now = now + node.ahead;
                FleetControl::Node(node.exchange.reply(now, question, failing))
            }
            // No next hop of a fleet is a name.
            (_, FleetQuestion::Edge(question)) => FleetControl::Edge(Control::Resolved {
                question: question.clone(),
                candidate: None,
            }),
            (Self::Edge(_), FleetQuestion::Node(_)) => {
                unreachable!("an edge asks its own questions")
            }
        }
    }

    fn housekeeping(&mut self, now: Time, orders: &mut Vec<(usize, FleetControl)>) {
        match self {
            Self::Edge(edge) => edge.housekeeping(orders),
            Self::Node(node) => node.housekeeping(now, orders),
        }
    }

    fn housekeeping_interval(&self) -> Duration {
        HOUSEKEEPING
    }

    fn keep(&mut self, _: Time, record: Record) -> Option<CallEvent> {
        match self {
            Self::Edge(_) => None,
            Self::Node(node) => node.keep(record),
        }
    }

    fn census(&self, process: &Process) -> Census {
        match (self, &process.worker) {
            (Self::Node(node), Worker::Node(exchange, _)) => node.exchange.census(exchange),
            _ => Census::default(),
        }
    }

    fn bindings(&self) -> Account {
        match self {
            Self::Edge(_) => Account::default(),
            Self::Node(node) => node.exchange.bindings(),
        }
    }

    fn bound_contacts(&self, now: Time) -> Vec<BoundContact> {
        match self {
            Self::Edge(_) => Vec::new(),
            Self::Node(node) => node.exchange.bound_contacts(now + node.ahead),
        }
    }
}
