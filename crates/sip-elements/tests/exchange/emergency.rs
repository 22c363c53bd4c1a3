//! Emergency calls: rules exempt them from all limits, and lead service URNs and telephone numbers to gateways.

use crate::bench::{ALICE, BOB, accept, only, register, request, status};
use crate::live_calls::from_alice;
use crate::routed::{AS_ALICE, Declared, GW_A, Routed, routed, three_gateways, to_group};
use sip_elements::Record;
use sip_routing::limit::{Declared as Bounds, Description};
use sip_routing::rule::{Authentication, RuleDescription};
use std::time::Duration;

const STRANGER: &str = "198.51.100.66:5060";
const AS_STRANGER: &str = "sip:x@elsewhere.example";

/// No call is admitted, except those to Bob.
fn full() -> Routed {
    let to_bob = RuleDescription {
        user: Some(vec!["bob".into()]),
        group: None,
        local: true,
        limit: Some("none".into()),
        ..to_group("")
    };
    let none = Bounds {
        max_calls: Some(0),
        ..Bounds::default()
    };
    let mut node = routed(Declared {
        rules: vec![to_bob],
        limits: Description {
            overall: none,
            ..Description::default()
        },
        ..Declared::default()
    });
    for (phone, name) in [(BOB, "bob"), ("192.0.2.30:5060", "carol")] {
        let response = only(node.bench.receive(phone, &register(name, phone, 1, "")));
        assert_eq!(status(&response), 200);
    }
    node
}

fn live(node: &Routed) -> u32 {
    node.policy.limits.overall().stats().live
}

#[test]
fn an_exempt_call_passes_full_limits_and_counts_for_none_also_after_a_restart() {
    let mut node = full();
    let carol = request("INVITE", "sip:carol@example.org", AS_ALICE, "i1", "");
    assert_eq!(status(&only(node.bench.receive(ALICE, &carol))), 503);
    let call = request("INVITE", "sip:bob@example.org", AS_ALICE, "i2", "");
    let sent = node.bench.receive(ALICE, &call.replace("call-1", "call-2"));
    let invite = sent.into_iter().next_back().expect("a copy").1;
    let answered = only(node.bench.receive(BOB, &accept(&invite)));
    assert_eq!(live(&node), 0);
    node.bench
        .receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
    let states = node.bench.output.drain_records();
    let mut states = states.filter_map(|record| match record {
        Record::Dialog { state, .. } => state,
        _ => None,
    });
    let state = states.next_back().expect("a state");

    let mut next = full();
    next.bench.now = node.bench.now + Duration::from_secs(1);
    let now = next.bench.now;
    assert!(next.bench.exchange.restore(now, &state));
    assert_eq!(live(&next), 0);
}

#[test]
fn services_and_telephone_numbers_reach_a_gateway_by_a_rule_and_nothing_else() {
    let rule = RuleDescription {
        user: Some(vec!["urn:service:sos*".into(), "+49*".into()]),
        authenticate: Some(Authentication::Never),
        ..to_group("pstn")
    };
    let mut node = routed(Declared {
        gateways: three_gateways(),
        rules: vec![rule],
        ..Declared::default()
    });
    for (branch, uri, sent) in [
        ("i1", "urn:service:sos.fire", Some("urn:service:sos.fire")),
        (
            "i2",
            "tel:+49-30-123",
            Some("sip:+49-30-123@192.0.2.51:5060;user=phone"),
        ),
        ("i3", "urn:service:counseling", None),
        ("i4", "tel:+4430123", None),
        ("i5", "soap.beep://h", None),
    ] {
        let call = request("INVITE", uri, AS_STRANGER, branch, "").replace("call-1", branch);
        let (to, text) = node
            .bench
            .receive(STRANGER, &call)
            .pop()
            .expect("a message");
        match sent {
            Some(sent) => {
                assert_eq!(to.to_string(), GW_A, "{text}");
                assert!(
                    text.starts_with(&format!("INVITE {sent} SIP/2.0")),
                    "{text}"
                );
            }
            None => assert_eq!(status(&text), 416),
        }
        // Inside a dialog, the Request-URI is a Contact.
        let inside = call.replacen("To: <", "To: <sip:x@y>;tag=1\nX-To: <", 1);
        let inside = inside.replace("Call-ID: ", "Call-ID: in-");
        assert_eq!(status(&only(node.bench.receive(STRANGER, &inside))), 416);
    }
}
