//! How calls are shared among members.

use crate::setup::{START, all, build, choose, chosen, gateway, make_inactive, weighted};
use proptest::prelude::*;
use sip_routing::gateway::{Algorithm, Gateways};
use std::collections::HashMap;

const CALLS: u32 = 4_000;

fn group_of(algorithm: Algorithm, weights: &[u16]) -> Gateways {
    let names: Vec<_> = (0..weights.len()).map(|it| format!("gw{it}")).collect();
    let members = names
        .iter()
        .map(String::as_str)
        .zip(weights.iter().copied());
    build(weighted(algorithm, &members.collect::<Vec<_>>()))
}

fn counts(gateways: &Gateways, calls: u32) -> Vec<u32> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for call in 0..calls {
        *counts
            .entry(chosen(all(gateways), call.into()))
            .or_default() += 1;
    }
    let in_order = gateways.gateways().iter();
    in_order
        .map(|it| counts.get(it.name()).copied().unwrap_or(0))
        .collect()
}

/// Six standard deviations of a binomial distribution, and six calls, because it is skewed where only a few are expected.
fn is_near(found: u32, calls: u32, share: f64) -> bool {
    let mean = f64::from(calls) * share;
    let deviation = (mean * (1.0 - share)).sqrt();
    (f64::from(found) - mean).abs() <= 6.0 * (deviation + 1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_member_that_joins_or_leaves_moves_only_its_own_share(
        weights in proptest::collection::vec(1_u16..8, 1..16),
        even: bool,
    ) {
        let weights: Vec<_> = weights.into_iter().map(|it| if even { 3 } else { it }).collect();
        let with = group_of(Algorithm::Rendezvous, &weights);
        let Some((last, others)) = weights.split_last().filter(|(_, others)| !others.is_empty())
        else {
            return Ok(());
        };
        let without = group_of(Algorithm::Rendezvous, others);
        let newest = format!("gw{}", others.len());
        let mut moved = 0;
        for call in 0..CALLS {
            let (before, after) = (chosen(all(&without), call.into()), chosen(all(&with), call.into()));
            prop_assert!(before == after || after == newest, "{} to {}", before, after);
            moved += u32::from(before != after);
        }
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        let share = f64::from(*last) / f64::from(sum);
        prop_assert!(is_near(moved, CALLS, share), "{} moved of {}", moved, share);
    }

    #[test]
    fn a_member_whose_weight_changes_moves_calls_only_to_or_from_itself(
        weights in proptest::collection::vec(1_u16..8, 2..12),
        other in 1_u16..8,
    ) {
        let mut changed = weights.clone();
        changed[0] = other;
        let (before, after) = (group_of(Algorithm::Rendezvous, &weights), group_of(Algorithm::Rendezvous, &changed));
        for call in 0..1_000 {
            let (before, after) = (chosen(all(&before), call), chosen(all(&after), call));
            let gained = if other > weights[0] { after } else { before };
            prop_assert!(before == after || gained == "gw0", "{} to {}", before, after);
        }
    }

    #[test]
    fn calls_are_shared_by_weight(
        weights in proptest::collection::vec(1_u16..1_000, 2..16),
        rendezvous: bool,
        even: bool,
    ) {
        let weights: Vec<_> = weights.into_iter().map(|it| if even { 5 } else { it }).collect();
        let algorithm = if rendezvous { Algorithm::Rendezvous } else { Algorithm::Random };
        let gateways = group_of(algorithm, &weights);
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        for (found, weight) in counts(&gateways, CALLS).into_iter().zip(&weights) {
            let share = f64::from(*weight) / f64::from(sum);
            prop_assert!(is_near(found, CALLS, share), "{} of {}", found, share);
        }
    }

    #[test]
    fn round_robin_gives_each_member_its_weight_in_every_round(
        weights in proptest::collection::vec(1_u16..30, 1..12),
    ) {
        let gateways = group_of(Algorithm::RoundRobin, &weights);
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        for _ in 0..3 {
            let expected: Vec<_> = weights.iter().copied().map(u32::from).collect();
            prop_assert_eq!(counts(&gateways, sum), expected);
        }
    }

    #[test]
    fn least_calls_keeps_live_calls_in_the_ratio_of_the_weights(
        weights in proptest::collection::vec(1_u16..20, 1..12),
    ) {
        let gateways = group_of(Algorithm::LeastCalls, &weights);
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        let places: Vec<_> = (0..sum * 3).map(|call| choose(all(&gateways), call.into())).collect();
        for (gateway, weight) in gateways.gateways().iter().zip(&weights) {
            prop_assert_eq!(gateway.live_calls(), u64::from(*weight) * 3);
        }
        drop(places);
        prop_assert!(gateways.gateways().iter().all(|it| it.live_calls() == 0));
    }
}

#[test]
fn idle_members_with_equal_weights_share_the_calls_of_least_calls() {
    let gateways = group_of(Algorithm::LeastCalls, &[1, 1, 1]);
    for found in counts(&gateways, CALLS) {
        assert!(is_near(found, CALLS, 1.0 / 3.0), "{found}");
    }
}

#[test]
fn the_first_calls_of_least_calls_go_to_the_heaviest_member() {
    let gateways = group_of(Algorithm::LeastCalls, &[1, 9]);
    assert_eq!(counts(&gateways, 100), [0, 100]);
}

/// A worker has the calls whose hash has one remainder, so the hash as it is would choose one gateway for all of them.
#[test]
fn the_calls_of_one_worker_are_shared_as_well() {
    for algorithm in [
        Algorithm::Rendezvous,
        Algorithm::Random,
        Algorithm::LeastCalls,
    ] {
        let gateways = group_of(algorithm, &[1, 1, 1]);
        let group = all(&gateways);
        let first = gateways.gateways()[0].name();
        let of_first = (0..CALLS).filter(|call| chosen(group, u64::from(*call) * 3) == first);
        let found = of_first.count() as u32;
        assert!(is_near(found, CALLS, 1.0 / 3.0), "{algorithm:?}: {found}");
    }
}

#[test]
fn round_robin_is_exact_over_threads() {
    for (weights, rounds) in [(vec![1_u16, 1, 1, 1], 5_000_u32), (vec![5, 3, 1], 2_000)] {
        let gateways = group_of(Algorithm::RoundRobin, &weights);
        let sum: u32 = weights.iter().copied().map(u32::from).sum();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for call in 0..rounds * sum {
                        assert!(choose(all(&gateways), call.into()).is_some());
                    }
                });
            }
        });
        for (gateway, weight) in gateways.gateways().iter().zip(&weights) {
            let tried = gateway.view(START).statistics.tried;
            assert_eq!(tried, u64::from(rounds * 4) * u64::from(*weight));
        }
    }
}

#[test]
fn round_robin_does_not_send_the_turns_of_a_heavy_member_in_a_row() {
    let gateways = group_of(Algorithm::RoundRobin, &[80, 40, 10]);
    let turns: String = (0..13)
        .map(|call| chosen(all(&gateways), call).replace("gw", ""))
        .collect();
    assert_eq!(turns, "0101001020010");
}

#[test]
fn round_robin_stays_fair_without_a_member() {
    let even = group_of(Algorithm::RoundRobin, &[1, 1, 1, 1]);
    make_inactive(gateway(&even, "gw1"), START);
    assert_eq!(counts(&even, 300), [100, 0, 100, 100]);
    let uneven = group_of(Algorithm::RoundRobin, &[4, 2, 1]);
    make_inactive(gateway(&uneven, "gw1"), START);
    let found = counts(&uneven, 1_000);
    assert!(found[1] == 0 && found[0].abs_diff(800) <= 3, "{found:?}");
}
