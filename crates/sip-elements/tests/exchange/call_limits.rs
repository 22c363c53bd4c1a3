//! Limits of calls: what a refused call gets, and that each call gives its places back, however it ends.

use crate::bench::{ALICE, BOB, only, register, request, settings, status};
use crate::forwarding::{always, forward};
use crate::forwarding_rights::with_gateways;
use crate::live_calls::{from_alice, refuse};
use crate::routed::{AS_ALICE, Declared, NUMBER, Routed, routed, to_group};
use sip_elements::Record;
use sip_elements::metrics::Refused;
use sip_routing::limit::{Declared as Bounds, DeclaredEach, Description, NamedLimit, NetworkLimit};
use sip_routing::rule::RuleDescription;
use std::time::Duration;

/// How a call with this INVITE ends.
type End = fn(&mut Routed, &str);

const AS_BOB: &str = "sip:bob@example.org";

fn calls(most: u32) -> Bounds {
    Bounds {
        max_calls: Some(most),
        ..Bounds::default()
    }
}

fn rate(calls_per_second: f64) -> Bounds {
    Bounds {
        calls_per_second: Some(calls_per_second),
        burst: Some(1),
        max_calls: None,
    }
}

const fn each(bounds: Bounds) -> DeclaredEach {
    DeclaredEach {
        bounds,
        max_keys: 100,
    }
}

fn limited(limits: Description) -> Routed {
    with_bob(Declared {
        limits,
        ..Declared::default()
    })
}

fn with_bob(declared: Declared) -> Routed {
    let mut node = routed(declared);
    let response = only(node.bench.receive(BOB, &register("bob", BOB, 1, "")));
    assert_eq!(status(&response), 200);
    node
}

fn invite(number: u32) -> String {
    let branch = format!("i{number}");
    let invite = request("INVITE", AS_BOB, AS_ALICE, &branch, "");
    invite.replace("call-1", &format!("call-{number}"))
}

/// Alice calls. Returns the copy that Bob gets, or the refusal.
fn call(node: &mut Routed, number: u32) -> Result<String, String> {
    let sent = node.bench.receive(ALICE, &invite(number));
    let (to, text) = sent.into_iter().next_back().expect("a message");
    if to.to_string() == BOB {
        Ok(text)
    } else {
        Err(text)
    }
}

fn live(node: &Routed) -> u32 {
    node.policy.limits.overall().stats().live
}

fn accept(node: &mut Routed, invite: &str) -> String {
    only(node.bench.receive(BOB, &crate::bench::accept(invite)))
}

fn one_call_each() -> Description {
    Description {
        overall: calls(2),
        each_source: Some(each(calls(1))),
        each_subscriber: Some(each(calls(1))),
        ..Description::default()
    }
}

#[test]
fn what_a_refused_call_gets() {
    let network = |bounds| NetworkLimit {
        name: "trunk".into(),
        networks: vec!["192.0.2.0/24".parse().expect("a network")],
        bounds,
    };
    let limits = |change: fn(&mut Description, Bounds), bounds| {
        let mut limits = Description::default();
        change(&mut limits, bounds);
        limits
    };
    let overall: fn(&mut Description, Bounds) = |it, bounds| it.overall = bounds;
    let source: fn(&mut Description, Bounds) = |it, bounds| it.each_source = Some(each(bounds));
    let subscriber: fn(&mut Description, Bounds) =
        |it, bounds| it.each_subscriber = Some(each(bounds));
    for (limits, expected, retry_after) in [
        (limits(overall, calls(0)), 503, Some(7)),
        (limits(overall, rate(0.0)), 503, Some(1)),
        (limits(source, calls(0)), 503, Some(7)),
        (limits(subscriber, calls(0)), 486, None),
        (limits(subscriber, rate(0.0)), 480, Some(1)),
        (
            Description {
                networks: vec![network(calls(0))],
                ..Description::default()
            },
            503,
            Some(7),
        ),
    ] {
        let mut node = limited(limits);
        let refusal = call(&mut node, 1).expect_err("a refusal");
        assert_eq!(status(&refusal), expected);
        let lines = refusal.lines();
        let found: Vec<&str> = lines
            .filter(|line| line.starts_with("Retry-After"))
            .collect();
        let wanted = retry_after.map(|seconds| format!("Retry-After: {seconds}"));
        assert_eq!(found, wanted.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            node.bench.metrics.refusals[Refused::Limit as usize].value(),
            1
        );
        assert_eq!(node.bench.dialogs(), (0, 0));
    }
}

#[test]
fn a_rule_limits_the_calls_that_it_matches() {
    let line = RuleDescription {
        group: None,
        user: Some(vec!["bob".into()]),
        local: true,
        limit: Some("line".into()),
        ..to_group("")
    };
    let mut node = with_bob(Declared {
        rules: vec![line],
        limits: Description {
            named: vec![NamedLimit {
                name: "line".into(),
                bounds: calls(1),
            }],
            ..Description::default()
        },
        ..Declared::default()
    });
    let first = call(&mut node, 1).expect("room");
    assert_eq!(status(&call(&mut node, 2).expect_err("no room")), 503);
    node.bench.receive(BOB, &refuse(&first, "486 Busy Here"));
    call(&mut node, 3).expect("room again");
}

#[test]
fn a_call_counts_until_it_ends_however_it_ends() {
    let ends: [(&str, End); 6] = [
        ("refused", |node, invite| {
            node.bench.receive(BOB, &refuse(invite, "486 Busy Here"));
        }),
        ("cancelled", |node, invite| {
            let ringing = refuse(invite, "180 Ringing");
            node.bench.receive(BOB, &ringing);
            let cancel = request("CANCEL", AS_BOB, AS_ALICE, "i1", "");
            node.bench.receive(ALICE, &cancel);
            node.bench
                .receive(BOB, &refuse(invite, "487 Request Terminated"));
        }),
        ("silent", |node, _| {
            node.bench.wait(Duration::from_secs(33));
        }),
        ("unanswered", |node, invite| {
            node.bench.receive(BOB, &refuse(invite, "180 Ringing"));
            node.bench.wait(Duration::from_secs(186));
            node.bench.wait(Duration::from_secs(40));
        }),
        ("hung up", |node, invite| {
            let answered = accept(node, invite);
            node.bench
                .receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
            node.bench.wait(Duration::from_secs(600));
            assert_eq!(live(node), 1);
            let bye = from_alice(&answered, "BYE", 2, "");
            let bye = only(node.bench.receive(ALICE, &bye));
            node.bench.receive(BOB, &crate::bench::accept(&bye));
        }),
        ("never acknowledged", |node, invite| {
            accept(node, invite);
            assert_eq!(live(node), 1);
            node.bench.wait(Duration::from_secs(40));
        }),
    ];
    for (how, end) in ends {
        let mut node = limited(one_call_each());
        let invite = call(&mut node, 1).expect("room");
        assert_eq!(live(&node), 1, "{how}");
        assert_eq!(status(&call(&mut node, 2).expect_err("no room")), 503);
        end(&mut node, &invite);
        assert_eq!((live(&node), node.bench.dialogs()), (0, (0, 0)), "{how}");
        let limits = &node.policy.limits;
        assert_eq!(limits.subscriber_calls(b"alice@example.org"), 0, "{how}");
        call(&mut node, 3).expect("room again");
    }
}

#[test]
fn a_call_that_cannot_be_placed_counts_for_nothing() {
    let mut node = limited(one_call_each());
    let nowhere = invite(1).replace("sip:bob@", "sip:nobody@");
    node.bench.receive(ALICE, &nowhere);
    let question = node.bench.question().expect("does he exist?");
    assert_eq!(status(&only(node.bench.answer(question))), 404);
    assert_eq!(live(&node), 0);
    call(&mut node, 2).expect("room");
}

#[test]
fn requests_inside_a_call_are_no_calls() {
    let mut node = limited(one_call_each());
    let invite = call(&mut node, 1).expect("room");
    let answered = accept(&mut node, &invite);
    node.bench
        .receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
    let sent = node
        .bench
        .receive(ALICE, &from_alice(&answered, "INVITE", 2, ""));
    assert!(
        sent.iter().any(|(to, _)| to.to_string() == BOB),
        "{sent:#?}"
    );
    assert_eq!(live(&node), 1);
}

#[test]
fn calls_that_survive_a_restart_count_again() {
    let mut node = limited(one_call_each());
    let invite = call(&mut node, 1).expect("room");
    let answered = accept(&mut node, &invite);
    node.bench
        .receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
    let states = node.bench.output.drain_records();
    let mut states = states.filter_map(|record| match record {
        Record::Dialog { state, .. } => state,
        _ => None,
    });
    let state = states.next_back().expect("a state");

    let mut next = limited(one_call_each());
    next.bench.now = node.bench.now + Duration::from_secs(1);
    let now = next.bench.now;
    assert!(next.bench.exchange.restore(now, &state));
    assert_eq!(live(&next), 1);
    let limits = &next.policy.limits;
    assert_eq!(limits.subscriber_calls(b"alice@example.org"), 1);
    assert_eq!(limits.source_calls([192, 0, 2, 10].into()), 1);
    assert_eq!(status(&call(&mut next, 2).expect_err("no room")), 503);
    next.bench.wait(Duration::from_secs(25 * 3_600));
    assert_eq!(live(&next), 0);
}

#[test]
fn without_dialogs_a_call_counts_until_its_final_response() {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.record_route = false;
    let declared = Declared {
        limits: one_call_each(),
        ..Declared::default()
    };
    let mut node = crate::routed::routed_with(settings, declared);
    node.bench.receive(BOB, &register("bob", BOB, 1, ""));
    let invite = call(&mut node, 1).expect("room");
    assert_eq!(live(&node), 1);
    accept(&mut node, &invite);
    assert_eq!(live(&node), 0);
}

#[test]
fn an_invite_that_claims_a_dialog_escapes_no_maximum() {
    let claiming = invite(1).replace(
        "To: <sip:bob@example.org>",
        "To: <sip:bob@example.org>;tag=x",
    );
    for (limits, expected) in [
        (Description::default(), "INVITE "),
        (
            Description {
                overall: calls(1),
                ..Description::default()
            },
            "SIP/2.0 481 ",
        ),
    ] {
        let mut node = limited(limits);
        let sent = node.bench.receive(ALICE, &claiming);
        let (_, last) = sent.last().expect("a message");
        assert!(last.starts_with(expected), "{last}");
    }
    let mut node = routed(Declared::to_group("pstn"));
    let to_gateway = claiming.replace(
        "INVITE sip:bob@example.org",
        "INVITE sip:+4989123@example.org",
    );
    let sent = node.bench.receive(ALICE, &to_gateway);
    assert_eq!(status(&sent.last().expect("a response").1), 481);
    assert_eq!(node.live(), [0; 3]);

    let mut node = with_gateways(Description::default(), Vec::new());
    forward(&node, "bob", always(NUMBER));
    let sent = node.bench.receive(ALICE, &claiming);
    assert_eq!(status(&sent.last().expect("a response").1), 481);
    assert_eq!(node.live(), [0; 3]);
}
