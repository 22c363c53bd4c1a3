//! One seed from beginning to end.
use crate::host::Machine;
use crate::invariants;
use crate::observe::Violation;
use crate::plan::{HostPlan, Plan};
use crate::statistics::Statistics;
use crate::world::World;

/// How one seed ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The rule it broke.
    pub violation: Option<Violation>,
    /// The rule with the messages that led to it.
    pub report: Option<String>,
    /// A hash of everything that happened.
    pub fingerprint: u64,
    /// What happened, counted.
    pub statistics: Statistics,
    /// Virtual seconds that it covered.
    pub virtual_seconds: u64,
}

impl Outcome {
    /// The command that runs this seed again.
    pub fn replay(&self) -> String {
        format!(
            "cargo run --release -p sip-simulator --example simulate -- --seeds 1 --first-seed {}",
            self.seed
        )
    }

    /// Panics when a rule was broken, with the rule, the messages that led to it, and how to replay it.
    ///
    /// # Panics
    /// See above: for tests.
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

/// Builds the world of a plan: nothing has happened in it yet, everything is planned.
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

/// Runs a seed: its plan, then until everything is quiet, under all invariants.
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
