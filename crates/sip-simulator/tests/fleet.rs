//! A whole fleet, with edges, nodes and their store, in which one process after another dies: no answered call is lost, and no phone rings
//! twice.

mod exchange;
#[path = "fleet/mod.rs"]
mod whole;

use sip_simulator::Statistics;
use whole::{Planted, simulate};

const SEEDS: u64 = 30;

#[test]
fn no_answered_call_is_lost_while_a_fleet_fails() {
    let mut total = Statistics::default();
    for seed in 1..=SEEDS {
        let outcome = simulate(seed, Planted::Nothing);
        if let Some(report) = &outcome.report {
            panic!("seed {seed} broke a rule: {report}");
        }
        total.add(&outcome.statistics);
    }
    println!("{total:#?}");
    assert!(total.answered > SEEDS * 50, "{total:?}");
}
