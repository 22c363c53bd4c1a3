//! Next hops that are names: the branch waits for the control plane.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Wire, ack_of_refusal, invite, request_in, target, target_uri,
};
use sip_elements::metrics::DropReason;
use std::time::Duration;

fn waiting() -> (Wire, sip_elements::BranchId) {
    let mut wire = Wire::new(vec![target_uri("sip:bob@pc.example.com:5080", 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let (ticket, host, port) = wire.expect_question();
    assert_eq!((host.as_str(), port), ("pc.example.com", Some(5080)));
    wire.expect_nothing();
    (wire, ticket)
}

#[test]
fn a_branch_goes_on_when_its_name_is_resolved() {
    let (mut wire, ticket) = waiting();
    wire.pass(Duration::from_secs(1));
    wire.resolved(ticket, &[BOB]);
    let sent = wire.expect(BOB, "INVITE sip:bob@pc.example.com:5080 SIP/2.0");
    assert_eq!(sent.header("Via").len(), 2);
    wire.resolved(ticket, &[CAROL]);
    wire.expect_nothing();
    assert!(wire.proxy.next_deadline().is_some(), "timer C runs on");
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn the_next_address_is_tried_after_503_and_timeout() {
    let (mut wire, ticket) = waiting();
    // Timer B alone decides.
    wire.settings.proxy.no_answer = None;
    wire.resolved(ticket, &["192.0.2.255:5060", BOB, CAROL, DAVE]);
    let first = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &first.reply("503 Service Unavailable"));
    wire.expect(BOB, "ACK");
    wire.expect(CAROL, "INVITE");
    wire.pass(Duration::from_millis(31_800));
    wire.ignore_sent();
    wire.pass(Duration::from_millis(400));
    let third = wire.expect(DAVE, "INVITE");
    wire.receive(DAVE, &third.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn the_next_address_is_not_tried_after_an_honest_refusal() {
    let (mut wire, ticket) = waiting();
    wire.resolved(ticket, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &first.reply("486 Busy Here"));
    wire.expect(BOB, "ACK");
    let refused = wire.expect(ALICE, "SIP/2.0 486");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_name_that_does_not_resolve_is_a_503_which_becomes_500() {
    let (mut wire, ticket) = waiting();
    wire.resolved(ticket, &[]);
    let failed = wire.expect(ALICE, "SIP/2.0 500 Next hop has no address");
    wire.receive(ALICE, &ack_of_refusal(&failed));
    wire.finish();
}

#[test]
fn name_servers_that_do_not_say_are_a_504() {
    let (mut wire, ticket) = waiting();
    wire.not_located(ticket);
    let failed = wire.expect(ALICE, "SIP/2.0 504 Next hop was not resolved in time");
    wire.receive(ALICE, &ack_of_refusal(&failed));
    wire.finish();
}

#[test]
fn a_name_that_takes_too_long_is_given_up() {
    let (mut wire, ticket) = waiting();
    wire.pass(Duration::from_millis(2_900));
    wire.expect_nothing();
    wire.pass(Duration::from_millis(200));
    let failed = wire.expect(ALICE, "SIP/2.0 504 Next hop was not resolved in time");
    assert_eq!(wire.metrics.questions_expired.value(), 1);
    wire.resolved(ticket, &[BOB]);
    wire.expect_nothing();
    wire.receive(ALICE, &ack_of_refusal(&failed));
    wire.finish();
}

#[test]
fn a_name_that_does_not_resolve_leads_to_the_next_target() {
    let mut wire = Wire::new(vec![
        target_uri("sip:bob@pc.example.com", 1000),
        target(CAROL, 500),
    ]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let (ticket, _, _) = wire.expect_question();
    wire.resolved(ticket, &[]);
    let sent = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn an_ack_waits_for_its_name_too() {
    let ack = request_in("ACK", "sip:bob@pc.example.com", "b1", 1, "");
    let mut wire = Wire::new(Vec::new());
    wire.receive(ALICE, &ack);
    let (ticket, host, _) = wire.expect_question();
    assert_eq!(host, "pc.example.com");
    wire.assert_counts(1);
    wire.resolved(ticket, &[BOB]);
    let sent = wire.expect(BOB, "ACK sip:bob@pc.example.com SIP/2.0");
    assert_eq!(
        (sent.header("Via").len(), sent.header("Max-Forwards")),
        (2, vec!["69"])
    );
    wire.assert_counts(0);

    wire.receive(ALICE, &ack);
    let (ticket, _, _) = wire.expect_question();
    wire.resolved(ticket, &[]);
    wire.expect_nothing();
    assert_eq!(wire.dropped(DropReason::NoTarget), 1);
    wire.receive(ALICE, &ack);
    wire.expect_question();
    wire.pass(Duration::from_secs(6));
    assert_eq!(wire.dropped(DropReason::NoTarget), 2);
    wire.finish();
}
