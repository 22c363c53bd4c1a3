//! Calls that may go to several groups: members that are up come first, over all groups.

use crate::setup::{START, build, description, gateway, make_inactive};
use proptest::prelude::*;
use sip_routing::gateway::{
    Algorithm, AllInactive, Descriptions, Gateway, Gateways, Group, GroupDescription,
    MemberDescription, NoRates, Outcome, Place, Search, Skip, Verdict, explain,
};
use sip_transport::Time;
use std::sync::Arc;
use std::time::Duration;

/// Long enough after `START` for a trial.
const NOW: Time = Time::from_unix_seconds(1_800_003_600);

/// The group `berlin` of `b1` and `b2`, and the group `world` of `w1` and `b1`.
fn berlin_and_world() -> Descriptions {
    Descriptions {
        gateways: ["b1", "b2", "w1"].map(description).into(),
        groups: vec![
            GroupDescription::new("berlin").member("b1").member("b2"),
            GroupDescription::new("world").member("w1").member("b1"),
        ],
    }
}

fn groups<'g>(gateways: &'g Gateways, names: &[&str]) -> Vec<&'g Group> {
    let group = |name: &&str| &**gateways.group(name).expect("the group");
    names.iter().map(group).collect()
}

/// The gateways that a call tries one after the other while all fail, and whether as the last resort.
fn order(groups: &[&Group], call: u64) -> Vec<(String, bool)> {
    let (mut tried, mut order) = (Vec::<Arc<Gateway>>::new(), Vec::new());
    loop {
        let is_tried = |gateway: &Arc<Gateway>| tried.iter().any(|it| Arc::ptr_eq(it, gateway));
        let all = groups.iter().map(|group| (*group, group.those(is_tried)));
        let first = Search::new(all.clone(), call, NOW).first();
        let choice = Search::new(all, call, NOW).choose(&mut NoRates);
        let chosen = choice.as_ref().map(|choice| choice.gateway.name());
        assert_eq!(first.map(|gateway| gateway.name()), chosen);
        let Some(choice) = choice else {
            return order;
        };
        assert!(!is_tried(choice.gateway), "{chosen:?} twice");
        order.push((choice.gateway.name().to_owned(), choice.last_resort));
        tried.push(Arc::clone(choice.gateway));
    }
}

/// The same, as a sorted list of names. All must be the last resort, or none.
fn names_of(groups: &[&Group], is_last_resort: bool) -> Vec<String> {
    let order = order(groups, 1).into_iter();
    let names = order.map(|(name, last_resort)| {
        assert_eq!(last_resort, is_last_resort, "{name}");
        name
    });
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn members_that_are_up_come_before_inactive_ones_of_an_earlier_group() {
    let gateways = build(berlin_and_world());
    let both = groups(&gateways, &["berlin", "world"]);
    for name in ["b1", "b2"] {
        make_inactive(gateway(&gateways, name), NOW);
    }
    assert_eq!(names_of(&both, false), ["w1"]);
    make_inactive(gateway(&gateways, "w1"), NOW);
    assert_eq!(names_of(&both, true), ["b1", "b2", "w1"]);
    assert_eq!(order(&both, 1)[2].0, "w1");
    let b2 = gateway(&gateways, "b2");
    for _ in 0..b2.description().health.answers {
        b2.probed(Outcome::status(200), NOW);
    }
    assert_eq!(names_of(&both, false), ["b2"]);
}

#[test]
fn the_overflow_of_a_group_does_not_go_to_inactive_members_of_another_one() {
    let mut all_of = berlin_and_world();
    all_of.gateways[0].max_calls = Some(1);
    let gateways = build(all_of);
    for name in ["b2", "w1"] {
        make_inactive(gateway(&gateways, name), NOW);
    }
    let _place = gateway(&gateways, "b1").occupy();
    assert!(order(&groups(&gateways, &["berlin", "world"]), 1).is_empty());
    assert!(order(&groups(&gateways, &["world", "berlin"]), 1).is_empty());
}

#[test]
fn a_trial_in_a_later_group_comes_before_the_last_resort() {
    let mut all_of = berlin_and_world();
    all_of.gateways[2].health.probe = false;
    let gateways = build(all_of);
    make_inactive(gateway(&gateways, "w1"), START);
    for name in ["b1", "b2"] {
        make_inactive(gateway(&gateways, name), NOW);
    }
    let order = order(&groups(&gateways, &["berlin", "world"]), 1);
    assert_eq!(order[0], ("w1".to_owned(), false));
    assert!(order.len() == 3 && order[1].1 && order[2].1, "{order:?}");
}

#[test]
fn round_robin_stays_exact_while_no_member_is_up() {
    let mut all_of = berlin_and_world();
    for group in &mut all_of.groups {
        group.algorithm = Algorithm::RoundRobin;
    }
    let gateways = build(all_of);
    for gateway in gateways.gateways() {
        make_inactive(gateway, NOW);
    }
    let both = groups(&gateways, &["berlin", "world"]);
    let firsts: Vec<_> = (0..6).map(|call| order(&both, call).remove(0).0).collect();
    assert_eq!(firsts, ["b1", "b2", "b1", "b2", "b1", "b2"]);
}

/// A group: how it chooses, whether it refuses calls while no gateway is up, and the number, weight and priority of each member.
type Declared = (Algorithm, bool, Vec<(usize, u16, u16)>);

/// Ten gateways with these conditions: 0 to 3 up, 4 inactive, 5 resting, 6 disabled, 7 full, 8 inactive and due for a trial.
fn gateways_of(conditions: &[u8; 10], declared: &[Declared]) -> (Gateways, Vec<Place>) {
    let names: Vec<String> = (0..10).map(|number| format!("gw{number}")).collect();
    let mut all_of = Descriptions::default();
    for (name, condition) in names.iter().zip(conditions) {
        let mut gateway = description(name);
        gateway.max_calls = (*condition == 7).then_some(1);
        gateway.health.probe = *condition != 8;
        all_of.gateways.push(gateway);
    }
    for ((algorithm, refuse, members), number) in declared.iter().zip(0..) {
        let mut group = GroupDescription::new(&format!("group{number}"));
        group.algorithm = *algorithm;
        if *refuse {
            group.all_inactive = AllInactive::Refuse;
        }
        for (member, weight, priority) in members {
            group.members.push(MemberDescription {
                gateway: names[*member].as_str().into(),
                weight: *weight,
                priority: *priority,
            });
        }
        all_of.groups.push(group);
    }
    let gateways = build(all_of);
    let mut places = Vec::new();
    for (gateway, condition) in gateways.gateways().iter().zip(conditions) {
        let rest = Outcome::Response {
            status: 503,
            retry_after: Some(Duration::from_secs(9)),
        };
        match condition {
            4 => make_inactive(gateway, NOW),
            5 => assert!(gateway.call_ended(rest, NOW).is_some()),
            6 => assert!(gateway.disable(NOW)),
            7 => places.push(gateway.occupy()),
            8 => make_inactive(gateway, START),
            _ => {}
        }
    }
    (gateways, places)
}

fn group() -> impl Strategy<Value = Declared> {
    let algorithms = [
        Algorithm::Rendezvous,
        Algorithm::RoundRobin,
        Algorithm::Random,
        Algorithm::LeastCalls,
    ];
    let members = prop::sample::subsequence((0..10).collect::<Vec<usize>>(), 1..5);
    let members = members.prop_flat_map(|members| {
        let each = |member| (Just(member), 1_u16..5, 0_u16..3);
        members.into_iter().map(each).collect::<Vec<_>>()
    });
    (
        prop::sample::select(algorithms.to_vec()),
        any::<bool>(),
        members,
    )
}

proptest! {
    #[test]
    fn a_call_does_what_the_explanation_says(
        conditions: [u8; 10],
        all_down: bool,
        declared in prop::collection::vec(group(), 1..5),
        call: u64,
    ) {
        let conditions = conditions.map(|it| if all_down { 4 + it % 5 } else { it % 9 });
        let (gateways, _places) = gateways_of(&conditions, &declared);
        let names: Vec<String> = (0..declared.len()).map(|it| format!("group{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let groups = groups(&gateways, &names);
        let mut counts = vec![0; groups.len()];
        let (mut taken, mut skipped) = (Vec::new(), Vec::new());
        explain(&groups, call, NOW, |group, gateway, verdict| {
            counts[group] += 1;
            match verdict {
                Verdict::Skip(why) => skipped.push((gateway.name().to_owned(), why)),
                _ => taken.push((gateway.name().to_owned(), verdict == Verdict::LastResort)),
            }
        });
        let members = declared.iter().map(|(.., members)| members.len());
        prop_assert_eq!(counts, members.collect::<Vec<_>>(), "each member once");
        for (name, why) in skipped {
            let is_taken = taken.iter().any(|(it, _)| *it == name);
            prop_assert_eq!(is_taken, why == Skip::Tried, "{}", name);
        }
        prop_assert_eq!(taken, order(&groups, call));
    }
}
