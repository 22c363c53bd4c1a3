//! Phones that are reached over flows (RFC 5626 section 7): how a failed flow ranks among responses, and when each flow
//! of a phone is tried.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Sent, US, Wire, ack_of_refusal, cancel, invite, listener, settings,
    target, udp, with_path,
};
use sip_elements::routing::Target;
use sip_transport::{ConnectionId, Flow, ListenerId, Protocol};
use std::time::Duration;

/// A target that is reached over its connection only.
fn over_connection(address: &str, instance: u64) -> Target {
    let remote = address.parse().expect("an address");
    Target {
        flow: Some(Flow {
            listener: ListenerId(1),
            connection: ConnectionId::new(0, 7),
            remote,
        }),
        instance,
        ..target(address, 1000)
    }
}

/// A target that is one flow of a phone, over UDP.
fn flow_of(instance: u64, address: &str, q: u16) -> Target {
    Target {
        instance,
        ..target(address, q)
    }
}

fn wire(targets: Vec<Target>) -> Wire {
    let listeners = vec![udp(US, 24), listener(Protocol::Ws, US, 24)];
    let mut wire = Wire::with(settings(listeners), targets);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    wire
}

fn refuse(wire: &mut Wire, sent: &Sent, status: &str) {
    let at = sent.to.to_string();
    wire.receive(&at, &sent.reply(status));
    wire.expect(&at, "ACK");
}

#[track_caller]
fn expect_refusal(mut wire: Wire, status: &str) {
    let refused = wire.expect(ALICE, &format!("SIP/2.0 {status}"));
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_dead_flow_loses_to_what_any_phone_says() {
    let rows = [
        ("486 Busy Here", "486 Busy Here"),
        ("404 Not Found", "404 Not Found"),
        ("480 Not There", "480 Not There"),
        ("408 Request Timeout", "408 Request Timeout"),
        ("500 Oops", "500 Oops"),
        ("603 Decline", "603 Decline"),
    ];
    for (from_carol, expected) in rows {
        for dies_first in [true, false] {
            let mut wire = wire(vec![over_connection(BOB, 0), target(CAROL, 1000)]);
            let bob = wire.expect(BOB, "INVITE");
            let carol = wire.expect(CAROL, "INVITE");
            if dies_first {
                wire.undeliverable(&bob);
            }
            refuse(&mut wire, &carol, from_carol);
            if !dies_first {
                wire.undeliverable(&bob);
            }
            expect_refusal(wire, expected);
        }
    }
}

#[test]
fn what_no_phone_said_loses_to_what_one_said() {
    let nowhere = [
        "tel:+4930123456",
        "sip:bob@192.0.2.20;transport=pigeon",
        "sip:bob@192.0.2.20:0",
    ];
    for uri in nowhere {
        let lost = Target {
            uri: uri.as_bytes().into(),
            ..target(BOB, 1000)
        };
        let mut wire = wire(vec![lost, target(CAROL, 1000)]);
        let carol = wire.expect(CAROL, "INVITE");
        refuse(&mut wire, &carol, "500 Oops");
        expect_refusal(wire, "500 Oops");
    }
}

#[test]
fn a_phone_whose_only_flow_is_dead_is_not_available() {
    let mut wire = wire(vec![over_connection(BOB, 5)]);
    let bob = wire.expect(BOB, "INVITE");
    wire.undeliverable(&bob);
    expect_refusal(wire, "480 ");
}

#[test]
fn a_failed_flow_behind_an_edge_proxy_is_not_reported_to_callers() {
    let path = format!("<sip:{DAVE};lr;ob>");
    let mut wire = wire(vec![with_path(flow_of(5, BOB, 1000), &path)]);
    let sent = wire.expect(DAVE, "INVITE");
    refuse(&mut wire, &sent, "430 Flow Failed");
    expect_refusal(wire, "480 ");
}

#[test]
fn one_flow_of_a_phone_rings_at_a_time_beside_other_phones() {
    let mut wire = wire(vec![
        flow_of(5, BOB, 1000),
        flow_of(5, CAROL, 1000),
        flow_of(6, DAVE, 1000),
    ]);
    let bob = wire.expect(BOB, "INVITE");
    let dave = wire.expect(DAVE, "INVITE");
    wire.expect_nothing();
    wire.receive(DAVE, &dave.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    // The next flow does not wait for the phone that rings.
    refuse(&mut wire, &bob, "430 Flow Failed");
    let carol = wire.expect(CAROL, "INVITE");
    assert_eq!(carol.header("Max-Breadth"), bob.header("Max-Breadth"));
    refuse(&mut wire, &carol, "486 Busy Here");
    refuse(&mut wire, &dave, "480 Not There");
    expect_refusal(wire, "486 Busy Here");
}

#[test]
fn a_flow_that_cannot_be_used_makes_way_at_once() {
    let dead = Target {
        uri: b"sip:bob@192.0.2.20;transport=pigeon"[..].into(),
        ..flow_of(5, BOB, 1000)
    };
    let mut wire = wire(vec![dead, target(DAVE, 1000), flow_of(5, CAROL, 500)]);
    let carol = wire.expect(CAROL, "INVITE");
    let dave = wire.expect(DAVE, "INVITE");
    refuse(&mut wire, &dave, "486 Busy Here");
    wire.receive(CAROL, &carol.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn a_phone_that_answered_is_not_asked_over_its_other_flows() {
    for status in ["486 Busy Here", "503 Service Unavailable", "302 Moved"] {
        let mut wire = wire(vec![flow_of(5, BOB, 1000), flow_of(5, CAROL, 1000)]);
        let bob = wire.expect(BOB, "INVITE");
        refuse(&mut wire, &bob, status);
        let expected = status.replace("503 Service", "500 ");
        expect_refusal(wire, &expected[..4]);
    }
}

#[test]
fn a_flow_without_an_answer_is_followed_by_the_next_one_and_one_that_rang_is_not() {
    let targets = || vec![flow_of(5, BOB, 1000), flow_of(5, CAROL, 1000)];
    let mut silent = wire(targets());
    let bob = silent.expect(BOB, "INVITE");
    refuse(&mut silent, &bob, "408 Request Timeout");
    let carol = silent.expect(CAROL, "INVITE");
    silent.receive(CAROL, &carol.reply("200 OK"));
    silent.expect(ALICE, "SIP/2.0 200 OK");
    silent.finish();

    let mut rang = wire(targets());
    let bob = rang.expect(BOB, "INVITE");
    rang.receive(BOB, &bob.reply("180 Ringing"));
    rang.expect(ALICE, "SIP/2.0 180");
    rang.pass(Duration::from_millis(181_100));
    rang.expect_cancel(&bob);
    refuse(&mut rang, &bob, "487 Request Terminated");
    expect_refusal(rang, "408 ");
}

#[test]
fn a_caller_who_gave_up_has_no_other_flow_tried() {
    let mut wire = wire(vec![flow_of(5, BOB, 1000), flow_of(5, CAROL, 1000)]);
    let bob = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &bob.reply("100 Trying"));
    wire.receive(ALICE, &cancel());
    wire.expect_cancel(&bob);
    refuse(&mut wire, &bob, "430 Flow Failed");
    expect_refusal(wire, "487 ");
}
