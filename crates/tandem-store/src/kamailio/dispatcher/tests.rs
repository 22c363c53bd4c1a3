//! What rows become, and what is said about them.

use super::*;
use proptest::prelude::*;
use sip_routing::gateway::{Algorithm, Gateways};

/// Set, destination, flags, priority, attributes.
type Columns<'r> = (i64, &'r str, i64, i64, &'r str);

fn translate(options: &DispatcherOptions, rows: &[Columns<'_>]) -> TranslatedDispatcher {
    let mut translation = DispatcherTranslation::new(options);
    for ((set, destination, flags, priority, attributes), number) in rows.iter().zip(1..) {
        translation.add(&DispatcherRow {
            number,
            set: *set,
            destination,
            flags: *flags,
            priority: *priority,
            attributes,
        });
    }
    let translated = translation.finish();
    let accepted = Gateways::new(translated.descriptions.clone(), None);
    accepted.expect("are accepted");
    translated
}

fn with(algorithm: u32) -> DispatcherOptions {
    DispatcherOptions {
        algorithm: algorithm.try_into().expect("is supported"),
        ..DispatcherOptions::default()
    }
}

/// Name, weight and priority of the members of a set.
fn members(translated: &TranslatedDispatcher, set: u32) -> Vec<(&str, u16, u16)> {
    let name = dispatcher_group(set);
    let mut groups = translated.descriptions.groups.iter();
    let group = groups.find(|group| *group.name == *name);
    let members = group.into_iter().flat_map(|group| &group.members);
    members
        .map(|it| (&*it.gateway, it.weight, it.priority))
        .collect()
}

fn names(translated: &TranslatedDispatcher) -> Vec<&str> {
    let gateways = translated.descriptions.gateways.iter();
    gateways.map(|gateway| &*gateway.name).collect()
}

fn problems(translated: &TranslatedDispatcher) -> Vec<(u32, DispatcherProblem)> {
    let findings = translated.findings.iter();
    findings
        .map(|it| (it.row, it.problem.clone().expect("is listed")))
        .collect()
}

const A: &str = "sip:192.0.2.1";
const B: &str = "sip:192.0.2.2";
const C: &str = "sip:192.0.2.3";

#[test]
fn a_destination_in_two_sets_is_one_gateway() {
    let rows = [
        (2, A, 0, 0, ""),
        (1, "sip:192.0.2.1:5060", 0, 0, "duid=berlin"),
        (1, B, 0, 0, ""),
        (1, A, 0, 0, ""),
    ];
    let translated = translate(&with(4), &rows);
    assert_eq!(names(&translated), ["berlin", "192.0.2.2"]);
    assert_eq!(members(&translated, 2), [("berlin", 1, 0)]);
    let both = [("berlin", 1, 0), ("192.0.2.2", 1, 0)];
    assert_eq!(members(&translated, 1), both);
    assert_eq!(problems(&translated), [(4, DispatcherProblem::Repeated)]);
}

#[test]
fn an_id_names_one_gateway_only() {
    use DispatcherProblem::{BadId, OtherId, RepeatedId};
    let long = format!("duid={}", "x".repeat(129));
    let rows = [
        (1, A, 0, 0, "duid=one"),
        (1, B, 0, 0, "duid=one"),
        (2, A, 0, 0, "duid=two"),
        (1, C, 0, 0, &*long),
        (2, C, 0, 0, "duid=t wo"),
        (2, "sip:gw1", 0, 0, "duid=gw2"),
        (2, "sip:gw2", 0, 0, ""),
    ];
    let translated = translate(&with(0), &rows);
    let expected = ["one", "192.0.2.2", "192.0.2.3", "gw1", "gw2"];
    assert_eq!(names(&translated), expected);
    let expected = [(2, RepeatedId), (3, OtherId), (4, BadId)];
    assert_eq!(problems(&translated), expected);
    assert_eq!(translated.findings[2].rows, 2);
}

#[test]
fn a_gateway_without_any_name_is_left_out() {
    let long = format!("sip:{}.example.net", "x".repeat(128));
    let rows = [(1, &*long, 0, 0, ""), (2, &*long, 0, 0, "duid=short")];
    let translated = translate(&with(0), &rows);
    assert_eq!(names(&translated), ["short"]);
    let expected = [
        (1, DispatcherProblem::NoName),
        (1, DispatcherProblem::NoMembers),
    ];
    let mut found = problems(&translated);
    found.sort_by_key(|(_, problem)| *problem == DispatcherProblem::NoMembers);
    assert_eq!(found, expected);
}

#[test]
fn only_the_serial_algorithm_follows_priorities_and_takes_the_later_of_equal_ones() {
    let rows = [(1, A, 0, 5, ""), (1, B, 0, 10, ""), (1, C, 0, 5, "")];
    let serial = translate(&with(8), &rows);
    let expected = [
        ("192.0.2.2", 1, 0),
        ("192.0.2.3", 1, 1),
        ("192.0.2.1", 1, 2),
    ];
    assert_eq!(members(&serial, 1), expected);
    for (number, algorithm) in [
        (0, Algorithm::Rendezvous),
        (4, Algorithm::RoundRobin),
        (6, Algorithm::Random),
        (10, Algorithm::LeastCalls),
    ] {
        let translated = translate(&with(number), &rows);
        let expected = [
            ("192.0.2.1", 1, 0),
            ("192.0.2.2", 1, 0),
            ("192.0.2.3", 1, 0),
        ];
        assert_eq!(members(&translated, 1), expected, "{number}");
        assert_eq!(translated.descriptions.groups[0].algorithm, algorithm);
    }
}

#[test]
fn weights_are_those_of_the_algorithm_and_a_member_without_one_is_the_last_resort() {
    use DispatcherProblem::{NoWeight, WeightSum};
    let rows = [
        (1, A, 0, 0, "weight=60;rweight=1"),
        (1, B, 0, 0, "weight=30;rweight=3"),
        (1, C, 0, 0, ""),
    ];
    for (number, weights, expected) in [
        (9, [60, 30], vec![(1, WeightSum { sum: 90 }), (3, NoWeight)]),
        (11, [1, 3], vec![(3, NoWeight)]),
    ] {
        let translated = translate(&with(number), &rows);
        let [a, b] = weights;
        let shares = [
            ("192.0.2.1", a, 0),
            ("192.0.2.2", b, 0),
            ("192.0.2.3", 1, 1),
        ];
        assert_eq!(members(&translated, 1), shares);
        assert_eq!(problems(&translated), expected);
    }
}

#[test]
fn the_maximum_counts_with_the_algorithm_that_follows_it_and_of_two_the_smaller_one() {
    use DispatcherProblem::{OtherMaximum, UnusedMaximum};
    let rows = [
        (1, A, 0, 0, "maxload=20"),
        (2, A, 0, 0, "maxload=10"),
        (3, B, 0, 0, "maxload=5"),
    ];
    let options = DispatcherOptions {
        algorithms: [(3, DispatcherAlgorithm::RoundRobin)].into(),
        ..with(10)
    };
    let translated = translate(&options, &rows);
    let gateways = translated.descriptions.gateways.iter();
    let maxima: Vec<Option<u32>> = gateways.map(|gateway| gateway.max_calls).collect();
    assert_eq!(maxima, [Some(10), None]);
    assert_eq!(
        problems(&translated),
        [(2, OtherMaximum), (3, UnusedMaximum)]
    );
}

#[test]
fn flags_say_who_gets_calls_and_who_is_probed() {
    use DispatcherProbing::{All, Flagged, Never};
    use DispatcherProblem::{Disabled, Inactive, StartsInactive, UnknownFlags};
    for (flags, probing, probed, problem) in [
        (0, All, Some(true), None),
        (0, Flagged, Some(false), None),
        (0, Never, Some(false), None),
        (8, Flagged, Some(true), None),
        (8, Never, Some(false), None),
        (32, All, Some(false), None),
        (8 | 32, Flagged, Some(false), None),
        (2 | 16, All, Some(true), None),
        (4, All, None, Some(Disabled)),
        (1, Flagged, None, Some(Inactive)),
        (1 | 32, All, None, Some(Inactive)),
        (1, All, Some(true), Some(StartsInactive)),
        (1 | 8, Flagged, Some(true), Some(StartsInactive)),
        (64, All, Some(true), Some(UnknownFlags { flags: 64 })),
    ] {
        let options = DispatcherOptions {
            probing,
            ..DispatcherOptions::default()
        };
        let translated = translate(&options, &[(1, A, flags, 0, ""), (1, B, 0, 0, "")]);
        let mut gateways = translated.descriptions.gateways.iter();
        let gateway = gateways.find(|gateway| &*gateway.name == "192.0.2.1");
        assert_eq!(
            gateway.map(|it| it.health.probe),
            probed,
            "{flags} {probing:?}"
        );
        let first = problems(&translated).into_iter().next();
        assert_eq!(
            first.map(|(_, problem)| problem),
            problem,
            "{flags} {probing:?}"
        );
    }
}

#[test]
fn a_gateway_is_probed_if_one_of_its_rows_says_so() {
    let rows = [(1, A, 32, 0, ""), (2, A, 0, 0, ""), (3, A, 32, 0, "")];
    let translated = translate(&with(0), &rows);
    assert!(translated.descriptions.gateways[0].health.probe);
}

#[test]
fn a_row_that_cannot_be_used_is_left_out_and_a_set_without_others_is_named() {
    use DispatcherProblem::{NoMembers, NoSet, NoSipUri};
    let rows = [
        (-1, A, 0, 0, ""),
        (1 << 31, A, 0, 0, ""),
        (1, "", 0, 0, ""),
        (1, "tel:+4930", 0, 0, "socket=udp:1"),
    ];
    let translated = translate(&with(0), &rows);
    assert_eq!(translated.descriptions, Descriptions::default());
    let mut found = problems(&translated);
    found.sort();
    let mut expected = [(1, NoSet), (3, NoSipUri), (3, NoMembers)];
    expected.sort();
    assert_eq!(found, expected);
    let leaves_out = |finding: &Finding<DispatcherProblem>| {
        let problem = finding.problem.as_ref();
        problem.is_some_and(DispatcherProblem::leaves_out)
    };
    assert!(translated.findings.iter().all(leaves_out));
}

#[test]
fn what_is_too_much_is_left_out() {
    use DispatcherProblem::{TooManyGateways, TooManyMembers};
    let options = with(0);
    let mut translation = DispatcherTranslation::new(&options);
    for number in 0..10_001_u32 {
        translation.add(&DispatcherRow {
            number,
            set: i64::from(number / 65),
            destination: &format!("sip:gw{number}"),
            flags: 0,
            priority: 0,
            attributes: "",
        });
    }
    let translated = translation.finish();
    let found = problems(&translated);
    assert_eq!(found, [(64, TooManyMembers), (10_000, TooManyGateways)]);
    assert_eq!(members(&translated, 0).len(), 64);
    Gateways::new(translated.descriptions, None).expect("are accepted");
}

fn attributes() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "duid=(gw[1-3]|192\\.0\\.2\\.[1-3])(;weight=[0-9]{1,3})?(;maxload=[0-9])?",
        "[a-z]{1,7}=[ -~]{0,9}(;rweight=[0-9]{1,3})?",
        "\\PC{0,20}",
    ]
}

fn a_destination() -> impl Strategy<Value = String> {
    prop_oneof![
        "sips?:(gw|192\\.0\\.2\\.)[1-3](:50[0-9]0)?(;transport=(tcp|tls|ws))?",
        "(gateway-|gw)[0-3]",
        "\\PC{0,20}",
    ]
}

proptest! {
    #[test]
    fn whatever_the_rows_are_the_gateways_and_groups_are_accepted(
        rows in prop::collection::vec(
            (-1..4_i64, a_destination(), 0..70_i64, 0..3_i64, attributes()),
            0..40,
        ),
        algorithm in prop::sample::select(vec![0_u32, 4, 6, 8, 9, 10, 11]),
    ) {
        let rows: Vec<Columns<'_>> = rows
            .iter()
            .map(|(set, destination, flags, priority, attributes)| {
                (*set, &**destination, *flags, *priority, &**attributes)
            })
            .collect();
        translate(&with(algorithm), &rows);
    }
}
