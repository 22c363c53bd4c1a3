//! Runs one seed from beginning to end.
use crate::host::Machine;
use crate::invariants;
use crate::observe::Violation;
use crate::phone::Profile;
use crate::plan::{HostPlan, Plan, domain, host_address, phone_address};
use crate::statistics::Statistics;
use crate::world::World;

/// The result of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The violated rule, if any.
    pub violation: Option<Violation>,
    /// The violated rule with the messages that led to it.
    pub report: Option<String>,
    /// A hash of all events.
    pub fingerprint: u64,
    /// Counters of the run.
    pub statistics: Statistics,
    /// Virtual time of the run, in seconds.
    pub virtual_seconds: u64,
}

impl Outcome {
    /// The command that replays this seed.
    pub fn replay(&self) -> String {
        format!(
            "cargo run --release -p sip-simulator --example simulate -- --seeds 1 --first-seed {}",
            self.seed
        )
    }

    /// Panics if a rule was violated.
    ///
    /// # Panics
    /// The message contains the rule, the messages that led to it, and how to replay it.
    pub fn expect_sound(&self) {
        if let Some(report) = &self.report {
            panic!(
                "seed {} broke a rule: {report}\nReplay: {}",
                self.seed,
                self.replay()
            );
        }
    }
}

/// Builds the world of a plan. Everything is planned, but nothing has happened yet.
pub fn build<M: Machine>(plan: &Plan, mut machine: impl FnMut(&HostPlan) -> M) -> World<M> {
    let mut world = World::new(plan.seed, plan.start, invariants::all());
    world.set_weather(plan.weather);
    for host in &plan.hosts {
        world.add_host(machine(host), host.manners);
    }
    for phone in &plan.phones {
        world.add_phone(phone.profile.clone(), phone.home, phone.honest);
    }
    for (at, phone, action) in &plan.script {
        world.perform_in(*at, *phone, action.clone());
    }
    for (at, fault) in &plan.faults {
        world.fault_in(*at, fault.clone());
    }
    world
}

/// Builds a small world in calm weather, for tests with their own script. It has `hosts` machines with `workers`
/// workers each that can find one another. It has `phones` phones `user0`, `user1` …, each at the machine `index %
/// hosts`. No phone is registered.
pub fn calm<M: Machine>(
    seed: u64,
    hosts: usize,
    workers: u16,
    phones: usize,
    mut machine: impl FnMut(&HostPlan) -> M,
) -> World<M> {
    let start = sip_transport::Time::from_unix_seconds(1_750_000_000);
    let mut world = World::new(seed, start, invariants::all());
    let names: Vec<_> = (0..phones).map(|phone| format!("user{phone}")).collect();
    for index in 0..hosts {
        let users: Vec<_> = names
            .iter()
            .skip(index)
            .step_by(hosts)
            .map(String::as_str)
            .collect();
        let peers = (0..hosts).filter(|peer| *peer != index);
        let plan = HostPlan {
            relays: hosts > 1,
            peers: peers
                .map(|peer| (domain(peer), host_address(peer, false)))
                .collect(),
            ..HostPlan::simple(index, workers, &users)
        };
        world.add_host(machine(&plan), plan.manners);
    }
    for (index, name) in names.iter().enumerate() {
        let home = index % hosts;
        let (address, server) = (phone_address(index, false), host_address(home, false));
        world.add_phone(
            Profile::new(name, &domain(home), address, server),
            home,
            true,
        );
    }
    world
}

/// Runs the plan of a seed until everything is quiet, under all invariants.
pub fn simulate<M: Machine>(seed: u64, machine: impl FnMut(&HostPlan) -> M) -> Outcome {
    let plan = Plan::new(seed);
    let mut world = build(&plan, machine);
    world.run_for(plan.duration);
    world.run_until_quiet();
    Outcome {
        seed,
        violation: world.violation().cloned(),
        report: world.report(80),
        fingerprint: world.trace().fingerprint(),
        statistics: world.statistics().clone(),
        virtual_seconds: world.now().saturating_since(plan.start).as_secs(),
    }
}
