//! Runs a few hundred seeds against the exchange, under all invariants.

mod exchange;

use exchange::ExchangeMachine;
use sip_dialog::Ended;
use sip_simulator::{Outcome, Statistics, simulate};
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs seeds on all cores. The first one that violates a rule panics with its report.
fn run(seeds: std::ops::Range<u64>) -> Statistics {
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut total = Statistics::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return total;
            }
            let outcome = simulate(seed, ExchangeMachine::new);
            outcome.expect_sound();
            total.add(&outcome.statistics);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let mut total = Statistics::default();
        for worker in workers {
            match worker.join() {
                Ok(statistics) => total.add(&statistics),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        total
    })
}

#[test]
fn no_seed_breaks_a_rule_and_much_has_happened() {
    let total = run(1..301);
    // A simulation without events would prove nothing.
    assert!(total.registered > 5_000, "{total:?}");
    assert!(
        total.answered > 3_000 && total.acknowledged > 3_000,
        "{total:?}"
    );
    assert!(total.lost > 10_000 && total.questions > 1_000, "{total:?}");
    for status in [
        401, 403, 404, 407, 408, 422, 423, 480, 481, 486, 487, 500, 503, 603,
    ] {
        assert!(
            total.finals.contains_key(&status),
            "nobody ever saw a {status}: {total:?}"
        );
    }
    // The simulator has no operator.
    for ended in Ended::LABELS.iter().filter(|label| **label != "operator") {
        assert!(total.records.contains_key(*ended), "no {ended}: {total:?}");
    }
    assert!(total.restored > 100 && total.refreshed > 500, "{total:?}");
    let unhappy = total.unacknowledged * 20;
    assert!(
        unhappy < total.acknowledged,
        "too many callees never got their ACK: {total:?}"
    );
}

#[test]
fn the_same_seed_replays_the_same_events() {
    for seed in [3, 17, 42] {
        let run = || -> Outcome { simulate(seed, ExchangeMachine::new) };
        let (first, second) = (run(), run());
        assert_eq!(
            first.fingerprint, second.fingerprint,
            "seed {seed} is not deterministic"
        );
        assert_eq!(first, second);
    }
    let print = |seed| simulate(seed, ExchangeMachine::new).fingerprint;
    assert_ne!(print(3), print(4));
}
