//! Where a subscriber may forward calls to, and which limits count them.

use crate::bench::{ALICE, BOB, request, settings, status};
use crate::forwarding::{
    AS_BOB, CAROL, STRANGER, TO_CAROL, always, busy, call_bob, call_from, caller_got, forward,
    named, not_registered, refused, register_at, to, wait,
};
use crate::routed::{
    AS_ALICE, Declared, GW_A, NUMBER, Routed, routed_with, three_gateways, to_group,
};
use sip_elements::{Foreign, Record};
use sip_routing::limit::{Declared as Bounds, DeclaredEach, Description};
use sip_routing::rule::{HeaderDescription, RefusalDescription, RuleDescription};
use std::time::Duration;

/// Bob may not call numbers.
pub(crate) fn barred() -> RuleDescription {
    RuleDescription {
        name: "barred".into(),
        from_user: Some(vec!["bob".into()]),
        user: Some(vec!["+*".into()]),
        refuse: Some(RefusalDescription {
            status: 403,
            ..RefusalDescription::default()
        }),
        ..RuleDescription::default()
    }
}

/// A limit for each subscriber: how many calls it may have.
fn of_each_subscriber(max_calls: Option<u32>) -> Description {
    Description {
        each_subscriber: Some(DeclaredEach {
            bounds: Bounds {
                max_calls,
                ..Bounds::default()
            },
            max_keys: 100,
        }),
        ..Description::default()
    }
}

/// Subscribers are believed, and their calls to numbers go to gateways.
pub(crate) fn with_gateways(limits: Description, mut rules: Vec<RuleDescription>) -> Routed {
    rules.push(to_group("pstn"));
    let mut settings = settings();
    settings.challenge.clear();
    let declared = Declared {
        gateways: three_gateways(),
        limits,
        rules,
        ..Declared::default()
    };
    let mut node = routed_with(settings, declared);
    register_at(&mut node, "bob", BOB);
    node
}

#[test]
fn a_stranger_reaches_a_gateway_by_the_forwarding_of_the_callee_alone() {
    let mut node = with_gateways(Description::default(), Vec::new());
    let sent = call_from(&mut node, STRANGER, NUMBER);
    assert_eq!(caller_got(&sent), 403);
    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, STRANGER, "sip:bob@example.org");
    assert_eq!(to(&sent), [GW_A]);
    assert!(
        sent[0]
            .1
            .starts_with(&format!("INVITE sip:+4989123@{GW_A} "))
    );
    assert!(sent[0].1.contains("From: <sip:mallory@elsewhere.example>"));
    let second = node.reply(&sent[0], "503 Service Unavailable");
    assert_ne!(to(&second), [ALICE], "another gateway");
    node.reply(&second[0], "200 OK");
    assert_eq!(node.live(), [0, 1, 0]);
}

#[test]
fn a_callee_forwards_only_to_where_it_may_call() {
    let mut node = with_gateways(Description::default(), vec![barred()]);
    forward(&node, "bob", busy(NUMBER));
    let first = call_bob(&mut node);
    let sent = node.reply(&first[0], "486 Busy Here");
    assert_eq!(caller_got(&sent), 486, "as without forwarding");
    assert_eq!((node.live(), refused(&node)), ([0; 3], 1));

    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, AS_ALICE, "sip:bob@example.org");
    assert_eq!(caller_got(&sent), 480);

    forward(&node, "bob", always("sip:x@elsewhere.example"));
    let sent = call_from(&mut node, AS_ALICE, "sip:bob@example.org");
    assert_eq!(caller_got(&sent), 480, "no relaying");

    forward(&node, "bob", always("tel:+1"));
    let sent = call_from(&mut node, AS_ALICE, "sip:bob@example.org");
    assert_eq!(caller_got(&sent), 480, "no SIP URI");
}

#[test]
fn the_source_and_the_trust_of_the_caller_open_nothing_for_the_callee() {
    let trusted = RuleDescription {
        name: "carrier".into(),
        source: Some(vec!["192.0.2.10".into()]),
        domain: Some(vec!["elsewhere.example".into()]),
        group: Some("pstn".into()),
        authenticate: Some(sip_routing::rule::Authentication::Trust),
        ..RuleDescription::default()
    };
    let mut node = with_gateways(Description::default(), vec![trusted]);
    forward(&node, "bob", always("sip:x@elsewhere.example"));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!((caller_got(&sent), refused(&node)), (480, 1));
}

#[test]
fn a_forwarded_call_counts_in_the_limit_of_the_callee_until_it_ends() {
    let mut node = with_gateways(of_each_subscriber(Some(1)), Vec::new());
    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    let bobs = |node: &Routed| node.policy.limits.subscriber_calls(b"bob@example.org");
    assert_eq!(bobs(&node), 1);
    assert_eq!(caller_got(&node.reply(&sent[0], "200 OK")), 200);
    assert_eq!(bobs(&node), 1, "the dialog holds it");

    let another = request("INVITE", AS_BOB, STRANGER, "i2", "").replace("call-1", "call-2");
    let sent = named(node.bench.receive(ALICE, &another));
    assert_eq!(status(&sent.last().expect("a response").1), 480);
    assert_eq!(bobs(&node), 1);

    // The dialog ends without an ACK.
    wait(&mut node, 40);
    wait(&mut node, 40);
    assert_eq!((bobs(&node), node.live()), (0, [0; 3]));
}

#[test]
fn a_forwarded_call_counts_again_after_a_restart() {
    let mut node = with_gateways(of_each_subscriber(None), Vec::new());
    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!(caller_got(&node.reply(&sent[0], "200 OK")), 200);
    let states = node.bench.output.drain_records();
    let mut states = states.filter_map(|record| match record {
        Record::Dialog { state, .. } => state,
        _ => None,
    });
    let state = states.next_back().expect("a state");

    let mut next = with_gateways(of_each_subscriber(None), Vec::new());
    next.bench.now = node.bench.now + Duration::from_secs(1);
    let now = next.bench.now;
    assert!(next.bench.exchange.restore(now, &state));
    let bobs = |node: &Routed| node.policy.limits.subscriber_calls(b"bob@example.org");
    assert_eq!((bobs(&next), next.live()), (1, [1, 0, 0]));
    next.bench.wait(Duration::from_secs(25 * 3_600));
    assert_eq!((bobs(&next), next.live()), (0, [0; 3]));
}

#[test]
fn a_failed_forwarded_call_gives_its_place_back() {
    let mut node = with_gateways(of_each_subscriber(Some(1)), Vec::new());
    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!(caller_got(&node.reply(&sent[0], "486 Busy Here")), 486);
    assert_eq!(node.policy.limits.subscriber_calls(b"bob@example.org"), 0);
}

#[test]
fn a_subscriber_may_forward_to_other_domains_if_subscribers_may_call_them() {
    let mut settings = settings();
    settings.challenge.clear();
    settings.proxy.foreign = Foreign::Subscribers;
    let mut node = routed_with(settings, Declared::default());
    forward(&node, "bob", not_registered("sip:box@203.0.113.9"));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!(to(&sent), ["203.0.113.9:5060"]);
}

#[test]
fn a_rule_for_a_listener_or_a_header_field_does_not_decide_about_a_forwarded_call() {
    let trunk = |name: &str| RuleDescription {
        name: name.into(),
        domain: Some(vec!["elsewhere.example".into()]),
        group: Some("pstn".into()),
        authenticate: Some(sip_routing::rule::Authentication::Trust),
        ..RuleDescription::default()
    };
    let of_listener = RuleDescription {
        listener: Some(vec!["udp:192.0.2.1:5060".into()]),
        ..trunk("listener")
    };
    let of_source = RuleDescription {
        source: Some(vec!["192.0.2.0/24".into()]),
        ..trunk("source")
    };
    let of_header = RuleDescription {
        header: Some(vec![HeaderDescription {
            name: "X-Customer".into(),
            value: Some("gold".into()),
        }]),
        ..trunk("header")
    };
    for rule in [of_listener, of_source, of_header] {
        let mut node = with_gateways(Description::default(), vec![rule]);
        forward(&node, "bob", always("sip:x@elsewhere.example"));
        let invite = request("INVITE", AS_BOB, STRANGER, "i1", "X-Customer: gold\n");
        let mut sent = named(node.bench.receive(ALICE, &invite));
        sent.retain(|(_, text)| !text.starts_with("SIP/2.0 100 "));
        assert_eq!((caller_got(&sent), refused(&node)), (480, 1));
    }
}

#[test]
fn a_call_that_is_exempt_from_limits_still_counts_for_those_who_forward_it() {
    let each_subscriber = Some(DeclaredEach {
        bounds: Bounds {
            max_calls: Some(1),
            ..Bounds::default()
        },
        max_keys: 100,
    });
    let limits = Description {
        each_subscriber,
        ..Description::default()
    };
    let exempt = RuleDescription {
        name: "exempt".into(),
        from_domain: Some(vec!["elsewhere.example".into()]),
        local: true,
        limit: Some(sip_routing::limit::EXEMPT.into()),
        ..RuleDescription::default()
    };
    let mut node = with_gateways(limits, vec![exempt]);
    register_at(&mut node, "carol", CAROL);
    forward(&node, "bob", always(TO_CAROL));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!(to(&sent), [CAROL]);
    let bobs = |node: &Routed| node.policy.limits.subscriber_calls(b"bob@example.org");
    assert_eq!(bobs(&node), 1);
    assert_eq!(caller_got(&node.reply(&sent[0], "200 OK")), 200);
    assert_eq!(bobs(&node), 1, "the dialog holds it");
}

#[test]
fn a_rule_for_a_transport_or_for_all_sources_does_not_decide_about_a_forwarded_call() {
    let trunk = RuleDescription {
        domain: Some(vec!["elsewhere.example".into()]),
        group: Some("pstn".into()),
        ..RuleDescription::default()
    };
    let of_transport = RuleDescription {
        name: "transport".into(),
        transport: Some(vec![sip_transport::Protocol::Udp]),
        ..trunk.clone()
    };
    let of_all_sources = RuleDescription {
        name: "source".into(),
        source: Some(vec!["0.0.0.0/0".into(), "::/0".into()]),
        ..trunk
    };
    for rule in [of_transport, of_all_sources] {
        let name = rule.name.clone();
        let mut node = with_gateways(Description::default(), vec![rule]);
        forward(&node, "bob", always("sip:x@elsewhere.example"));
        let sent = call_from(&mut node, STRANGER, AS_BOB);
        assert_eq!((caller_got(&sent), refused(&node)), (480, 1), "{name}");
    }
}

#[test]
fn the_to_of_the_caller_chooses_no_rule_for_a_forwarded_call() {
    let of_to = |to_user: &str, to_domain: &str| RuleDescription {
        name: "to".into(),
        user: Some(vec!["+*".into()]),
        to_user: Some(vec![to_user.into()]),
        to_domain: Some(vec![to_domain.into()]),
        group: Some("only-a".into()),
        limit: Some(sip_routing::limit::EXEMPT.into()),
        ..RuleDescription::default()
    };
    let mut node = with_gateways(
        of_each_subscriber(Some(1)),
        vec![of_to("vip", "example.org")],
    );
    forward(&node, "bob", always(NUMBER));
    let invite = request("INVITE", AS_BOB, STRANGER, "i1", "");
    let invite = invite.replace(&format!("To: <{AS_BOB}>"), "To: <sip:vip@example.org>");
    assert!(invite.contains("To: <sip:vip@example.org>"), "{invite}");
    let sent = node.bench.receive(ALICE, &invite);
    assert!(sent.iter().any(|(to, _)| to.to_string() == GW_A));
    let bobs = |node: &Routed| node.policy.limits.subscriber_calls(b"bob@example.org");
    assert_eq!(bobs(&node), 1, "the limit counts it");

    let mut node = with_gateways(
        of_each_subscriber(Some(1)),
        vec![of_to("+4989123", "example.org")],
    );
    forward(&node, "bob", always(NUMBER));
    let sent = call_from(&mut node, STRANGER, AS_BOB);
    assert_eq!(to(&sent), [GW_A]);
    assert_eq!(bobs(&node), 0, "To is the target");
}

#[test]
fn no_header_field_of_the_caller_chooses_a_rule_for_a_forwarded_call() {
    for name in ["Via", "CSeq", "Call-ID"] {
        let of_header = RuleDescription {
            name: "header".into(),
            header: Some(vec![HeaderDescription {
                name: name.into(),
                value: None,
            }]),
            domain: Some(vec!["elsewhere.example".into()]),
            group: Some("pstn".into()),
            ..RuleDescription::default()
        };
        let mut node = with_gateways(Description::default(), vec![of_header]);
        forward(&node, "bob", always("sip:x@elsewhere.example"));
        let sent = call_from(&mut node, STRANGER, AS_BOB);
        assert_eq!((caller_got(&sent), refused(&node)), (480, 1), "{name}");
    }
}
