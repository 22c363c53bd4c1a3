//! Limits that a reload adds or changes count the calls that are up.

use crate::bench::{ALICE, BOB, accept, accept_at, only, register, request, settings, status};
use crate::live_calls::{from_alice, refuse};
use crate::routed::{AS_ALICE, Declared, NUMBER, Routed, routed_with};
use sip_elements::services::CallForwarding;
use sip_elements::{
    ControlMessage, Description as Body, Question, Record, SessionDescriptions, Settings,
};
use sip_routing::Policy;
use sip_routing::limit::{Declared as Bounds, DeclaredEach, Description, NamedLimit, NetworkLimit};
use sip_routing::rule::RuleDescription;
use sip_transport::Node;
use std::sync::Arc;
use std::time::Duration;

const CAROL: &str = "192.0.2.30:5060";
const AS_BOB: &str = "sip:bob@example.org";
/// Slots that one step looks at.
const STEP: usize = 1_024;

fn open() -> Settings {
    let mut settings = settings();
    settings.challenge.clear();
    settings.limits.parked_requests = 10;
    settings
}

fn started(settings: Settings, limits: Description) -> Routed {
    let declared = Declared {
        limits,
        ..Declared::default()
    };
    let mut node = routed_with(settings, declared);
    node.bench.receive(BOB, &register("bob", BOB, 1, ""));
    node
}

/// New settings with these limits. The count has begun, and not gone on.
fn reload(node: &mut Routed, settings: Settings, limits: Description) {
    let declared = Declared {
        limits,
        ..Declared::default()
    };
    replace(node, settings, declared);
}

/// New settings with this policy.
fn replace(node: &mut Routed, mut settings: Settings, declared: Declared) {
    let policy = declared.policy_after(&settings, Some(&node.policy));
    node.policy = Arc::clone(&policy);
    settings.policy = policy;
    let message = ControlMessage::Settings(Arc::new(settings));
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, message, &mut node.bench.output);
}

/// What is due now happens. Returns how many steps that took.
fn settle(node: &mut Routed) -> usize {
    let mut steps = 0;
    while node
        .bench
        .exchange
        .next_deadline()
        .is_some_and(|due| due <= node.bench.now)
    {
        node.bench.wait(Duration::ZERO);
        steps += 1;
    }
    steps
}

fn invite(number: usize, extra: &str) -> String {
    let invite = request("INVITE", AS_BOB, AS_ALICE, &format!("i{number}"), extra);
    invite.replace("call-1", &format!("call-{number}"))
}

/// A request of Alice in this call.
fn in_call(number: usize, answered: &str, method: &str, cseq: u32) -> String {
    from_alice(answered, method, cseq, "")
        .replace("call-1", &format!("call-{number}"))
        .replace("z9hG4bK", &format!("z9hG4bK{number}-"))
}

/// Alice hangs up.
fn hang_up(node: &mut Routed, number: usize, answered: &str) {
    let bye = in_call(number, answered, "BYE", 2);
    let bye = only(node.bench.receive(ALICE, &bye));
    node.bench.receive(BOB, &accept(&bye));
}

/// Alice calls Bob, whose phone rings or answers.
fn call(node: &mut Routed, number: usize, answers: bool) -> String {
    let sent = node.bench.receive(ALICE, &invite(number, ""));
    let (to, copy) = sent.into_iter().next_back().expect("a message");
    assert_eq!(to.to_string(), BOB, "{copy}");
    if !answers {
        node.bench.receive(BOB, &refuse(&copy, "180 Ringing"));
        return copy;
    }
    let answered = only(node.bench.receive(BOB, &accept(&copy)));
    node.bench
        .receive(ALICE, &in_call(number, &answered, "ACK", 1));
    answered
}

fn calls(most: u32) -> Bounds {
    Bounds {
        max_calls: Some(most),
        ..Bounds::default()
    }
}

fn network(name: &str, network: &str) -> NetworkLimit {
    NetworkLimit {
        name: name.into(),
        networks: vec![network.parse().expect("a network")],
        bounds: calls(10),
    }
}

fn live(policy: &Policy, name: &str) -> u32 {
    let mut limits = policy.limits.stats();
    limits.find(|it| it.name == name).expect(name).live
}

#[test]
fn limits_that_are_new_count_the_calls_that_are_up() {
    let mut node = started(open(), Description::default());
    let ringing = call(&mut node, 1, false);
    let answered = call(&mut node, 2, true);
    let each = DeclaredEach {
        bounds: calls(9),
        max_keys: 10,
    };
    let limits = Description {
        overall: calls(2),
        each_source: Some(each),
        each_subscriber: Some(each),
        networks: vec![network("lan", "192.0.2.0/24")],
        ..Description::default()
    };
    reload(&mut node, open(), limits.clone());
    settle(&mut node);
    let now = |node: &Routed| {
        let limits = &node.policy.limits;
        [
            live(&node.policy, "overall"),
            live(&node.policy, "lan"),
            limits.source_calls([192, 0, 2, 10].into()),
            limits.subscriber_calls(b"alice@example.org"),
        ]
    };
    assert_eq!(now(&node), [2; 4]);
    assert_eq!(node.bench.exchange.count_calls_with_places(), 2);
    let refused = only(node.bench.receive(ALICE, &invite(3, "")));
    assert_eq!(status(&refused), 503);
    // Once more changes nothing.
    reload(&mut node, open(), limits);
    settle(&mut node);
    assert_eq!(now(&node), [2; 4]);
    node.bench.receive(BOB, &refuse(&ringing, "486 Busy Here"));
    assert_eq!(now(&node), [1; 4]);
    hang_up(&mut node, 2, &answered);
    assert_eq!(now(&node), [0; 4]);
}

#[test]
fn a_call_moves_to_the_limit_of_the_network_that_is_its_now() {
    let of = |networks| Description {
        networks,
        ..Description::default()
    };
    let wide = network("wide", "192.0.2.0/24");
    let mut node = started(open(), of(vec![wide.clone()]));
    call(&mut node, 1, false);
    call(&mut node, 2, true);
    assert_eq!(live(&node.policy, "wide"), 2);
    let narrow = network("narrow", "192.0.2.10/32");
    reload(&mut node, open(), of(vec![wide, narrow]));
    settle(&mut node);
    let found = ["wide", "narrow"].map(|name| live(&node.policy, name));
    assert_eq!(found, [0, 2]);
    // While nothing is limited, nothing is counted; afterwards everything is.
    reload(&mut node, open(), Description::default());
    settle(&mut node);
    reload(
        &mut node,
        open(),
        of(vec![network("again", "192.0.2.0/24")]),
    );
    settle(&mut node);
    assert_eq!(live(&node.policy, "again"), 2);
}

#[test]
fn thousands_of_calls_are_counted_in_bounded_steps_while_others_begin_and_end() {
    let limits = || Description {
        overall: calls(100_000),
        ..Description::default()
    };
    let mut node = started(open(), Description::default());
    let mut answered = Vec::new();
    for number in 0..3 * STEP {
        answered.push(call(&mut node, number, true));
        node.bench.output.drain_records().for_each(drop);
    }
    reload(&mut node, open(), limits());
    let (mut steps, mut counted) = (0, 0);
    while steps < 100 && counted < 3 * STEP as u32 {
        node.bench.wait(Duration::ZERO);
        let now = live(&node.policy, "overall");
        assert!(now - counted <= STEP as u32, "{now} after {counted}");
        counted = now;
        steps += 1;
    }
    assert!((3..=10).contains(&steps), "{steps}");
    for (number, answered) in answered.iter().enumerate() {
        hang_up(&mut node, number, answered);
        node.bench.output.drain_records().for_each(drop);
    }
    settle(&mut node);
    assert_eq!(live(&node.policy, "overall"), 0);
}

#[test]
fn a_call_that_waits_for_its_session_description_counts_when_it_goes_on() {
    let asking = || {
        let mut settings = open();
        settings.proxy.session_descriptions = SessionDescriptions::Ask;
        settings
    };
    let mut node = started(asking(), Description::default());
    let body = "v=0\n";
    let described = invite(1, "Content-Type: application/sdp\n").replace(
        "Content-Length: 0\n\n",
        &format!("Content-Length: 5\n\n{body}"),
    );
    node.bench.receive(ALICE, &described);
    let limits = Description {
        overall: calls(5),
        ..Description::default()
    };
    reload(&mut node, asking(), limits);
    settle(&mut node);
    assert_eq!(live(&node.policy, "overall"), 0);
    let Some(Question::Describe { ticket, .. }) = node.bench.question() else {
        panic!("no question");
    };
    let result = Ok(Body::Keep);
    let message = ControlMessage::Described { ticket, result };
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, message, &mut node.bench.output);
    assert_eq!(node.bench.sent().last().expect("a copy").0.to_string(), BOB);
    assert_eq!(live(&node.policy, "overall"), 1);
}

/// Bob's calls are forwarded to Carol.
fn forward_to_carol(node: &mut Routed) {
    node.bench.receive(CAROL, &register("carol", CAROL, 1, ""));
    let to_carol = CallForwarding {
        always: Some(b"sip:carol@example.org"[..].into()),
        ..CallForwarding::default()
    };
    let forwardings = &node.bench.shared.services.forwardings;
    assert!(forwardings.set(b"bob", b"example.org", Some(to_carol)));
}

fn of_each_subscriber() -> Description {
    Description {
        each_subscriber: Some(DeclaredEach {
            bounds: Bounds::default(),
            max_keys: 100,
        }),
        ..Description::default()
    }
}

fn calls_of_both(node: &Routed) -> [u32; 2] {
    let limits = &node.policy.limits;
    [&b"alice@example.org"[..], b"bob@example.org"].map(|name| limits.subscriber_calls(name))
}

#[test]
fn a_forwarded_call_counts_once_for_each_party_after_a_reload() {
    let declared = || Declared {
        limits: Description {
            named: vec![NamedLimit {
                name: "onward".into(),
                bounds: Bounds::default(),
            }],
            ..of_each_subscriber()
        },
        rules: vec![RuleDescription {
            name: "of-bob".into(),
            from_user: Some(vec!["bob".into()]),
            local: true,
            limit: Some("onward".into()),
            ..RuleDescription::default()
        }],
        ..Declared::default()
    };
    let mut node = routed_with(open(), declared());
    forward_to_carol(&mut node);
    let counted = |node: &Routed| {
        let limits = &node.policy.limits;
        let of_rule = limits.named("onward").map(|limit| limit.stats().live);
        (of_rule, calls_of_both(node))
    };
    let sent = node.bench.receive(ALICE, &invite(1, ""));
    let (_, copy) = sent.last().expect("a copy");
    let copy = copy.clone();
    assert_eq!(counted(&node), (Some(1), [1, 1]));
    for is_answered in [false, true] {
        if is_answered {
            node.bench
                .receive(CAROL, &accept_at(&copy, "sip:carol@192.0.2.30:5060"));
        }
        replace(&mut node, open(), declared());
        settle(&mut node);
        assert_eq!(counted(&node), (Some(1), [1, 1]), "answered: {is_answered}");
    }
}

#[test]
fn limits_that_a_reload_adds_count_a_forwarded_call_for_each_party() {
    for is_answered in [false, true] {
        let mut node = started(open(), Description::default());
        forward_to_carol(&mut node);
        let sent = node.bench.receive(ALICE, &invite(1, ""));
        let (_, copy) = sent.last().expect("a copy");
        if is_answered {
            let answer = accept_at(copy, "sip:carol@192.0.2.30:5060");
            node.bench.receive(CAROL, &answer);
        }
        assert_eq!(calls_of_both(&node), [0, 0]);
        reload(&mut node, open(), of_each_subscriber());
        settle(&mut node);
        assert_eq!(calls_of_both(&node), [1, 1], "answered: {is_answered}");
    }
}

#[test]
fn limits_that_a_reload_adds_count_a_restored_call_that_was_forwarded_to_a_gateway() {
    let declared = |limits: Description| Declared {
        limits,
        ..Declared::to_group("pstn")
    };
    let forwarding = CallForwarding {
        always: Some(NUMBER.as_bytes().into()),
        ..CallForwarding::default()
    };
    let mut node = routed_with(open(), declared(Description::default()));
    let forwardings = &node.bench.shared.services.forwardings;
    assert!(forwardings.set(b"bob", b"example.org", Some(forwarding)));
    let sent = node.bench.receive(ALICE, &invite(1, ""));
    let (to, copy) = sent.last().expect("a copy").clone();
    node.reply(&(to.to_string(), copy), "200 OK");
    let states = node.bench.output.drain_records();
    let mut states = states.filter_map(|record| match record {
        Record::Dialog { state, .. } => state,
        _ => None,
    });
    let state = states.next_back().expect("a state");

    let mut next = routed_with(open(), declared(Description::default()));
    next.bench.now = node.bench.now + Duration::from_secs(1);
    let now = next.bench.now;
    assert!(next.bench.exchange.restore(now, &state));
    replace(&mut next, open(), declared(of_each_subscriber()));
    settle(&mut next);
    assert_eq!(calls_of_both(&next), [1, 1]);
}
