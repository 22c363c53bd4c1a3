//! A node that drains before it stops.

use crate::bench::{
    ALICE, BOB, Bench, accept, only, recorded, register, request, settings, status,
};
use sip_elements::ControlMessage;
use sip_transport::Node;
use std::time::Duration;

#[test]
fn a_draining_node_refuses_new_calls() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench
        .exchange
        .control(bench.now, ControlMessage::Drain(true), &mut bench.output);
    let refused = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    ));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After"), "{refused}");
    bench
        .exchange
        .control(bench.now, ControlMessage::Drain(false), &mut bench.output);
    let challenge = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    ));
    assert_eq!(status(&challenge), 407);
}

/// A node that drains while a call from Alice rings at Bob's phone, and the INVITE that Bob received.
fn draining_while_it_rings() -> (Bench, String) {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = register("bob", BOB, 1, "");
    assert_eq!(status(&only(bench.receive(BOB, &contact))), 200);
    let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
    let invite = request("INVITE", callee, caller, "i1", "");
    let forwarded = bench.receive(ALICE, &invite).pop().expect("a copy").1;
    let drain = ControlMessage::Drain(true);
    bench.exchange.control(bench.now, drain, &mut bench.output);
    (bench, forwarded)
}

fn acknowledge(answered: &str) -> String {
    let route = &recorded(answered)[0];
    let (uri, caller) = (format!("sip:bob@{BOB}"), "sip:alice@example.org");
    request("ACK", &uri, caller, "a1", &format!("Route: {route}\n"))
        .replace(&format!("To: <{uri}>"), "To: <sip:bob@example.org>;tag=b1")
}

#[test]
fn a_draining_node_is_not_done_before_the_ack_has_passed() {
    let (mut bench, invite) = draining_while_it_rings();
    let waiting = |bench: &Bench| {
        let metrics = &bench.metrics;
        (
            metrics.response_contexts.value(),
            metrics.unacknowledged.value(),
        )
    };
    assert_eq!(waiting(&bench), (1, 0));
    let answered = only(bench.receive(BOB, &accept(&invite)));
    assert_eq!(status(&answered), 200);
    assert_eq!(waiting(&bench), (0, 1));
    let repeated = only(bench.receive(BOB, &accept(&invite)));
    assert_eq!(repeated, answered);
    assert_eq!(waiting(&bench), (0, 1));
    let passed = only(bench.receive(ALICE, &acknowledge(&answered)));
    assert!(passed.starts_with("ACK "), "{passed}");
    assert_eq!(waiting(&bench), (0, 0));
}

#[test]
fn a_draining_node_does_not_wait_for_an_ack_for_ever() {
    let (mut bench, invite) = draining_while_it_rings();
    bench.receive(BOB, &accept(&invite));
    bench.wait(Duration::from_millis(31_900));
    assert_eq!(bench.metrics.unacknowledged.value(), 1);
    assert!(bench.exchange.next_deadline().is_some());
    bench.wait(Duration::from_millis(100));
    assert_eq!(bench.metrics.unacknowledged.value(), 0);
}
