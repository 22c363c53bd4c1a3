//! Every bad description is refused with the name, the value and what is allowed.

use crate::setup::{description, descriptions};
use sip_routing::gateway::{Descriptions, Gateways, GroupDescription, StatusSet};
use std::time::Duration;

type Change = fn(&mut Descriptions);

/// Changes a good configuration of the gateways `a` and `b`, and returns the error.
fn error(change: Change) -> String {
    let mut all = descriptions(&["a", "b"]);
    change(&mut all);
    let error = Gateways::new(all, None).expect_err("a bad description");
    error.to_string()
}

#[test]
fn bad_gateways_are_refused() {
    let rows: [(Change, &str); 17] = [
        (
            |it| it.gateways[0].name = "".into(),
            "gateway ``: a name has 1 to 128 visible ASCII characters, without spaces",
        ),
        (
            |it| it.gateways[0].name = "a b".into(),
            "gateway `a b`: a name has 1 to 128 visible ASCII characters, without spaces",
        ),
        (
            |it| it.gateways[0].name = "b".into(),
            "gateway `b` is declared twice; give each gateway a name of its own",
        ),
        (
            |it| it.gateways[0].destination.host = "".into(),
            "gateway `a` has no host; allowed: a domain name or an address",
        ),
        (
            |it| it.gateways[0].destination.port = Some(0),
            "gateway `a` has port 0; allowed: 1 to 65535, or none for the port of the protocol",
        ),
        (
            |it| it.gateways[0].max_calls = Some(0),
            "gateway `a`: a maximum of 0 calls; allowed: 1 or more. To take a gateway out, disable it",
        ),
        (
            |it| it.gateways[0].health.misses = 0,
            "gateway `a`: the number of misses is 0; allowed: 1 to 100",
        ),
        (
            |it| it.gateways[0].health.answers = 101,
            "gateway `a`: the number of answers is 101; allowed: 1 to 100",
        ),
        (
            |it| it.gateways[0].health.weights.timeout = 101,
            "gateway `a`: the weight of a timeout is 101; allowed: 0 to 100",
        ),
        (
            |it| it.gateways[0].health.interval = Duration::from_millis(999),
            "gateway `a`: the probe interval is 999ms; allowed: 1s to 3600s",
        ),
        (
            |it| it.gateways[0].health.interval = Duration::from_secs(3_601),
            "gateway `a`: the probe interval is 3601s; allowed: 1s to 3600s",
        ),
        (
            |it| it.gateways[0].health.timeout = Duration::ZERO,
            "gateway `a`: the probe timeout is 0ns; allowed: 100ms to 30s",
        ),
        (
            |it| it.gateways[0].health.timeout = Duration::from_secs(31),
            "gateway `a`: the probe timeout is 31s; allowed: 100ms to 30s",
        ),
        (
            |it| it.gateways[0].health.longest_rest = Duration::from_secs(3_601),
            "gateway `a`: the longest rest is 3601s; allowed: 0ns to 3600s",
        ),
        (
            |it| it.gateways[0].health.probe_answers = StatusSet::EMPTY,
            "gateway `a` could never be active: no response to a probe counts as an answer; allowed: 1 or more codes from 200 to 699",
        ),
        (
            |it| it.gateways[0].failover.codes = StatusSet::EMPTY.with(603, 603),
            "gateway `a` would fail over on 603; allowed: 300 to 599. A 2xx ends the search, and a 6xx speaks for the callee everywhere",
        ),
        (
            |it| {
                it.gateways = (0..10_001)
                    .map(|number| description(&number.to_string()))
                    .collect();
            },
            "10001 gateways are declared; allowed: up to 10000",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(error(change), expected);
    }
}

#[test]
fn bad_groups_are_refused() {
    let rows: [(Change, &str); 9] = [
        (
            |it| it.groups[0].name = "ä".into(),
            "gateway group `ä`: a name has 1 to 128 visible ASCII characters, without spaces",
        ),
        (
            |it| it.groups.push(it.groups[0].clone()),
            "gateway group `all` is declared twice; give each group a name of its own",
        ),
        (
            |it| it.groups[0].members.clear(),
            "gateway group `all` has no members; allowed: 1 to 64",
        ),
        (
            |it| it.groups[0].members[1].gateway = "c".into(),
            "gateway group `all` names `c`, which is not declared; declare the gateway, or remove the member",
        ),
        (
            |it| it.groups[0].members[1].gateway = "a".into(),
            "gateway group `all` lists `a` twice; list it once, with the sum of the weights",
        ),
        (
            |it| it.groups[0].members[1].weight = 0,
            "gateway group `all`: `b` has weight 0; allowed: 1 to 1000. To take a gateway out, disable it",
        ),
        (
            |it| it.groups[0].members[1].weight = 1_001,
            "gateway group `all`: `b` has weight 1001; allowed: 1 to 1000. To take a gateway out, disable it",
        ),
        (
            |it| {
                let group = GroupDescription::new("all");
                it.groups[0] =
                    (0..65).fold(group, |group, number| group.member(&number.to_string()));
            },
            "gateway group `all` has 65 members; allowed: 1 to 64. Split it into groups",
        ),
        (
            |it| it.groups = vec![it.groups[0].clone(); 10_001],
            "10001 gateway groups are declared; allowed: up to 10000",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(error(change), expected);
    }
}
