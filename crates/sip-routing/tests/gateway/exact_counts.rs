//! Several workers at once: nothing is lost or counted twice.

use crate::setup::{START, all, build, descriptions, gateway};
use sip_routing::gateway::{NoRates, Outcome, State, TriedSet};
use std::time::Duration;

const WORKERS: u64 = 4;

#[test]
fn the_last_of_many_misses_changes_the_state_and_one_worker_sees_it() {
    for _ in 0..50 {
        let mut all = descriptions(&["gw"]);
        all.gateways[0].health.misses = 100;
        let gateways = build(all);
        let gateway = gateway(&gateways, "gw");
        let miss = |times| {
            let worker = move || {
                let misses = (0..times).filter_map(|_| gateway.call_ended(Outcome::Timeout, START));
                misses.count()
            };
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
                let seen = workers.into_iter().map(|it| it.join().expect("no panic"));
                seen.sum::<usize>()
            })
        };
        assert_eq!(miss(24), 0);
        assert_eq!(gateway.view(START).misses, 96);
        assert_eq!(miss(5), 1, "20 more at once, of which the fourth counts");
        assert_eq!(gateway.state(START), State::Inactive);
        let statistics = gateway.view(START).statistics;
        assert_eq!((statistics.state_changes, statistics.timeouts), (1, 116));
    }
}

#[test]
fn each_change_of_the_state_is_seen_by_one_worker() {
    let mut all = descriptions(&["gw"]);
    all.gateways[0].health.misses = 1;
    all.gateways[0].health.answers = 1;
    let gateways = build(all);
    let gateway = gateway(&gateways, "gw");
    gateway.probed(Outcome::status(200), START);
    let start = std::sync::Barrier::new(WORKERS as usize);
    let worker = |outcome| {
        start.wait();
        let seen = (0..100_000).filter_map(|_| gateway.probed(outcome, START));
        seen.count() as u64
    };
    let (left, returned) = std::thread::scope(|scope| {
        let worker = &worker;
        let workers = |outcome| [0; 2].map(|_| scope.spawn(move || worker(outcome)));
        let (misses, answers) = (workers(Outcome::Timeout), workers(Outcome::status(200)));
        let sum = |workers: [std::thread::ScopedJoinHandle<'_, u64>; 2]| {
            let seen = workers.into_iter().map(|it| it.join().expect("no panic"));
            seen.sum::<u64>()
        };
        (sum(misses), sum(answers))
    });
    let is_out = u64::from(gateway.state(START) == State::Inactive);
    assert_eq!(left, returned + is_out);
    let changes = gateway.view(START).statistics.state_changes;
    assert_eq!(changes, 1 + left + returned);
}

#[test]
fn of_many_calls_in_one_interval_one_is_the_trial_and_one_answer_counts() {
    let mut all_of = descriptions(&["gw"]);
    all_of.gateways[0].health.probe = false;
    let gateways = build(all_of);
    let (gateway, group) = (gateway(&gateways, "gw"), all(&gateways));
    for _ in 0..5 {
        gateway.call_ended(Outcome::Timeout, START);
    }
    let now = START + Duration::from_secs(30);
    let worker = || {
        let calls = (0..1_000).filter_map(|call| {
            let choice = group.choose(call, TriedSet::default(), now, &mut NoRates)?;
            gateway.call_ended(Outcome::status(200), now);
            (!choice.last_resort).then_some(())
        });
        calls.count()
    };
    let trials: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        let seen = workers.into_iter().map(|it| it.join().expect("no panic"));
        seen.sum()
    });
    assert_eq!((trials, gateway.view(now).answers), (1, 1));
}

#[test]
fn calls_are_counted_exactly_and_all_places_come_back() {
    const CALLS: u64 = 20_000;
    let mut all_of = descriptions(&["a", "b", "c"]);
    for gateway in &mut all_of.gateways {
        gateway.max_calls = Some(20);
    }
    let gateways = build(all_of);
    let outcomes = [
        Outcome::status(200),
        Outcome::status(302),
        Outcome::status(486),
        Outcome::status(500),
        Outcome::status(603),
        Outcome::Timeout,
        Outcome::TransportError,
        Outcome::Abandoned,
    ];
    let worker = || {
        let (mut held, mut refused) = (std::collections::VecDeque::new(), 0_u64);
        for call in 0..CALLS {
            let none = TriedSet::default();
            let Some(choice) = all(&gateways).choose(call, none, START, &mut NoRates) else {
                refused += 1;
                held.clear();
                continue;
            };
            assert!(choice.gateway.live_calls() <= 20);
            let outcome = outcomes[(call % 8) as usize];
            choice.gateway.call_ended(outcome, START);
            held.push_back(choice.place);
            if held.len() > 17 {
                held.pop_front();
            }
        }
        refused
    };
    let refused: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(worker)).collect();
        let seen = workers.into_iter().map(|it| it.join().expect("no panic"));
        seen.sum()
    });
    let views: Vec<_> = gateways
        .gateways()
        .iter()
        .map(|it| it.view(START))
        .collect();
    let sum = |of: fn(&sip_routing::gateway::Statistics) -> u64| {
        views.iter().map(|it| of(&it.statistics)).sum::<u64>()
    };
    assert_eq!(sum(|it| it.tried) + refused, WORKERS * CALLS);
    let ended = sum(|it| {
        let failed: u64 = it.failed.iter().sum();
        it.answered + failed + it.timeouts + it.transport_errors + it.abandoned
    });
    assert_eq!(ended, sum(|it| it.tried));
    assert!(views.iter().all(|it| it.live_calls == 0));
}
