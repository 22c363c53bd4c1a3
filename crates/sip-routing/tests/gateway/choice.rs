//! Which member a call gets, and why not another.

use crate::setup::{
    START, Watch, all, build, choose, chosen, descriptions, gateway, make_inactive, order, weighted,
};
use sip_routing::gateway::{
    Algorithm, AllInactive, Descriptions, Gateways, Group, NoRates, Outcome, Skip, State, TriedSet,
};
use sip_routing::limit::Rate;
use sip_transport::Time;
use std::time::Duration;

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::Rendezvous,
    Algorithm::RoundRobin,
    Algorithm::Random,
    Algorithm::LeastCalls,
];

/// Three members of priorities 2, 1 and 1.
fn with_priorities(algorithm: Algorithm) -> Descriptions {
    let mut all = weighted(algorithm, &[("spare", 1), ("a", 1), ("b", 1)]);
    for (member, priority) in all.groups[0].members.iter_mut().zip([2, 1, 1]) {
        member.priority = priority;
    }
    all
}

#[test]
fn a_call_that_fails_over_tries_every_member_once_by_priority() {
    for algorithm in ALGORITHMS {
        let gateways = build(with_priorities(algorithm));
        let mut firsts = 0;
        for call in 0..200 {
            let order = order(all(&gateways), call, START);
            assert_eq!(order.len(), 3, "{algorithm:?}");
            assert_eq!(order[2], ("spare", false), "{algorithm:?}");
            firsts += u32::from(order[0].0 == "a");
        }
        assert!((50..150).contains(&firsts), "{algorithm:?}: {firsts}");
    }
}

#[test]
fn a_lower_priority_gets_calls_only_while_the_higher_takes_none() {
    let mut all_of = with_priorities(Algorithm::LeastCalls);
    all_of.gateways[1].max_calls = Some(2);
    all_of.gateways[2].max_calls = Some(1);
    let gateways = build(all_of);
    let group = all(&gateways);
    let mut places: Vec<_> = (0..4)
        .map(|call| choose(group, call).expect("room"))
        .collect();
    let mut taken: Vec<_> = places.iter().map(|it| it.gateway.name()).collect();
    taken[..3].sort_unstable();
    assert_eq!(taken, ["a", "a", "b", "spare"]);
    places.retain(|it| it.gateway.name() != "b");
    assert_eq!(chosen(group, 9), "b");
}

#[test]
fn a_full_member_is_skipped_and_its_place_comes_back() {
    for algorithm in ALGORITHMS {
        let mut all_of = weighted(algorithm, &[("a", 1), ("b", 1)]);
        all_of.gateways[0].max_calls = Some(1);
        let gateways = build(all_of);
        let (group, a) = (all(&gateways), gateway(&gateways, "a"));
        let place = a.occupy();
        assert_eq!(a.live_calls(), 1);
        for call in 0..20 {
            assert_eq!(chosen(group, call), "b", "{algorithm:?}");
        }
        // The member with the fewest calls is `b` anyway.
        let is_skipped = algorithm != Algorithm::LeastCalls;
        let full = a.view(START).statistics.full;
        assert_eq!(full > 0, is_skipped, "{algorithm:?}");
        drop(place);
        assert!((0..20).any(|call| chosen(group, call) == "a"));
        let live = gateways.gateways().iter().map(|it| it.live_calls());
        assert_eq!(live.sum::<u64>(), 0, "{algorithm:?}");
    }
}

#[test]
fn a_gateway_gets_no_more_calls_than_its_rate_and_a_reload_brings_no_new_burst() {
    let limited = || {
        let mut all_of = descriptions(&["a", "b"]);
        all_of.groups[0].algorithm = Algorithm::RoundRobin;
        all_of.gateways[0].rate = Rate::new(2.0, 3);
        all_of
    };
    let calls_of_a = |gateways: &Gateways, now| {
        let choices = (0..40)
            .filter_map(|call| all(gateways).choose(call, TriedSet::default(), now, &mut NoRates));
        choices.filter(|it| it.gateway.name() == "a").count()
    };
    let gateways = build(limited());
    assert_eq!(calls_of_a(&gateways, START), 3, "the burst");
    let next = Gateways::new(limited(), Some(&gateways)).expect("good descriptions");
    assert_eq!(calls_of_a(&next, START), 0);
    assert_eq!(
        calls_of_a(&next, START + Duration::from_secs(1)),
        2,
        "the rate"
    );
    let a = gateway(&next, "a").view(START);
    assert_eq!((a.live_calls, a.statistics.tried), (0, 5));
    assert!(a.statistics.rate_limited > 20);
}

#[test]
fn a_member_above_its_rate_is_skipped_and_keeps_no_place() {
    let gateways = build(descriptions(&["a", "b"]));
    let mut watch = Watch {
        refused: vec!["a"],
        ..Watch::default()
    };
    for call in 0..20 {
        let none = TriedSet::default();
        let choice = all(&gateways).choose(call, none, START, &mut watch);
        assert_eq!(choice.expect("b").gateway.name(), "b");
    }
    let a = gateway(&gateways, "a").view(START);
    assert_eq!((a.live_calls, a.statistics.tried), (0, 0));
    assert_eq!(a.statistics.rate_limited as usize, watch.skipped.len());
    assert!(
        watch
            .skipped
            .iter()
            .all(|it| *it == ("a".to_owned(), Skip::RateLimited))
    );
    watch.refused.push("b");
    assert!(
        all(&gateways)
            .choose(1, TriedSet::default(), START, &mut watch)
            .is_none()
    );
}

#[test]
fn every_member_that_is_not_chosen_is_reported_with_the_reason() {
    let mut all_of = descriptions(&["tried", "off", "dead", "rests", "full", "fast"]);
    all_of.gateways[4].max_calls = Some(1);
    let gateways = build(all_of);
    let rests = Outcome::Response {
        status: 503,
        retry_after: Some(Duration::from_secs(9)),
    };
    gateway(&gateways, "off").disable(START);
    make_inactive(gateway(&gateways, "dead"), START);
    gateway(&gateways, "rests").call_ended(rests, START);
    let _place = gateway(&gateways, "full").occupy();
    let mut tried = TriedSet::default();
    tried.insert(0);
    let mut watch = Watch {
        refused: vec!["fast"],
        ..Watch::default()
    };
    assert!(all(&gateways).choose(1, tried, START, &mut watch).is_none());
    watch.skipped.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [
        ("dead", Skip::Inactive),
        ("fast", Skip::RateLimited),
        ("full", Skip::Full),
        ("off", Skip::Disabled),
        ("rests", Skip::Resting),
        ("tried", Skip::Tried),
    ];
    let skipped = watch.skipped.iter().map(|(name, why)| (&**name, *why));
    assert!(skipped.eq(expected), "{:?}", watch.skipped);
}

#[test]
fn while_no_member_is_active_all_that_are_not_disabled_are_tried() {
    for algorithm in ALGORITHMS {
        let gateways = build(with_priorities(algorithm));
        for name in ["a", "b", "spare"] {
            make_inactive(gateway(&gateways, name), START);
        }
        let found = order(all(&gateways), 7, START);
        assert_eq!(found.len(), 3, "{algorithm:?}");
        assert!(found.iter().all(|(_, last_resort)| *last_resort));
        assert_eq!(found[2].0, "spare", "{algorithm:?}");
        gateway(&gateways, "a").disable(START);
        let found = order(all(&gateways), 7, START);
        assert_eq!(found, [("b", true), ("spare", true)], "{algorithm:?}");
    }
}

#[test]
fn while_no_member_is_active_a_group_may_refuse() {
    let mut all_of = descriptions(&["a", "b"]);
    all_of.groups[0].all_inactive = AllInactive::Refuse;
    let gateways = build(all_of);
    for name in ["a", "b"] {
        make_inactive(gateway(&gateways, name), START);
    }
    assert!(choose(all(&gateways), 1).is_none());
}

#[test]
fn the_overflow_of_a_healthy_member_does_not_go_to_an_inactive_one() {
    let mut all_of = descriptions(&["a", "b"]);
    all_of.gateways[0].max_calls = Some(1);
    let gateways = build(all_of);
    make_inactive(gateway(&gateways, "b"), START);
    let first = choose(all(&gateways), 1).expect("a");
    assert!(choose(all(&gateways), 2).is_none());
    drop(first);
    assert_eq!(order(all(&gateways), 3, START), [("a", false)]);
}

#[test]
fn an_inactive_gateway_that_is_not_probed_gets_one_call_in_each_interval() {
    let mut all_of = descriptions(&["a", "b"]);
    all_of.groups[0].members[1].priority = 1;
    all_of.gateways[0].health.probe = false;
    let gateways = build(all_of);
    let (group, a) = (all(&gateways), gateway(&gateways, "a"));
    let interval = a.description().health.interval;
    let mut now = START;
    for _ in 0..5 {
        a.call_ended(Outcome::Timeout, now);
    }
    for trial in 0..5 {
        assert_eq!(a.state(now), State::Inactive, "before trial {trial}");
        assert_eq!(order(group, 1, now), [("b", false)]);
        now = now + interval;
        let first = names_of_calls(group, now);
        assert_eq!(first, ["a", "b", "b"], "trial {trial}");
        // The caller waits for the answer of the trial a while.
        a.call_ended(Outcome::status(200), now + interval / 3);
        a.call_ended(Outcome::status(200), now + interval / 3);
    }
    assert_eq!(a.state(now), State::Active);
}

fn names_of_calls(group: &Group, now: Time) -> Vec<&str> {
    let calls = (0..3).map(|call| {
        let choice = group.choose(call, TriedSet::default(), now, &mut NoRates);
        choice.expect("a member").gateway.name()
    });
    calls.collect()
}

#[test]
fn a_group_of_64_tries_all_and_ends() {
    let names: Vec<_> = (0..64).map(|number| format!("gw{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for algorithm in ALGORITHMS {
        let members: Vec<_> = names
            .iter()
            .map(|name| (*name, 1 + name.len() as u16))
            .collect();
        let gateways = build(weighted(algorithm, &members));
        let mut found: Vec<_> = order(all(&gateways), 5, START);
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 64, "{algorithm:?}");
    }
}

#[test]
fn the_calls_of_one_dead_member_are_spread_over_the_others() {
    for algorithm in [
        Algorithm::Rendezvous,
        Algorithm::RoundRobin,
        Algorithm::Random,
    ] {
        let gateways = build(weighted(
            algorithm,
            &[("a", 1), ("b", 1), ("c", 1), ("d", 1)],
        ));
        let mut seconds = std::collections::HashMap::new();
        for call in 0..4_000 {
            let order = order(all(&gateways), call, START);
            if order[0].0 == "a" {
                *seconds.entry(order[1].0).or_insert(0_u32) += 1;
            }
        }
        // About 1,000 calls, a third each: 333, with a standard deviation below 16.
        let counts: Vec<_> = seconds.into_values().collect();
        assert_eq!(counts.len(), 3, "{algorithm:?}");
        assert!(
            counts.iter().all(|it| (237..430).contains(it)),
            "{algorithm:?}: {counts:?}"
        );
    }
}
