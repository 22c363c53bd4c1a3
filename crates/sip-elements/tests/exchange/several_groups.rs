//! Requests to several groups of gateways: gateways that are up come first, and inactive ones are the last resort of all groups together.

use crate::bench::{ALICE, request, status};
use crate::explaining::explained;
use crate::routed::{AS_ALICE, Declared, GW_A, GW_B, GW_C, NUMBER, Routed, invite, one, routed};
use sip_elements::explain::Way;
use sip_routing::gateway::{AllInactive, GroupDescription, Outcome, Skip, Verdict};
use std::time::Duration;

const REFUSED: &str = "503 Service Unavailable";

/// Numbers go to the group `berlin`, which tries `a`, then `b`, and then to the group `world`, which tries `c`, then `a`.
fn declared() -> Declared {
    let mut declared = Declared::to_group("pstn");
    declared.rules[0].group = None;
    declared.rules[0].prefixes = Some("default".into());
    declared.prefixes = vec![("", "4989", "berlin; world")];
    for gateway in &mut declared.gateways.gateways {
        gateway.health.probe = true;
    }
    let mut berlin = GroupDescription::new("berlin").member("a").member("b");
    let mut world = GroupDescription::new("world").member("c").member("a");
    berlin.members[1].priority = 1;
    world.members[1].priority = 1;
    declared.gateways.groups.extend([berlin, world]);
    declared
}

fn make_inactive(node: &Routed, names: &[&str]) {
    for name in names {
        let gateway = node.gateway(name);
        for _ in 0..gateway.description().health.misses {
            gateway.probed(Outcome::Timeout, node.bench.now);
        }
    }
}

/// The gateways that a call goes to, one after the other, and the status that the caller gets in the end.
fn tried(node: &mut Routed) -> (Vec<String>, u16) {
    let mut call = node.call();
    let mut tried = Vec::new();
    while call.0 != ALICE {
        tried.push(call.0.clone());
        call = one(node.reply(&call, REFUSED));
    }
    (tried, status(&call.1))
}

/// Each row of the explanation: group, gateway and verdict.
fn verdicts(node: &Routed) -> Vec<(String, String, Verdict)> {
    let explanation = explained(node, &invite("i1", "")).expect("an explanation");
    let Way::Gateways { groups, .. } = explanation.way else {
        panic!("{explanation:?}")
    };
    let mut rows = Vec::new();
    for group in groups {
        for member in group.members {
            rows.push((
                group.name.to_string(),
                member.gateway.to_string(),
                member.verdict,
            ));
        }
    }
    rows
}

fn assert_verdicts(node: &Routed, expected: [(&str, &str, Verdict); 4]) {
    let found = verdicts(node);
    let found = found
        .iter()
        .map(|(group, gateway, verdict)| (&**group, &**gateway, *verdict));
    assert!(found.eq(expected), "{:#?}", verdicts(node));
}

#[test]
fn a_call_passes_over_a_dead_group_while_the_next_one_has_a_gateway_that_is_up() {
    let mut node = routed(declared());
    make_inactive(&node, &["a", "b"]);
    assert_verdicts(
        &node,
        [
            ("berlin", "a", Verdict::Skip(Skip::Inactive)),
            ("berlin", "b", Verdict::Skip(Skip::Inactive)),
            ("world", "c", Verdict::Try),
            ("world", "a", Verdict::Skip(Skip::Inactive)),
        ],
    );
    assert_eq!(tried(&mut node), (vec![GW_C.into()], 500));
}

#[test]
fn other_requests_pass_over_a_dead_group_too() {
    let mut node = routed(declared());
    make_inactive(&node, &["a", "b"]);
    let message = request("MESSAGE", NUMBER, AS_ALICE, "m1", "");
    let (to, _) = node.bench.receive(ALICE, &message).pop().expect("a copy");
    assert_eq!(to.to_string(), GW_C);
}

#[test]
fn while_no_gateway_is_up_a_call_tries_each_gateway_of_all_groups_once() {
    let mut node = routed(declared());
    make_inactive(&node, &["a", "b", "c"]);
    assert_verdicts(
        &node,
        [
            ("berlin", "a", Verdict::LastResort),
            ("berlin", "b", Verdict::LastResort),
            ("world", "c", Verdict::LastResort),
            ("world", "a", Verdict::Skip(Skip::Tried)),
        ],
    );
    let all = [GW_A, GW_B, GW_C].map(String::from);
    assert_eq!(tried(&mut node), (all.into(), 500));
}

#[test]
fn each_group_decides_whether_its_inactive_gateways_are_tried() {
    let mut declared = declared();
    let mut groups = declared.gateways.groups.iter_mut();
    let berlin = groups.find(|group| &*group.name == "berlin");
    berlin.expect("the group").all_inactive = AllInactive::Refuse;
    let mut node = routed(declared);
    make_inactive(&node, &["a", "b", "c"]);
    assert_verdicts(
        &node,
        [
            ("berlin", "a", Verdict::Skip(Skip::Tried)),
            ("berlin", "b", Verdict::Skip(Skip::Inactive)),
            ("world", "c", Verdict::LastResort),
            ("world", "a", Verdict::LastResort),
        ],
    );
    let all = [GW_C, GW_A].map(String::from);
    assert_eq!(tried(&mut node), (all.into(), 500));
}

#[test]
fn a_silent_gateway_is_not_given_up_for_a_dead_one_of_another_group() {
    let mut node = routed(declared());
    make_inactive(&node, &["a", "b"]);
    assert_eq!(node.call().0, GW_C);
    let sent = node.bench.wait(Duration::from_secs(20));
    assert!(!sent.is_empty(), "retransmissions");
    assert!(
        sent.iter()
            .all(|(to, text)| to.to_string() == GW_C && text.starts_with("INVITE ")),
        "{sent:#?}"
    );
}

#[test]
fn a_gateway_of_an_earlier_group_that_has_room_again_gets_the_call() {
    let mut declared = declared();
    declared.gateways.gateways[1].max_calls = Some(1);
    let mut node = routed(declared);
    make_inactive(&node, &["a"]);
    let place = node.gateway("b").occupy();
    let call = node.call();
    assert_eq!(call.0, GW_C);
    drop(place);
    let (to, _) = one(node.reply(&call, REFUSED));
    assert_eq!(to, GW_B);
}
