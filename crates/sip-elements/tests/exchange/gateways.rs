//! Calls to gateways: where they go, when they go to another one, and the places that they hold.

use crate::bench::{ALICE, only, request, settings, status};
use crate::live_calls::from_alice;
use crate::routed::{Declared, GW_A, GW_B, GW_C, NUMBER, Routed, gateway, invite, one, routed};
use sip_elements::{ControlMessage, Question, Record};
use sip_routing::gateway::{State, Statistics};
use sip_routing::limit::Rate;
use sip_routing::rule::Authentication;
use sip_transport::selection::Candidate;
use sip_transport::{Flow, ListenerId, Node, Protocol};
use std::sync::Arc;
use std::time::Duration;

fn statistics(node: &Routed, name: &str) -> Statistics {
    node.gateway(name).view(node.bench.now).statistics
}

fn failovers(node: &Routed) -> [u64; 3] {
    let of_each = ["a", "b", "c"].map(|name| statistics(node, name).failovers);
    [0, 1, 2].map(|reason| of_each.iter().map(|it| it[reason]).sum())
}

/// Lets the gateway answer, and Alice acknowledge. Returns the 2xx that Alice got.
fn answer(node: &mut Routed, call: &(String, String)) -> String {
    let (to, answered) = one(node.reply(call, "200 OK"));
    assert_eq!((to.as_str(), status(&answered)), (ALICE, 200));
    node.bench.receive(ALICE, &in_dialog(&answered, "ACK", 1));
    answered
}

fn in_dialog(answered: &str, method: &str, cseq: u32) -> String {
    from_alice(answered, method, cseq, "")
        .replace("sip:bob@192.0.2.20:5060", "sip:gw@192.0.2.50:5060")
        .replace("sip:bob@example.org", NUMBER)
}

#[test]
fn a_call_goes_to_its_gateway_and_holds_a_place_until_its_bye_is_answered() {
    let mut node = routed(Declared::to_group("pstn"));
    let call = node.call();
    assert_eq!(call.0, GW_A);
    let uri = format!("INVITE sip:+4989123@{GW_A} SIP/2.0\r\n");
    assert!(call.1.starts_with(&uri), "{}", call.1);
    assert!(call.1.contains(&format!("To: <{NUMBER}>")), "{}", call.1);
    assert_eq!(node.live(), [1, 0, 0]);
    node.reply(&call, "180 Ringing");
    let answered = answer(&mut node, &call);
    assert_eq!(node.live(), [1, 0, 0]);
    node.bench.wait(Duration::from_secs(3_600));
    assert_eq!(node.live(), [1, 0, 0]);
    let bye = only(node.bench.receive(ALICE, &in_dialog(&answered, "BYE", 2)));
    assert_eq!(node.live(), [1, 0, 0], "until it is answered");
    node.bench
        .receive("192.0.2.50:5060", &crate::routed::response(&bye, "200 OK"));
    assert_eq!(node.live(), [0, 0, 0]);
    assert_eq!(node.bench.dialogs(), (0, 0));
    let counted = statistics(&node, "a");
    assert_eq!((counted.tried, counted.answered), (1, 1));
}

#[test]
fn a_refused_call_goes_to_the_next_gateway_and_its_place_with_it() {
    let mut node = routed(Declared::to_group("pstn"));
    let first = node.call();
    let second = one(node.reply(&first, "503 Service Unavailable"));
    assert_eq!((second.0.as_str(), node.live()), (GW_B, [0, 1, 0]));
    let uri = format!("INVITE sip:+4989123@{GW_B} SIP/2.0\r\n");
    assert!(second.1.starts_with(&uri), "{}", second.1);
    let third = one(node.reply(&second, "500 Server Internal Error"));
    assert_eq!((third.0.as_str(), node.live()), (GW_C, [0, 0, 1]));
    answer(&mut node, &third);
    assert_eq!(node.live(), [0, 0, 1]);
    assert_eq!(failovers(&node), [2, 0, 0]);
    let answered = ["a", "b", "c"].map(|name| statistics(&node, name).answered);
    assert_eq!(answered, [0, 0, 1]);
}

#[test]
fn the_callee_speaks_for_all_gateways() {
    for refusal in ["404 Not Found", "486 Busy Here", "603 Decline"] {
        let mut node = routed(Declared::to_group("pstn"));
        let call = node.call();
        let (to, response) = one(node.reply(&call, refusal));
        assert_eq!(to, ALICE);
        assert!(response.contains(refusal), "{response}");
        assert_eq!((node.live(), failovers(&node)), ([0; 3], [0; 3]));
        let seen = node.gateway("a").state(node.bench.now);
        assert_eq!(seen, State::Active, "the gateway works");
    }
}

#[test]
fn when_all_gateways_fail_the_best_response_goes_back() {
    let mut node = routed(Declared::to_group("pstn"));
    let mut call = node.call();
    for refusal in ["503 Service Unavailable", "500 Error"] {
        call = one(node.reply(&call, refusal));
    }
    let (_, response) = one(node.reply(&call, "408 Request Timeout"));
    assert_eq!(status(&response), 408);
    assert_eq!(node.live(), [0; 3]);
}

#[test]
fn a_silent_gateway_is_given_up_for_the_next_one_and_may_still_answer() {
    let mut node = routed(Declared::to_group("pstn"));
    let first = node.call();
    let mut sent = node.bench.wait(Duration::from_millis(3_100)).into_iter();
    let second = sent.find(|(to, _)| to.to_string() == GW_B).expect("a copy");
    let second = (second.0.to_string(), second.1);
    assert_eq!((node.live(), failovers(&node)), ([0, 1, 0], [0, 1, 0]));
    assert_eq!(statistics(&node, "a").timeouts, 1);
    // The first one was only slow.
    let (to, answered) = node
        .reply(&first, "200 OK")
        .into_iter()
        .next()
        .expect("a 2xx");
    assert_eq!((to.as_str(), status(&answered)), (ALICE, 200));
    assert_eq!(node.live(), [1, 1, 0], "until the second one has given up");
    node.reply(&second, "487 Request Terminated");
    assert_eq!(node.live(), [1, 0, 0]);
}

#[test]
fn a_gateway_that_was_given_up_does_not_get_the_call_again() {
    let mut node = routed(Declared::to_group("pstn"));
    let first = node.call();
    let sent = node.bench.wait(Duration::from_millis(3_100));
    let is_to = |gateway: &str| sent.iter().any(|(to, _)| to.to_string() == gateway);
    assert!(first.0 == GW_A && is_to(GW_A) && is_to(GW_B), "{sent:?}");
    let later = node.bench.wait(Duration::from_secs(28));
    let mut receivers = later.iter().map(|(to, _)| to.to_string());
    assert!(!receivers.any(|to| to == GW_A), "{later:?}");
}

#[test]
fn when_a_second_gateway_answers_too_the_call_keeps_its_place_until_both_dialogs_have_ended() {
    let mut node = routed(Declared::to_group("pstn"));
    let first = node.call();
    let mut sent = node.bench.wait(Duration::from_millis(3_100)).into_iter();
    let second = sent.find(|(to, _)| to.to_string() == GW_B).expect("a copy");
    let second = (second.0.to_string(), second.1);
    node.reply(&second, "200 OK");
    assert_eq!(node.live(), [0, 1, 0]);
    let other = crate::routed::response(&first.1, "200 OK").replace("tag=b1", "tag=other");
    node.bench.receive(&first.0, &other);
    assert_eq!((node.live(), node.bench.dialogs()), ([0, 1, 0], (0, 2)));
    // No ACK arrives.
    node.bench.wait(Duration::from_secs(40));
    assert_eq!((node.live(), node.bench.dialogs()), ([0, 0, 0], (0, 0)));
}

#[test]
fn without_another_gateway_the_call_waits_for_timer_b() {
    let mut node = routed(Declared::to_group("only-a"));
    node.call();
    let sent = node.bench.wait(Duration::from_secs(20));
    assert!(
        sent.iter().all(|(to, _)| to.to_string() == GW_A),
        "{sent:#?}"
    );
    assert_eq!(node.live(), [1, 0, 0]);
    let sent = node.bench.wait(Duration::from_secs(13));
    let (to, response) = sent.last().expect("a response");
    assert_eq!((to.to_string(), status(response)), (ALICE.into(), 408));
    assert_eq!(node.live(), [0; 3]);
}

#[test]
fn a_gateway_that_cannot_be_reached_is_replaced_at_once() {
    let mut node = routed(Declared::to_group("pstn"));
    let (to, invite) = node.call();
    let flow = Flow::to(ListenerId(0), to.parse().expect("an address"));
    node.bench.undeliverable(flow, invite.as_bytes());
    let (to, _) = node.bench.sent().pop().expect("a copy");
    assert_eq!(to.to_string(), GW_B);
    assert_eq!(failovers(&node), [0, 0, 1]);
    assert_eq!(statistics(&node, "a").transport_errors, 1);
}

#[test]
fn after_early_media_no_other_gateway_is_tried_unless_configured() {
    const MEDIA: &str = "183 Session Progress\nContent-Type: application/sdp";
    for after_early_media in [false, true] {
        let mut declared = Declared::to_group("pstn");
        declared.gateways.gateways[0].failover.after_early_media = after_early_media;
        let mut node = routed(declared);
        let call = node.call();
        let progress = crate::routed::response(&call.1, MEDIA)
            .replace("Content-Length: 0\n\n", "Content-Length: 5\n\nv=0\r\n");
        assert_eq!(node.bench.receive(&call.0, &progress).len(), 1);
        let (to, response) = one(node.reply(&call, "503 Service Unavailable"));
        if after_early_media {
            assert_eq!(to, GW_B);
        } else {
            assert_eq!((to.as_str(), status(&response)), (ALICE, 500));
            assert_eq!(node.live(), [0; 3]);
        }
    }
}

#[test]
fn a_cancelled_call_goes_to_no_other_gateway_and_says_nothing_about_its_own() {
    for refusal in ["487 Request Terminated", "503 Service Unavailable", ""] {
        let mut node = routed(Declared::to_group("pstn"));
        let call = node.call();
        node.reply(&call, "100 Trying");
        let cancel = request("CANCEL", NUMBER, crate::routed::AS_ALICE, "i1", "");
        let sent = node.bench.receive(ALICE, &cancel);
        assert!(
            sent.iter().any(|(to, _)| to.to_string() == GW_A),
            "{sent:#?}"
        );
        if refusal.is_empty() {
            node.bench.wait(Duration::from_secs(40));
        } else {
            node.reply(&call, refusal);
        }
        assert_eq!(
            (node.live(), failovers(&node)),
            ([0; 3], [0; 3]),
            "{refusal}"
        );
        assert_eq!(statistics(&node, "b").tried, 0);
        assert_eq!(statistics(&node, "a").timeouts, 0, "{refusal}");
    }
}

#[test]
fn a_phone_that_rings_for_too_long_is_not_the_fault_of_the_gateway() {
    let mut node = routed(Declared::to_group("pstn"));
    let call = node.call();
    node.reply(&call, "180 Ringing");
    node.bench.wait(Duration::from_secs(186));
    let (to, response) = one(node.reply(&call, "487 Request Terminated"));
    assert_eq!((to.as_str(), status(&response)), (ALICE, 408));
    assert_eq!((node.live(), failovers(&node)), ([0; 3], [0; 3]));
    assert_eq!(statistics(&node, "a").timeouts, 0);
}

#[test]
fn timer_c_ends_the_attempt_at_a_gateway_that_may_say_only_100_for_longer() {
    let mut declared = Declared::to_group("pstn");
    declared.gateways.gateways[0].wait.response = Duration::from_secs(3_600);
    let mut node = routed(declared);
    let call = node.call();
    node.reply(&call, "100 Trying");
    node.bench.wait(Duration::from_secs(186));
    let second = one(node.reply(&call, "487 Request Terminated"));
    assert_eq!((second.0.as_str(), node.live()), (GW_B, [0, 1, 0]));
    assert_eq!(statistics(&node, "a").timeouts, 1);
}

#[test]
fn if_no_gateway_takes_calls_the_caller_gets_503() {
    let mut node = routed(Declared::to_group("pstn"));
    for name in ["a", "b", "c"] {
        node.gateway(name).disable(node.bench.now);
    }
    let sent = node.bench.receive(ALICE, &invite("i1", ""));
    let (_, response) = sent.last().expect("a response");
    assert_eq!(status(response), 503);
    assert!(response.contains("Retry-After: 7"), "{response}");
    assert_eq!(node.bench.dialogs(), (0, 0));
}

#[test]
fn a_full_gateway_is_passed_over() {
    let mut declared = Declared::to_group("pstn");
    declared.gateways.gateways[0].max_calls = Some(1);
    let mut node = routed(declared);
    assert_eq!(node.call().0, GW_A);
    let other = invite("i2", "").replace("call-1", "call-2");
    let (to, _) = node.bench.receive(ALICE, &other).pop().expect("a copy");
    assert_eq!((to.to_string(), node.live()), (GW_B.into(), [1, 1, 0]));
}

#[test]
fn only_calls_hold_places_and_are_counted() {
    let mut node = routed(Declared::to_group("pstn"));
    let message = request("MESSAGE", NUMBER, crate::routed::AS_ALICE, "m1", "");
    let (to, copy) = node.bench.receive(ALICE, &message).pop().expect("a copy");
    assert_eq!((to.to_string(), node.live()), (GW_A.into(), [0; 3]));
    let call = (to.to_string(), copy);
    let (to, _) = one(node.reply(&call, "503 Service Unavailable"));
    assert_eq!((to.as_str(), node.live()), (GW_B, [0; 3]));
    let of_calls = statistics(&node, "a");
    let counts = (of_calls.tried, of_calls.failed, of_calls.failovers);
    assert_eq!(counts, (0, [0; 4], [0; 3]));
}

/// A MESSAGE of its own Call-ID, and where it goes.
fn message(node: &mut Routed, number: u32) -> (String, String) {
    let id = format!("m{number}");
    let message = request("MESSAGE", NUMBER, crate::routed::AS_ALICE, &id, "");
    let message = message.replace("call-1", &format!("message-{number}"));
    let (to, copy) = node.bench.receive(ALICE, &message).pop().expect("a copy");
    (to.to_string(), copy)
}

#[test]
fn requests_without_a_response_do_not_make_a_gateway_inactive_and_are_delivered_once() {
    let mut node = routed(Declared::to_group("pstn"));
    for number in 0..6 {
        let sent = message(&mut node, number);
        assert_eq!(sent.0, GW_A);
        // Its next hop is silent.
        assert!(node.reply(&sent, "100 Trying").is_empty());
    }
    let sent = node.bench.wait(Duration::from_secs(40));
    assert!(
        sent.iter().all(|(to, _)| to.to_string() == GW_A),
        "{sent:#?}"
    );
    assert_eq!(node.gateway("a").state(node.bench.now), State::Unprobed);
}

#[test]
fn a_message_to_a_silent_gateway_goes_to_the_next_one_in_time() {
    let mut node = routed(Declared::to_group("pstn"));
    for number in 0..6 {
        assert_eq!(message(&mut node, number).0, GW_A);
    }
    let sent = node.bench.wait(Duration::from_secs(5));
    let next = sent.iter().filter(|(to, _)| to.to_string() == GW_B);
    assert_eq!(next.count(), 6, "{sent:#?}");
    assert_eq!(node.gateway("a").state(node.bench.now), State::Unprobed);
}

#[test]
fn the_longest_prefix_decides_about_the_groups_and_no_gateway_is_tried_twice() {
    let mut declared = Declared::to_group("pstn");
    declared.rules[0].group = None;
    declared.rules[0].prefixes = Some("default".into());
    declared.prefixes = vec![
        ("", "49", "pstn"),
        ("", "4989", "c-first; pstn"),
        ("", "1", "only-a"),
    ];
    let mut node = routed(declared);
    let mut call = node.call();
    for next in [GW_A, GW_B] {
        assert_ne!(call.0, next);
        call = one(node.reply(&call, "503 Service Unavailable"));
        assert_eq!(call.0, next);
    }
    let (to, response) = one(node.reply(&call, "503 Service Unavailable"));
    assert_eq!((to.as_str(), status(&response)), (ALICE, 500));
    assert_eq!(statistics(&node, "c").tried, 1);

    let elsewhere = request(
        "INVITE",
        "sip:+33123@example.org",
        crate::routed::AS_ALICE,
        "i9",
        "",
    );
    assert_eq!(status(&only(node.bench.receive(ALICE, &elsewhere))), 404);
}

#[test]
fn all_addresses_of_a_gateway_are_tried_before_the_next_gateway() {
    let mut declared = Declared::to_group("pstn");
    declared.gateways.gateways[0] = gateway("a", "sip:gw.example.net");
    let mut node = routed(declared);
    assert_eq!(node.bench.receive(ALICE, &invite("i1", "")).len(), 1, "100");
    let Some(Question::Resolve {
        ticket,
        destination,
        ..
    }) = node.bench.question()
    else {
        panic!("no question")
    };
    assert_eq!(&*destination.host, "gw.example.net");
    let candidates = ["192.0.2.61:5060", "192.0.2.62:5060"].map(|address| Candidate {
        protocol: Protocol::Udp,
        address: address.parse().expect("an address"),
    });
    let result = Ok(candidates.to_vec());
    let resolved = ControlMessage::Resolved { ticket, result };
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, resolved, &mut node.bench.output);
    let (to, copy) = node.bench.sent().pop().expect("a copy");
    let first = (to.to_string(), copy);
    assert!(
        first
            .1
            .starts_with("INVITE sip:+4989123@gw.example.net SIP/2.0")
    );
    let second = one(node.reply(&first, "503 Service Unavailable"));
    assert_eq!(
        (second.0.as_str(), node.live()),
        ("192.0.2.62:5060", [1, 0, 0])
    );
    let third = one(node.reply(&second, "503 Service Unavailable"));
    assert_eq!((third.0.as_str(), node.live()), (GW_B, [0, 1, 0]));
    assert_eq!(failovers(&node), [1, 0, 0]);
}

#[test]
fn a_gateway_without_an_address_is_replaced() {
    let mut declared = Declared::to_group("pstn");
    declared.gateways.gateways[0] = gateway("a", "sip:gw.example.net");
    let mut node = routed(declared);
    node.bench.receive(ALICE, &invite("i1", ""));
    let Some(Question::Resolve { ticket, .. }) = node.bench.question() else {
        panic!("no question")
    };
    let result = Ok(Vec::new());
    let resolved = ControlMessage::Resolved { ticket, result };
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, resolved, &mut node.bench.output);
    let (to, _) = node.bench.sent().pop().expect("a copy");
    assert_eq!((to.to_string(), node.live()), (GW_B.into(), [0, 1, 0]));
}

#[test]
fn a_uri_that_needs_tls_says_nothing_about_a_gateway_without() {
    let mut node = routed(Declared::to_group("pstn"));
    let secure = invite("i1", "").replace("sip:+4989123", "sips:+4989123");
    let sent = node.bench.receive(ALICE, &secure);
    let (_, response) = sent.last().expect("a response");
    assert_eq!(status(response), 480);
    let counted = statistics(&node, "a");
    assert_eq!((counted.transport_errors, counted.abandoned), (0, 1));
    assert_eq!(node.live(), [0; 3]);
}

#[test]
fn a_call_that_survives_a_restart_holds_its_place_again() {
    let mut node = routed(Declared::to_group("only-a"));
    let call = node.call();
    answer(&mut node, &call);
    let mut states = node
        .bench
        .output
        .drain_records()
        .filter_map(|record| match record {
            Record::Dialog { state, .. } => state,
            _ => None,
        });
    let state = states.next_back().expect("a state");
    let mut next = routed(Declared::to_group("only-a"));
    next.bench.now = node.bench.now + Duration::from_secs(60);
    let now = next.bench.now;
    assert!(next.bench.exchange.restore(now, &state));
    assert_eq!(next.live(), [1, 0, 0]);
    next.bench.wait(Duration::from_secs(25 * 3_600));
    assert_eq!((next.live(), next.bench.dialogs()), ([0; 3], (0, 0)));
}

#[test]
fn a_reload_keeps_the_places_of_calls() {
    let mut node = routed(Declared::to_group("pstn"));
    let call = node.call();
    let answered = answer(&mut node, &call);
    let mut settings = settings();
    settings.challenge.clear();
    let declared = Declared::to_group("only-a");
    let next =
        sip_routing::gateway::Gateways::new(declared.gateways.clone(), Some(&node.policy.gateways));
    let mut policy = Arc::into_inner(declared.policy(&settings)).expect("one owner");
    policy.gateways = next.expect("gateways");
    let policy = Arc::new(policy);
    settings.policy = Arc::clone(&policy);
    let now = node.bench.now;
    let message = ControlMessage::Settings(Arc::new(settings));
    node.bench
        .exchange
        .control(now, message, &mut node.bench.output);
    node.policy = policy;
    assert_eq!(node.live(), [1, 0, 0]);
    let bye = only(node.bench.receive(ALICE, &in_dialog(&answered, "BYE", 2)));
    node.bench
        .receive("192.0.2.50:5060", &crate::routed::response(&bye, "200 OK"));
    assert_eq!(node.live(), [0; 3]);
}

#[test]
fn other_requests_leave_the_rate_of_a_gateway_to_calls() {
    let mut declared = Declared::to_group("pstn");
    declared.gateways.gateways[0].rate = Rate::new(1.0, 1);
    let mut node = routed(declared);
    for number in 0..5 {
        assert_eq!(message(&mut node, number).0, GW_A);
    }
    assert_eq!(node.call().0, GW_A);
}

#[test]
fn a_silent_gateway_is_not_given_up_for_one_that_was_tried_in_another_group() {
    let mut declared = Declared::to_group("pstn");
    declared.rules[0].group = None;
    declared.rules[0].prefixes = Some("default".into());
    declared.prefixes = vec![("", "49", "c-first; only-a")];
    let mut node = routed(declared);
    let call = node.call();
    let (to, _) = one(node.reply(&call, "503 Service Unavailable"));
    assert_eq!(to, GW_A);
    let sent = node.bench.wait(Duration::from_secs(20));
    assert!(
        sent.iter().all(|(_, text)| text.starts_with("INVITE ")),
        "{sent:#?}"
    );
}

#[test]
fn parameters_to_route_by_reach_a_gateway_from_trusted_peers_only() {
    let called =
        "sip:+4989123;npdi;phone-context=+49;rn=+88213@example.org;cause=302;user=phone;tgrp=gold";
    for (authentication, expected) in [
        (
            Authentication::Never,
            "+4989123;phone-context=+49@{at};user=phone",
        ),
        (
            Authentication::Trust,
            "+4989123;npdi;phone-context=+49;rn=+88213@{at};cause=302;user=phone;tgrp=gold",
        ),
    ] {
        let mut declared = Declared::to_group("pstn");
        declared.rules[0].authenticate = Some(authentication);
        let mut node = routed(declared);
        let invite = request("INVITE", called, "sip:x@elsewhere.example", "i1", "");
        let (at, copy) = node.bench.receive(ALICE, &invite).pop().expect("a copy");
        let expected = expected.replace("{at}", &at.to_string());
        assert!(
            copy.starts_with(&format!("INVITE sip:{expected} SIP/2.0\r\n")),
            "{copy}"
        );
    }
}
