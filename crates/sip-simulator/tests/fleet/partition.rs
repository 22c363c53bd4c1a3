//! A fleet of two nodes, of which one does not reach the store for a minute while all phones register again and again.

use super::plan::{FleetFault, build, go_wrong};
use super::store::Field;
use super::{EDGES, FleetMachine, FleetPlan, Planted};
use sip_simulator::{Action, Dice, Machine as _, World};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The hosts of the nodes.
const NODES: [usize; 2] = [EDGES, EDGES + 1];
const PHONES: usize = 500;
/// How often each phone registers.
const TIMES: u32 = 48;
/// No phone registers later: its retransmissions would end after the partition.
const REGISTERS: Duration = Duration::from_secs(56);
/// How long one node is cut off.
const CUT: Duration = Duration::from_secs(60);
/// Until the phones have registered for the first time, and their bindings are everywhere.
const BEGINNING: Duration = Duration::from_secs(10);
/// The nodes are compared so often after the partition.
const STEP: Duration = Duration::from_millis(10);
/// They are equal by then.
const SOON: Duration = Duration::from_secs(1);
/// The longest time that is waited for it.
const LONGEST: Duration = Duration::from_secs(5);

/// What happened.
#[derive(Debug)]
pub struct Partition {
    /// Changes of bindings at each node while the other did not hear of them.
    pub changes: [u64; 2],
    /// Bindings that changed at both nodes meanwhile.
    pub at_both: usize,
    /// Bindings that differed at its end.
    pub different: usize,
    /// From its end until both nodes had the same bindings. `None`: they differed for 5 s.
    pub equal_after: Option<Duration>,
}

impl Partition {
    /// Whether both sides changed a lot, in part the same, and agreed soon afterwards.
    pub fn is_severe_and_over(&self) -> bool {
        self.changes.iter().all(|it| *it >= 10_000)
            && self.at_both > 100
            && self.different > 500
            && self.equal_after.is_some_and(|took| took < SOON)
    }
}

/// The changes of each binding at each node.
type Changes = [BTreeMap<Field, u64>; 2];

fn changes(world: &World<FleetMachine>) -> Changes {
    NODES.map(|node| world.machine(node).changes().clone())
}

/// How many bindings one node has and the other one has not.
fn different(world: &World<FleetMachine>) -> usize {
    let bound = |node| world.machine(node).bound_contacts(world.now());
    let [first, second] = NODES.map(|node| BTreeSet::from_iter(bound(node)));
    first.symmetric_difference(&second).count()
}

/// Runs a partition in which all phones register again and again. Once, each phone restarts: its Call-ID is another one, which leads to
/// the same node or to the other one.
pub fn part(seed: u64) -> (World<FleetMachine>, Partition) {
    let plan = FleetPlan::of_a_partition(seed, PHONES);
    let (mut world, fleet) = build(&plan, Planted::Nothing);
    world.run_for(BEGINNING);
    let before = changes(&world);
    let mut dice = Dice::new(seed, "partition");
    let cut_off = NODES[usize::from(dice.chance(500))];
    go_wrong(&mut world, &fleet, &FleetFault::CutFromStore(cut_off, CUT));
    for phone in 0..PHONES {
        for _ in 0..TIMES {
            world.perform_in(
                dice.span(Duration::ZERO, REGISTERS),
                phone,
                Action::Register,
            );
        }
        let restart = dice.span(CUT / 4, CUT * 3 / 4);
        let port = world.phone(phone).address().port();
        for action in [Action::Vanish, Action::Return(port), Action::Register] {
            world.perform_in(restart, phone, action);
        }
    }
    world.run_for(CUT.saturating_sub(STEP));
    let different_before = different(&world);
    world.run_for(STEP);
    let partition = Partition {
        different: different_before,
        ..tell_apart(&before, &changes(&world))
    };
    let ended = world.now();
    while different(&world) > 0 && world.now().saturating_since(ended) < LONGEST {
        world.run_for(STEP);
    }
    let took = world.now().saturating_since(ended);
    let equal_after = (different(&world) == 0).then_some(took);
    world.run_until_quiet();
    (
        world,
        Partition {
            equal_after,
            ..partition
        },
    )
}

/// What has changed since then.
fn tell_apart(before: &Changes, after: &Changes) -> Partition {
    let since = |node: usize| {
        let of = |(field, count): (&Field, &u64)| {
            let before = before[node].get(field).copied().unwrap_or(0);
            (*count > before).then(|| (field.clone(), count - before))
        };
        after[node]
            .iter()
            .filter_map(of)
            .collect::<BTreeMap<_, _>>()
    };
    let [first, second] = [since(0), since(1)];
    Partition {
        changes: [first.values().sum(), second.values().sum()],
        at_both: first.keys().filter(|it| second.contains_key(*it)).count(),
        different: 0,
        equal_after: None,
    }
}
