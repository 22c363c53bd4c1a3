//! A node of a fleet dies again and again, and each time another one with the same secret and the same bindings gets the next messages: no
//! answered call is lost, and no phone rings twice.

mod exchange;

use exchange::ExchangeMachine;
use sip_message::KeyHasher;
use sip_simulator::{
    Account, Action, Answering, BoundContact, CallPlan, Census, ControlManners, ControlOf, Dice,
    Fault, HostFacts, HostPlan, Machine, Profile, QuestionOf, Statistics, Weather, World,
    host_address, invariants, phone_address,
};
use sip_transport::Time;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 30;
const PHONES: usize = 6;
const CALLS: u64 = 60;
/// How long calls are placed, and nodes die.
const TRAFFIC: Duration = Duration::from_secs(240);
/// Longer than a phone rings, and than it takes to call it.
const RINGING: Duration = Duration::from_secs(60);

/// A machine of a fleet. Whenever it fails, another one boots in its place.
fn of_a_fleet(plan: &HostPlan) -> ExchangeMachine {
    let mut machine = ExchangeMachine::new(plan);
    machine.is_of_fleet = true;
    let mut settings = (*machine.settings).clone();
    settings.dialogs.adopts = true;
    machine.settings = Arc::new(settings);
    machine
}

/// A world of one address behind which nodes take each other's place.
fn world<M: Machine>(seed: u64, machine: impl FnOnce(&HostPlan) -> M) -> World<M> {
    let mut dice = Dice::new(seed, "takeover");
    let users: Vec<String> = (0..PHONES).map(|phone| format!("user{phone}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let plan = HostPlan::simple(0, 2, &users);
    let start = Time::from_unix_seconds(1_750_000_000);
    let mut world = World::new(seed, start, invariants::of_a_fleet());
    // A lost 100 makes the caller retransmit an INVITE that a dead node has forwarded.
    world.set_weather(Weather {
        loss: u32::try_from(dice.below(200)).expect("a rate"),
        delay: Duration::from_millis(15),
        jitter: Duration::from_millis(10),
        ..Weather::CALM
    });
    world.add_host(machine(&plan), ControlManners::PROMPT);
    for (phone, user) in users.iter().enumerate() {
        let after = dice.span(Duration::ZERO, Duration::from_secs(6));
        let (address, server) = (phone_address(phone, false), host_address(0, false));
        let profile = Profile {
            answering: vec![
                (6, Answering::Accept { after }),
                (1, Answering::Refuse { after, status: 486 }),
            ],
            expires: 3_600,
            ..Profile::new(user, "host0.test", address, server)
        };
        world.add_phone(profile, 0, true);
        world.perform(phone, Action::Register);
    }
    world.run_for(Duration::from_secs(2));
    for _ in 0..CALLS {
        let caller = dice.below(PHONES as u64);
        let callee = (caller + dice.range(1, PHONES as u64 - 1)) % PHONES as u64;
        let action = Action::Call(CallPlan {
            to: format!("sip:user{callee}@host0.test"),
            patience: Duration::from_secs(60),
            talk: dice.span(Duration::from_secs(1), Duration::from_secs(30)),
            renegotiates: dice.chance(300),
        });
        let at = dice.span(Duration::ZERO, TRAFFIC);
        world.perform_in(at, usize::try_from(caller).expect("a phone"), action);
        if dice.chance(500) {
            // About when the INVITE with credentials is forwarded.
            let after = dice.span(Duration::from_millis(55), Duration::from_millis(130));
            world.fault_in(at + after, Fault::Crash(0, Duration::from_millis(100)));
        }
    }
    let mut at = Duration::ZERO;
    while at < TRAFFIC {
        at += dice.span(Duration::from_millis(500), Duration::from_secs(5));
        let gap = dice.span(Duration::ZERO, Duration::from_millis(400));
        world.fault_in(at, Fault::Crash(0, gap));
    }
    world
}

fn run<M: Machine>(mut world: World<M>) -> World<M> {
    // Phones that are put to rest refuse the calls that ring: these must end before.
    world.run_for(TRAFFIC + RINGING);
    world.run_until_quiet();
    world
}

#[test]
fn no_answered_call_is_lost_while_nodes_die() {
    let mut total = Statistics::default();
    for seed in 0..SEEDS {
        let world = run(world(seed, of_a_fleet));
        if let Some(report) = world.report(80) {
            panic!("seed {seed} broke a rule: {report}");
        }
        total.add(world.statistics());
    }
    println!("{total:#?}");
    assert!(total.unacknowledged * 20 < total.acknowledged, "{total:?}");
    assert!(total.answered > SEEDS * 30, "{total:?}");
    assert_eq!(total.failed.get(&480), None, "{total:?}");
}

/// A machine whose next life has another secret, so that it computes other branches.
struct Estranged(ExchangeMachine, u64);

impl Machine for Estranged {
    type Node = <ExchangeMachine as Machine>::Node;

    fn facts(&self) -> HostFacts {
        self.0.facts()
    }

    fn boot(&mut self, now: Time, key: [u8; 32]) -> Vec<Self::Node> {
        self.1 += 1;
        self.0.hasher = KeyHasher::new((self.1, 7));
        self.0.boot(now, key)
    }

    fn crash(&mut self, now: Time) {
        self.0.crash(now);
    }

    fn reply(&mut self, now: Time, question: &QuestionOf<Self>, failing: bool) -> ControlOf<Self> {
        self.0.reply(now, question, failing)
    }

    fn housekeeping(&mut self, now: Time, orders: &mut Vec<(usize, ControlOf<Self>)>) {
        self.0.housekeeping(now, orders);
    }

    fn census(&self, node: &Self::Node) -> Census {
        self.0.census(node)
    }

    fn bindings(&self) -> Account {
        self.0.bindings()
    }

    fn bound_contacts(&self, now: Time) -> Vec<BoundContact> {
        self.0.bound_contacts(now)
    }
}

#[test]
fn nodes_with_different_secrets_lose_answered_calls() {
    let broken = (0..SEEDS).filter_map(|seed| {
        let estranged = |plan: &HostPlan| Estranged(of_a_fleet(plan), 0);
        let world = run(world(seed, estranged));
        world.violation().map(|violation| violation.invariant)
    });
    assert!(broken.take(3).eq(["answered_once"; 3]));
}
