//! The decisions of a seed for a whole fleet, and the run that carries them out.

use super::partition::part;
use super::{EDGES, Fleet, FleetMachine, Planted, SharedFleet};
use sip_simulator::{
    Action, Answering, CallPlan, ControlManners, Dice, Fault, HostPlan, Outcome, Profile, Weather,
    World, host_address, invariants, phone_address,
};
use sip_transport::Time;
use std::time::Duration;

/// How long there is traffic, and faults.
const TRAFFIC: Duration = Duration::from_secs(240);
/// How long calls of an hour, and the faults around them, last.
const HOUR: Duration = Duration::from_secs(3_600);
/// Of so many seeds, one has calls of an hour, and one a partition.
const RARE: u64 = 50;
/// The seeds with a partition, modulo [`RARE`].
const PARTITION: u64 = 25;
/// When the traffic of all plans begins.
const START: Time = Time::from_unix_seconds(1_750_000_000);
/// When the phones have registered.
const BEGINNING: Duration = Duration::from_secs(5);
/// What the fleet needs to notice a fault that is over: another one begins only then.
const RECOVERY: Duration = Duration::from_secs(4);

/// All decisions of a seed.
#[derive(Clone, Debug)]
pub struct FleetPlan {
    pub seed: u64,
    pub start: Time,
    /// How long there is traffic, and faults.
    traffic: Duration,
    pub nodes: usize,
    /// The node that all others differ from in the address only.
    pub node: HostPlan,
    /// How far the clock of each host is ahead.
    pub ahead: Vec<Duration>,
    pub slowest_store: Duration,
    pub weather: Weather,
    pub phones: Vec<Profile>,
    pub calls: Vec<(Duration, usize, CallPlan)>,
    /// In order.
    pub faults: Vec<(Duration, FleetFault)>,
}

/// A step of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetFault {
    /// A fault of one host.
    Of(Fault),
    /// The store does not answer this host for this long.
    CutFromStore(usize, Duration),
    /// The store loses its data.
    EmptyStore,
    /// The controller tells the edges whether a node drains.
    Announce(usize, bool),
    /// A node begins to refuse new calls, or stops.
    Drain(usize, bool),
}

impl FleetPlan {
    /// Makes all decisions of the seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, "fleet");
        let nodes = number(dice.range(2, 3));
        let count = number(dice.range(6, 10));
        let users: Vec<String> = (0..count).map(|phone| format!("user{phone}")).collect();
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        let workers = u16::try_from(dice.range(1, 2)).expect("a small number");
        let millis = Duration::from_millis;
        let differ = dice.chance(600);
        let mut ahead = |_| {
            let ahead = dice.span(Duration::ZERO, Duration::from_secs(60));
            if differ { ahead } else { Duration::ZERO }
        };
        let ahead = (0..EDGES + nodes).map(&mut ahead).collect();
        let mut plan = Self {
            seed,
            start: START,
            traffic: TRAFFIC,
            nodes,
            node: HostPlan::simple(0, workers, &users),
            ahead,
            slowest_store: dice.span(Duration::ZERO, millis(200)),
            weather: Weather {
                loss: u32::try_from(dice.below(30)).expect("a rate"),
                duplication: u32::try_from(dice.below(20)).expect("a rate"),
                delay: dice.span(millis(1), millis(15)),
                jitter: dice.span(Duration::ZERO, millis(10)),
                ..Weather::CALM
            },
            phones: (0..count)
                .map(|phone| profile(&mut dice, phone, &users))
                .collect(),
            calls: Vec::new(),
            faults: Vec::new(),
        };
        plan.calls = calls(&mut dice, count);
        plan.faults = faults(&mut dice.fork("faults of the fleet"), &plan);
        plan
    }

    /// Calls of an hour that begin in the first minute, and faults as long as they last. Their phones offer each other new sessions meanwhile.
    pub fn of_an_hour(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut dice = Dice::new(seed, "an hour");
        let callers: Vec<usize> = (0..plan.phones.len()).step_by(2).collect();
        let call = |caller: usize| {
            let callee = (caller + 1) % plan.phones.len();
            let call = CallPlan {
                to: format!("sip:user{callee}@host0.test"),
                patience: Duration::from_secs(90),
                talk: HOUR,
                renegotiates: true,
            };
            (dice.span(BEGINNING, BEGINNING * 12), caller, call)
        };
        let mut calls: Vec<_> = callers.into_iter().map(call).collect();
        calls.sort_by_key(|(at, ..)| *at);
        plan.calls = calls;
        // Where phones have no session timers, nothing refreshes the dialog for half an hour.
        plan.node.dialog_lifetime = HOUR * 2;
        plan.traffic = HOUR;
        plan.faults = faults(&mut dice.fork("faults"), &plan);
        plan
    }

    /// Two nodes and so many phones, which make no calls. The test adds what else happens.
    pub fn of_a_partition(seed: u64, phones: usize) -> Self {
        let mut plan = Self::new(seed);
        let mut dice = Dice::new(seed, "phones");
        let users: Vec<String> = (0..phones).map(|phone| format!("user{phone}")).collect();
        let users: Vec<&str> = users.iter().map(String::as_str).collect();
        plan.nodes = 2;
        plan.ahead.truncate(EDGES + plan.nodes);
        plan.node = HostPlan::simple(0, 1, &users);
        let phones = (0..phones).map(|phone| profile(&mut dice, phone, &users));
        plan.phones = phones.collect();
        plan.calls.clear();
        plan.faults.clear();
        plan
    }
}

fn number(number: u64) -> usize {
    usize::try_from(number).expect("a small number")
}

fn profile(dice: &mut Dice, phone: usize, users: &[&str]) -> Profile {
    let after = dice.span(Duration::ZERO, Duration::from_secs(6));
    let edge = host_address(number(dice.below(EDGES as u64)), false);
    Profile {
        answering: vec![
            (8, Answering::Accept { after }),
            (1, Answering::Refuse { after, status: 486 }),
        ],
        // Also if the clock of a node is a minute ahead, it is refreshed in time.
        expires: u32::try_from(dice.range(500, 900)).expect("seconds"),
        hides_behind_rport: dice.chance(300),
        authorizes_unasked: dice.chance(500),
        ..Profile::new(
            users[phone],
            "host0.test",
            phone_address(phone, false),
            edge,
        )
    }
}

fn calls(dice: &mut Dice, phones: usize) -> Vec<(Duration, usize, CallPlan)> {
    let phones = phones as u64;
    let call = |dice: &mut Dice| {
        let caller = dice.below(phones);
        let callee = (caller + dice.range(1, phones - 1)) % phones;
        let is_long = dice.chance(250);
        let longest = Duration::from_secs(if is_long { 180 } else { 30 });
        let plan = CallPlan {
            to: format!("sip:user{callee}@host0.test"),
            patience: Duration::from_secs(90),
            talk: dice.span(Duration::from_secs(1), longest),
            renegotiates: dice.chance(300),
        };
        (dice.span(BEGINNING, TRAFFIC), number(caller), plan)
    };
    let mut calls: Vec<_> = (0..80).map(|_| call(dice)).collect();
    calls.sort_by_key(|(at, ..)| *at);
    calls
}

/// One fault after the other. Many processes die just when a call is being set up or ended.
fn faults(dice: &mut Dice, plan: &FleetPlan) -> Vec<(Duration, FleetFault)> {
    let mut faults = Vec::new();
    let mut at = BEGINNING;
    loop {
        at += dice.span(Duration::ZERO, Duration::from_secs(8));
        let next_call = plan.calls.iter().find(|(call, ..)| *call > at);
        if let Some((call, ..)) = next_call.filter(|_| dice.chance(700)) {
            let moment = dice.span(Duration::ZERO, Duration::from_millis(250));
            let moment = moment + plan.weather.delay * u32::try_from(dice.below(12)).unwrap_or(0);
            at = *call + moment;
        }
        if at > plan.traffic {
            return faults;
        }
        at = fault(dice, plan, at, &mut faults) + RECOVERY;
    }
}

/// Adds one fault. Returns when it is over.
fn fault(
    dice: &mut Dice,
    plan: &FleetPlan,
    at: Duration,
    faults: &mut Vec<(Duration, FleetFault)>,
) -> Duration {
    let seconds = Duration::from_secs;
    let edge = number(dice.below(EDGES as u64));
    let node = EDGES + number(dice.below(plan.nodes as u64));
    let down = dice.span(Duration::from_millis(100), seconds(6));
    match dice.below(10) {
        0..=2 => faults.push((at, FleetFault::Of(Fault::Kill(node, down)))),
        3 => faults.push((at, FleetFault::Of(Fault::Crash(node, down)))),
        4 => faults.push((at, FleetFault::Of(Fault::Kill(edge, down)))),
        5 => faults.push((at, FleetFault::Of(Fault::Stall(node, down)))),
        6 => faults.push((at, FleetFault::Of(Fault::Stall(edge, down / 4)))),
        7 => {
            let cut = down * 4;
            let hosts = EDGES..EDGES + plan.nodes;
            let alone = dice.chance(500).then_some(node);
            let hosts = hosts.filter(|host| alone.is_none_or(|alone| alone == *host));
            faults.extend(hosts.map(|host| (at, FleetFault::CutFromStore(host, cut))));
            return at + cut;
        }
        8 => faults.push((at, FleetFault::EmptyStore)),
        _ => {
            let told = at + seconds(1);
            let killed = told + dice.span(seconds(1), seconds(10));
            faults.push((at, FleetFault::Announce(node, true)));
            faults.push((told, FleetFault::Drain(node, true)));
            faults.push((killed, FleetFault::Of(Fault::Kill(node, down))));
            faults.push((killed, FleetFault::Drain(node, false)));
            faults.push((killed + down, FleetFault::Announce(node, false)));
            return killed + down;
        }
    }
    at + down
}

/// Builds the world of a plan: its machines and phones, and what the phones will do.
pub fn build(plan: &FleetPlan, planted: Planted) -> (World<FleetMachine>, SharedFleet) {
    let fleet = Fleet::new(plan, planted);
    let mut world = World::new(plan.seed, plan.start, invariants::of_a_whole_fleet());
    world.set_weather(plan.weather);
    for (host, ahead) in plan.ahead.iter().enumerate() {
        let fleet = SharedFleet::clone(&fleet);
        let machine = if host < EDGES {
            FleetMachine::edge(host, *ahead, fleet)
        } else {
            FleetMachine::node(host, &plan.node, *ahead, fleet)
        };
        world.add_host(machine, ControlManners::PROMPT);
    }
    for (phone, profile) in plan.phones.iter().enumerate() {
        let edge = usize::from(profile.server == host_address(1, false));
        world.add_phone(profile.clone(), edge, true);
        world.perform_in(Duration::from_millis(600), phone, Action::Register);
    }
    for (at, phone, call) in &plan.calls {
        world.perform_in(*at, *phone, Action::Call(call.clone()));
    }
    (world, fleet)
}

pub(super) fn go_wrong(world: &mut World<FleetMachine>, fleet: &SharedFleet, fault: &FleetFault) {
    world.note(format!("{fault:?}"));
    let now = world.now();
    let mut fleet = fleet.borrow_mut();
    match fault {
        FleetFault::Of(fault) => {
            // A process that stands still does not reach the store either.
            if let Fault::Stall(host, duration) = fault {
                fleet.store_away.insert(*host, now + *duration);
            }
            world.fault_in(Duration::ZERO, fault.clone());
        }
        FleetFault::CutFromStore(host, duration) => {
            fleet.store_away.insert(*host, now + *duration);
        }
        FleetFault::EmptyStore => fleet.store.empty(),
        FleetFault::Announce(host, is_draining) => fleet.set_draining(*host, *is_draining),
        FleetFault::Drain(host, true) => {
            fleet.draining.insert(*host);
        }
        FleetFault::Drain(host, false) => {
            fleet.draining.remove(host);
        }
    }
}

/// Runs the world of a plan with its faults, until everything is quiet.
pub fn run(plan: &FleetPlan, planted: Planted) -> World<FleetMachine> {
    let (mut world, fleet) = build(plan, planted);
    for (at, fault) in &plan.faults {
        let wait = (plan.start + *at).saturating_since(world.now());
        world.run_for(wait);
        if world.violation().is_some() {
            break;
        }
        go_wrong(&mut world, &fleet, fault);
    }
    let end = plan.start + plan.traffic + Duration::from_secs(60);
    let left = end.saturating_since(world.now());
    world.run_for(left);
    world.run_until_quiet();
    world
}

/// Runs a seed under all invariants of a fleet. A few seeds have calls of an hour, or a partition instead of calls.
pub fn simulate(seed: u64, planted: Planted) -> Outcome {
    let world = match seed % RARE {
        0 => run(&FleetPlan::of_an_hour(seed), planted),
        PARTITION => {
            let (world, partition) = part(seed);
            assert!(partition.is_severe_and_over(), "seed {seed}: {partition:?}");
            world
        }
        _ => run(&FleetPlan::new(seed), planted),
    };
    Outcome {
        seed,
        violation: world.violation().cloned(),
        report: world.report(120),
        fingerprint: world.trace().fingerprint(),
        statistics: world.statistics().clone(),
        virtual_seconds: world.now().saturating_since(START).as_secs(),
    }
}
