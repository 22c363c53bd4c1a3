//! Datagrams that come back as ICMP errors. The errors are hints: they may be outdated a moment later, and they can be
//! forged.

use crate::candidates::{SECOND, TRUNK, answer, place, wire};
use crate::wire::{
    ALICE, BOB, CAROL, Sent, US, Wire, listener, over, request, settings, target, target_uri, udp,
};
use sip_elements::TargetFailure;
use sip_transport::Protocol;

/// Sends a request from Alice for the trunk, which resolves to these servers. Returns the copy for the first server.
fn send(wire: &mut Wire, method: &str, addresses: &[&str]) -> Sent {
    let request = request(method, TRUNK, "").replace("call-1@", "call-8@");
    wire.receive(ALICE, &request);
    let (ticket, _, _) = wire.expect_question();
    wire.resolved(ticket, addresses);
    wire.expect(addresses[0], method)
}

fn failed_targets(wire: &Wire) -> Vec<(String, TargetFailure)> {
    let mut failed_targets = Vec::new();
    let dead = &wire.shared.dead_targets;
    dead.for_each(|candidate, _, why| failed_targets.push((candidate.address.to_string(), why)));
    failed_targets
}

#[test]
fn a_bye_to_a_server_that_restarts_is_sent_again() {
    let mut wire = wire(Some(SECOND * 3));
    let sent = send(&mut wire, "BYE", &[BOB]);
    wire.undeliverable(&sent);
    wire.expect_nothing();
    wire.pass(SECOND / 2 + SECOND / 100);
    let again = wire.expect(BOB, "BYE");
    assert_eq!(again.branch(), sent.branch());
    wire.receive(BOB, &again.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(failed_targets(&wire), []);
    wire.finish();
}

#[test]
fn a_bye_without_a_response_ends_with_timer_f() {
    let mut wire = wire(Some(SECOND * 3));
    let sent = send(&mut wire, "BYE", &[BOB]);
    for _ in 0..33 {
        wire.undeliverable(&sent);
        wire.pass(SECOND);
    }
    wire.ignore_sent();
    wire.assert_counts(0);
    wire.finish();
}

#[test]
fn a_bye_goes_to_another_candidate_at_once_and_is_sent_again_to_the_last() {
    let mut wire = wire(Some(SECOND * 3));
    let first = send(&mut wire, "BYE", &[BOB, CAROL]);
    wire.undeliverable(&first);
    let second = wire.expect(CAROL, "BYE");
    wire.undeliverable(&second);
    wire.expect_nothing();
    wire.pass(SECOND / 2 + SECOND / 100);
    let again = wire.expect(CAROL, "BYE");
    wire.receive(CAROL, &again.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn a_message_goes_to_the_phone_of_lower_q_at_once() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 500)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let first = wire.expect(BOB, "MESSAGE");
    wire.undeliverable(&first);
    let second = wire.expect(CAROL, "MESSAGE");
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

/// There is no connection left over which to retransmit it.
#[test]
fn a_message_whose_connection_broke_fails_at_once() {
    let listeners = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
    let uri = format!("sip:bob@{BOB};transport=tcp");
    let mut wire = Wire::with(settings(listeners), vec![target_uri(&uri, 1000)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(BOB, "MESSAGE");
    wire.undeliverable(&sent);
    wire.expect(ALICE, "SIP/2.0 500 Next hop is not reachable");
    wire.finish();
}

#[test]
fn an_error_for_a_message_moves_new_calls_but_none_that_the_server_has_taken() {
    let mut wire = wire(Some(SECOND));
    place(&mut wire, 1, &[BOB, CAROL]);
    let taken = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &taken.reply("100 Trying"));
    let first = send(&mut wire, "MESSAGE", &[BOB, CAROL]);
    wire.undeliverable(&first);
    let second = wire.expect(CAROL, "MESSAGE");
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(
        failed_targets(&wire),
        [(BOB.to_owned(), TargetFailure::Unavailable)]
    );
    place(&mut wire, 2, &[BOB, CAROL]);
    let moved = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &moved);
    wire.pass(SECOND * 20);
    wire.expect_nothing();
    answer(&mut wire, BOB, &taken);
    wire.finish();
}

/// A candidate that other calls have marked as unreachable stays marked.
#[test]
fn an_error_for_a_message_does_not_weaken_that_for_an_invite() {
    let mut wire = wire(Some(SECOND));
    let message = send(&mut wire, "MESSAGE", &[BOB, CAROL]);
    place(&mut wire, 1, &[BOB, CAROL]);
    let call = wire.expect(BOB, "INVITE");
    wire.undeliverable(&call);
    let moved = wire.expect(CAROL, "INVITE");
    wire.undeliverable(&message);
    wire.expect(CAROL, "MESSAGE");
    assert_eq!(
        failed_targets(&wire),
        [(BOB.to_owned(), TargetFailure::Unreachable)]
    );
    answer(&mut wire, CAROL, &moved);
    let candidate = over(Protocol::Udp, BOB);
    assert!(wire.shared.dead_targets.is_gone(candidate));
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}
