//! The caller cancels a call (RFC 3261 section 16.10).

use crate::wire::{ALICE, BOB, CAROL, Wire, ack_of_refusal, cancel, invite, target, target_uri};
use std::time::Duration;

#[test]
fn a_ringing_branch_is_cancelled_and_its_487_goes_upstream() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 500)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(ALICE, &cancel());
    assert_eq!(wire.expect_cancel(&sent), "", "the caller gave none");
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    let terminated = wire.expect(ALICE, "SIP/2.0 487 Request Terminated");
    wire.receive(ALICE, &ack_of_refusal(&terminated));
    wire.finish(); // Carol is not tried.
}

#[test]
fn the_reasons_of_the_caller_reach_who_rings_and_who_rings_later() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let bob = wire.expect(BOB, "INVITE");
    let carol = wire.expect(CAROL, "INVITE");
    wire.receive(BOB, &bob.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    let reasons =
        "Reason: SIP;cause=200;text=\"Call completed elsewhere\"\r\nReason: Q.850;cause=26\r\n";
    let because = cancel().replace("Content-Length", &format!("{reasons}Content-Length"));
    wire.receive(ALICE, &because);
    let expected = "SIP;cause=200;text=\"Call completed elsewhere\", Q.850;cause=26";
    assert_eq!(wire.expect_cancel(&bob), expected);
    wire.expect_nothing();
    wire.receive(CAROL, &carol.reply("180 Ringing"));
    assert_eq!(wire.expect_cancel(&carol), expected);
    wire.expect(ALICE, "SIP/2.0 180");
    for (at, sent) in [(BOB, &bob), (CAROL, &carol)] {
        wire.receive(at, &sent.reply("487 Request Terminated"));
        wire.expect(at, "ACK");
    }
    let terminated = wire.expect(ALICE, "SIP/2.0 487 Request Terminated");
    wire.receive(ALICE, &ack_of_refusal(&terminated));
    wire.finish();
}

#[test]
fn a_branch_without_response_is_cancelled_when_its_first_one_comes() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(ALICE, &cancel());
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect_cancel(&sent);
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(BOB, &sent.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    let terminated = wire.expect(ALICE, "SIP/2.0 487");
    wire.receive(ALICE, &ack_of_refusal(&terminated));
    wire.finish();
}

#[test]
fn a_cancelled_call_without_a_response_ends_with_487() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 500)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    wire.receive(ALICE, &cancel());
    wire.pass(Duration::from_millis(32_100));
    for _ in 0..7 {
        wire.expect(BOB, "INVITE");
    }
    let terminated = wire.expect(ALICE, "SIP/2.0 487 Request Terminated");
    wire.receive(ALICE, &ack_of_refusal(&terminated));
    wire.finish();
}

#[test]
fn an_answer_that_crosses_the_cancel_still_counts() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(ALICE, &cancel());
    wire.expect_cancel(&sent);
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn a_call_that_waits_for_a_name_ends_at_once() {
    let mut wire = Wire::new(vec![target_uri("sip:bob@pc.example.com", 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let (ticket, _, _) = wire.expect_question();
    wire.receive(ALICE, &cancel());
    let terminated = wire.expect(ALICE, "SIP/2.0 487 Request Terminated");
    wire.assert_counts(0);
    assert_eq!(
        wire.proxy.next_deadline(),
        None,
        "its deadline is gone with it"
    );
    wire.resolved(ticket, &[BOB]);
    wire.expect_nothing();
    wire.receive(ALICE, &ack_of_refusal(&terminated));
    wire.finish();
}

#[test]
fn a_cancel_after_the_answer_changes_nothing() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.receive(ALICE, &cancel());
    wire.finish();
}
