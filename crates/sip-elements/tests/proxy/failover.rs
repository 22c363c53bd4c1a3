//! Serial targets: when one fails, the next one is tried.

use crate::wire::{ALICE, BOB, CAROL, Wire, ack_of_refusal, invite, request, target};
use std::time::Duration;

fn two_in_series() -> Wire {
    Wire::new(vec![target(CAROL, 500), target(BOB, 1000)])
}

#[test]
fn a_refusal_leads_to_the_target_of_lower_q() {
    for status in [
        "503 Service Unavailable",
        "486 Busy Here",
        "302 Moved",
        "401 Unauthorized",
    ] {
        let mut wire = two_in_series();
        wire.receive(ALICE, &invite());
        wire.expect(ALICE, "SIP/2.0 100");
        let first = wire.expect(BOB, "INVITE sip:bob@192.0.2.20:5060");
        wire.receive(BOB, &first.reply(status));
        wire.expect(BOB, "ACK");
        let second = wire.expect(CAROL, "INVITE sip:bob@192.0.2.30:5060");
        assert_ne!(first.branch(), second.branch());
        assert_eq!(first.header("Via")[1], second.header("Via")[1]);
        wire.receive(CAROL, &second.reply("200 OK"));
        wire.expect(ALICE, "SIP/2.0 200 OK");
        wire.finish();
    }
}

#[test]
fn a_target_that_does_not_answer_is_followed_by_the_next() {
    let mut wire = two_in_series();
    wire.receive(ALICE, &request("OPTIONS", "sip:bob@example.org", ""));
    wire.pass(Duration::from_millis(32_100));
    for _ in 0..11 {
        wire.expect(BOB, "OPTIONS");
    }
    let second = wire.expect(CAROL, "OPTIONS");
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn without_a_next_target_the_best_refusal_goes_upstream() {
    let mut wire = two_in_series();
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let first = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &first.reply("486 Busy Here"));
    wire.expect(BOB, "ACK");
    let second = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &second.reply("503 Service Unavailable"));
    wire.expect(CAROL, "ACK");
    let refused = wire.expect(ALICE, "SIP/2.0 486 Busy Here");
    assert_eq!(refused.header("Via").len(), 1);
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_target_that_can_not_be_routed_is_skipped() {
    let mut wire = Wire::new(vec![
        crate::wire::target_uri("tel:+1555", 1000),
        target(BOB, 500),
    ]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn a_603_ends_the_search() {
    let mut wire = two_in_series();
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let first = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &first.reply("603 Decline"));
    wire.expect(BOB, "ACK");
    let declined = wire.expect(ALICE, "SIP/2.0 603 Decline");
    wire.receive(ALICE, &ack_of_refusal(&declined));
    wire.finish();
}
