//! A whole fleet: edges, the nodes behind them, and a store that the nodes share. Phones talk to the edges only.

mod bindings;
mod dialogs;
mod machines;
pub mod partition;
mod plan;
mod process;
mod store;

pub use machines::FleetMachine;
pub use plan::{FleetPlan, run, simulate};

use sip_simulator::{Dice, host_address};
use sip_transport::Time;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use store::Store;
use tandem_balancer::Member;

/// The first hosts of a world are edges, and the rest are nodes.
pub const EDGES: usize = 2;

/// A fault of the fleet that lasts, to show that a rule can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// None.
    Nothing,
    /// Nodes have secrets of their own.
    Estranged,
    /// Nodes never send a BYE.
    LosesByes,
    /// Nodes never send an ACK.
    LosesAcks,
    /// Nodes do not read what others have written.
    Deaf,
}

/// What the machines of a fleet share.
pub struct Fleet {
    pub planted: Planted,
    pub store: Store,
    /// The set that the controller gives to the edges, and its generation.
    pub members: Vec<Member>,
    pub generation: u64,
    /// The nodes that refuse new calls.
    pub draining: BTreeSet<usize>,
    /// Until when the store does not answer a node.
    pub store_away: BTreeMap<usize, Time>,
    /// The longest time between two exchanges with the store.
    pub slowest: Duration,
    pub dice: Dice,
}

/// The fleet, for each of its machines and for the plan.
pub type SharedFleet = Rc<RefCell<Fleet>>;

impl Fleet {
    fn new(plan: &FleetPlan, planted: Planted) -> SharedFleet {
        let members = (EDGES..EDGES + plan.nodes).map(|host| Member {
            identity: format!("node-{host}"),
            number: u32::try_from(host).expect("a small number"),
            address: host_address(host, false),
            has_tcp: false,
            is_draining: false,
        });
        Rc::new(RefCell::new(Self {
            planted,
            store: Store::default(),
            members: members.collect(),
            generation: 0,
            draining: BTreeSet::new(),
            store_away: BTreeMap::new(),
            slowest: plan.slowest_store,
            dice: Dice::new(plan.seed, "store"),
        }))
    }

    /// Whether the store answers a node.
    fn store_answers(&self, host: usize, now: Time) -> bool {
        self.store_away.get(&host).is_none_or(|until| *until <= now)
    }

    /// Tells the edges whether a node drains.
    fn set_draining(&mut self, host: usize, is_draining: bool) {
        self.members[host - EDGES].is_draining = is_draining;
        self.generation += 1;
    }
}
