//! The tables of sources and subscribers: bounded, swept, and no way around a limit when they are full.

use super::super::table::SHARED;
use super::*;

#[test]
fn a_sweep_removes_what_a_new_entry_would_not_change() {
    let limits = limits(&Description {
        each_source: Some(each(rate(1.0, 2), 10)),
        ..Description::default()
    });
    let live = limits.admit(&source(1), at(0)).expect("a permit");
    drop(limits.admit(&source(2), at(0)).expect("a permit"));
    drop(limits.admit(&source(3), at(0)).expect("a permit"));
    drop(limits.admit(&source(3), at(0)).expect("a permit"));
    assert_eq!(
        limits.sweep(at(999_999), 10),
        Swept {
            examined: 3,
            removed: 0
        }
    );
    assert_eq!(
        limits.sweep(at(1_000_000), 10),
        Swept {
            examined: 3,
            removed: 1
        }
    );
    assert_eq!(
        limits.sweep(at(2_000_000), 10),
        Swept {
            examined: 2,
            removed: 1
        }
    );
    assert_eq!(
        limits.sweep(at(9_000_000), 10),
        Swept {
            examined: 1,
            removed: 0
        }
    );
    drop(live);
    assert_eq!(
        limits.sweep(at(9_000_000), 10),
        Swept {
            examined: 1,
            removed: 1
        }
    );
    assert_eq!(keys(&limits), 0);
}

#[test]
fn sweeps_with_a_budget_reach_every_entry() {
    let limits = limits(&Description {
        each_source: Some(each(max_calls(1), 1000)),
        ..Description::default()
    });
    let mut permits = Vec::new();
    for number in 0..1000 {
        let permit = limits.admit(&source(number), at(0)).expect("a permit");
        if number % 10 == 0 {
            permits.push(permit);
        }
    }
    for _ in 0..16 {
        assert!(limits.sweep(at(0), 64).examined <= 64);
    }
    assert_eq!(keys(&limits), 100);
    drop(permits);
    for _ in 0..3 {
        limits.sweep(at(0), 64);
    }
    assert_eq!(keys(&limits), 0);
}

#[test]
fn a_source_of_refused_calls_is_swept_at_once() {
    let limits = limits(&Description {
        overall: max_calls(0),
        each_source: Some(each(rate(0.001, 1), 10)),
        ..Description::default()
    });
    assert_eq!(refused(&limits, &source(1), 0), ("overall", Excess::Calls));
    assert_eq!(limits.sweep(at(0), 10).removed, 1);
}

#[test]
fn many_addresses_neither_avoid_the_limit_nor_shut_out_known_ones() {
    let limits = limits(&Description {
        each_source: Some(each(rate(1.0, 1), 2)),
        ..Description::default()
    });
    let is_admitted = |number, micros| limits.admit(&source(number), at(micros)).is_ok();
    assert!(is_admitted(1, 0) && is_admitted(2, 0));
    let sprayed = (3..20_003).filter(|number| is_admitted(*number, 0)).count();
    assert!(sprayed <= SHARED, "{sprayed} calls passed");
    assert!(
        sprayed > SHARED * 9 / 10,
        "the calls share {sprayed} limits"
    );
    assert!(is_admitted(1, 1_000_000) && is_admitted(2, 1_000_000));
    let stats = limits
        .each_stats()
        .next()
        .expect("the limit of each source");
    assert_eq!((stats.keys, stats.overflowed), (2, 20_000));
    assert_eq!(stats.refused_by_rate, 20_000 - sprayed as u64);
}

#[test]
fn a_new_address_passes_a_full_table_and_gets_its_own_entry_later() {
    let limits = limits(&Description {
        each_source: Some(each(max_calls(1), 1)),
        ..Description::default()
    });
    let known = limits.admit(&source(1), at(0)).expect("a permit");
    let shared = limits.admit(&source(2), at(0)).expect("a permit");
    assert_eq!(refused(&limits, &source(2), 0), ("source", Excess::Calls));
    drop(shared);
    let shared = limits.admit(&source(2), at(0)).expect("a permit");
    drop((known, shared));
    assert_eq!(limits.sweep(at(0), 10).removed, 1);
    let own = limits.admit(&source(2), at(0)).expect("a permit");
    assert_eq!(limits.source_calls(source(2).source), 1);
    drop(own);
}

#[test]
fn the_clock_may_go_back_without_keeping_entries() {
    let limits = limits(&Description {
        each_source: Some(each(rate(1.0, 2), 10)),
        ..Description::default()
    });
    drop(
        limits
            .admit(&source(1), at(3_600_000_000))
            .expect("a permit"),
    );
    assert_eq!(limits.sweep(at(0), 10).removed, 1);
}
