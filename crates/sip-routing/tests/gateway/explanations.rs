//! An explanation shows what a call would do, and changes nothing.

use crate::setup::{START, all, build, gateway, make_inactive, order, weighted};
use proptest::prelude::*;
use sip_routing::gateway::{Algorithm, AllInactive, Gateways, Outcome, Skip, Verdict, explain};
use std::time::Duration;

fn explained(gateways: &Gateways, call: u64) -> Vec<(String, Verdict)> {
    let mut seen = Vec::new();
    explain(&[all(gateways)], call, START, |_, gateway, verdict| {
        seen.push((gateway.name().to_owned(), verdict));
    });
    seen
}

/// A group whose members have weights, priorities and conditions: 0 to 3 up, 4 inactive, 5 resting, 6 disabled, 7 full.
fn group_of(
    algorithm: Algorithm,
    refuse: bool,
    members: &[(u16, u16, u8)],
) -> (Gateways, Vec<sip_routing::gateway::Place>) {
    let names: Vec<_> = (0..members.len()).map(|it| format!("gw{it}")).collect();
    let with_weights = names
        .iter()
        .map(String::as_str)
        .zip(members.iter().map(|it| it.0));
    let mut all_of = weighted(algorithm, &with_weights.collect::<Vec<_>>());
    if refuse {
        all_of.groups[0].all_inactive = AllInactive::Refuse;
    }
    for (index, (_, priority, condition)) in members.iter().enumerate() {
        all_of.groups[0].members[index].priority = *priority;
        all_of.gateways[index].max_calls = (*condition == 7).then_some(1);
    }
    let gateways = build(all_of);
    let mut places = Vec::new();
    for (gateway, (.., condition)) in gateways.gateways().iter().zip(members) {
        let rest = Outcome::Response {
            status: 503,
            retry_after: Some(Duration::from_secs(9)),
        };
        match condition {
            4 => make_inactive(gateway, START),
            5 => {
                gateway.call_ended(rest, START);
            }
            6 => assert!(gateway.disable(START)),
            7 => places.push(gateway.occupy()),
            _ => {}
        }
    }
    (gateways, places)
}

proptest! {
    #[test]
    fn a_call_does_what_the_explanation_says(
        members in proptest::collection::vec((1_u16..5, 0_u16..3, 0_u8..8), 1..12),
        all_down: bool,
        refuse: bool,
        algorithm in prop::sample::select(&[
            Algorithm::Rendezvous, Algorithm::RoundRobin, Algorithm::Random, Algorithm::LeastCalls,
        ][..]),
        call: u64,
    ) {
        let members: Vec<_> = members
            .into_iter()
            .map(|(weight, priority, condition)| (weight, priority, if all_down { 4 + condition % 3 } else { condition }))
            .collect();
        let (gateways, _places) = group_of(algorithm, refuse, &members);
        let explained = explained(&gateways, call);
        prop_assert_eq!(explained.len(), members.len());
        let taken: Vec<_> = explained
            .iter()
            .filter_map(|(name, verdict)| match verdict {
                Verdict::Try => Some((&**name, false)),
                Verdict::LastResort => Some((&**name, true)),
                Verdict::Skip(_) => None,
            })
            .collect();
        prop_assert_eq!(taken, order(all(&gateways), call, START));
    }
}

#[test]
fn an_explanation_names_the_reason_and_takes_nothing() {
    let members = [
        (1, 0, 0),
        (1, 1, 0),
        (1, 0, 4),
        (1, 0, 5),
        (1, 0, 6),
        (1, 0, 7),
    ];
    let (gateways, _places) = group_of(Algorithm::RoundRobin, false, &members);
    let expected = [
        ("gw0", Verdict::Try),
        ("gw1", Verdict::Try),
        ("gw2", Verdict::Skip(Skip::Inactive)),
        ("gw3", Verdict::Skip(Skip::Resting)),
        ("gw4", Verdict::Skip(Skip::Disabled)),
        ("gw5", Verdict::Skip(Skip::Full)),
    ];
    for _ in 0..3 {
        let mut seen = explained(&gateways, 1);
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        let seen = seen.iter().map(|(name, verdict)| (&**name, *verdict));
        assert!(seen.eq(expected));
    }
    let view = gateway(&gateways, "gw0").view(START);
    assert_eq!((view.live_calls, view.statistics.tried), (0, 0));
    assert_eq!(gateway(&gateways, "gw5").view(START).statistics.full, 0);
}
