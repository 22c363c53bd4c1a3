//! Parallel targets: the first answer wins. Without an answer, the best error response is forwarded.

use crate::wire::{ALICE, BOB, CAROL, DAVE, Sent, Wire, ack_of_refusal, invite, request, target};

/// Reason that a phone gets when another phone was faster.
const ELSEWHERE: &str = "SIP;cause=200;text=\"Call completed elsewhere\"";

/// A call that rings at Bob's and Carol's phones.
fn ringing() -> (Wire, Sent, Sent) {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let bob = wire.expect(BOB, "INVITE sip:bob@192.0.2.20:5060");
    let carol = wire.expect(CAROL, "INVITE sip:bob@192.0.2.30:5060");
    assert_ne!(bob.branch(), carol.branch());
    wire.receive(BOB, &bob.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(CAROL, &carol.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    (wire, bob, carol)
}

#[test]
fn who_answers_first_wins_and_the_others_are_cancelled() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(CAROL, &carol.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(wire.expect_cancel(&bob), ELSEWHERE);
    wire.assert_counts(1);
    wire.receive(BOB, &bob.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    wire.assert_counts(0);
    wire.finish();
}

#[test]
fn a_phone_that_rings_only_after_the_answer_learns_that_it_came_from_elsewhere() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let bob = wire.expect(BOB, "INVITE");
    let carol = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &carol.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.expect_nothing();
    wire.receive(BOB, &bob.reply("180 Ringing"));
    assert_eq!(wire.expect_cancel(&bob), ELSEWHERE);
    wire.receive(BOB, &bob.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    wire.finish();
}

#[test]
fn both_answers_reach_the_caller_when_both_answer() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(CAROL, &carol.reply("200 OK"));
    let first = wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.expect_cancel(&bob);
    wire.receive(BOB, &bob.reply("200 OK"));
    let second = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_ne!(first.header("To"), second.header("To"));
    wire.finish();
}

#[test]
fn a_cancelled_branch_that_never_ends_is_given_up() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(CAROL, &carol.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.expect_cancel(&bob);
    wire.pass(std::time::Duration::from_millis(31_900));
    wire.assert_counts(1);
    wire.pass(std::time::Duration::from_millis(200));
    wire.assert_counts(0);
    wire.finish();
}

#[test]
fn a_6xx_cancels_the_others_and_waits_for_them() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(CAROL, &carol.reply("603 Decline"));
    wire.expect(CAROL, "ACK");
    assert_eq!(wire.expect_cancel(&bob), "SIP;cause=603;text=\"Decline\"");
    wire.expect_nothing();
    wire.receive(BOB, &bob.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    let declined = wire.expect(ALICE, "SIP/2.0 603 Decline");
    wire.receive(ALICE, &ack_of_refusal(&declined));
    wire.finish();
}

#[test]
fn a_2xx_after_a_6xx_still_wins() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(CAROL, &carol.reply("603 Decline"));
    wire.expect(CAROL, "ACK");
    wire.expect_cancel(&bob);
    wire.receive(BOB, &bob.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn the_best_refusal_goes_upstream_when_all_have_refused() {
    let rows = [
        ("404 Not Found", "302 Moved", "302 Moved"),
        ("500 Oops", "486 Busy Here", "486 Busy Here"),
        ("486 Busy Here", "404 Not Found", "486 Busy Here"),
        (
            "486 Busy Here",
            "484 Address Incomplete",
            "484 Address Incomplete",
        ),
        ("408 Request Timeout", "480 Not There", "480 Not There"),
        (
            "503 Service Unavailable",
            "504 Server Time-out",
            "504 Server Time-out",
        ),
    ];
    for (from_bob, from_carol, expected) in rows {
        let (mut wire, bob, carol) = ringing();
        wire.receive(BOB, &bob.reply(from_bob));
        wire.expect(BOB, "ACK");
        wire.expect_nothing();
        wire.receive(CAROL, &carol.reply(from_carol));
        wire.expect(CAROL, "ACK");
        let refused = wire.expect(ALICE, &format!("SIP/2.0 {expected}"));
        wire.receive(ALICE, &ack_of_refusal(&refused));
        wire.finish();
    }
}

#[test]
fn challenges_of_all_branches_are_put_together() {
    let (mut wire, bob, carol) = ringing();
    wire.receive(
        BOB,
        &bob.reply_with(
            "401 Unauthorized",
            "WWW-Authenticate: Digest realm=\"bob\", nonce=\"1\"\r\n",
        ),
    );
    wire.expect(BOB, "ACK");
    let challenge = "Proxy-Authenticate: Digest realm=\"c1\", nonce=\"2\"\r\nProxy-Authenticate: Digest realm=\"c2\", nonce=\"3\"\r\n";
    wire.receive(
        CAROL,
        &carol.reply_with("407 Proxy Authentication Required", challenge),
    );
    wire.expect(CAROL, "ACK");
    let refused = wire.expect(ALICE, "SIP/2.0 401 Unauthorized");
    assert_eq!(
        refused.header("WWW-Authenticate"),
        ["Digest realm=\"bob\", nonce=\"1\""]
    );
    assert_eq!(
        refused.header("Proxy-Authenticate"),
        [
            "Digest realm=\"c1\", nonce=\"2\"",
            "Digest realm=\"c2\", nonce=\"3\""
        ]
    );
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn equal_q_rings_at_once_and_lower_q_afterwards() {
    let mut wire = Wire::new(vec![
        target(DAVE, 100),
        target(BOB, 700),
        target(CAROL, 700),
    ]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let bob = wire.expect(BOB, "INVITE");
    let carol = wire.expect(CAROL, "INVITE");
    wire.expect_nothing();
    wire.receive(BOB, &bob.reply("486 Busy Here"));
    wire.expect(BOB, "ACK");
    wire.expect_nothing();
    wire.receive(CAROL, &carol.reply("480 Away"));
    wire.expect(CAROL, "ACK");
    let dave = wire.expect(DAVE, "INVITE");
    wire.receive(DAVE, &dave.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn the_first_answer_to_a_forked_non_invite_passes_and_the_others_are_not_disturbed() {
    let mut wire = Wire::new(vec![
        target(BOB, 1000),
        target(CAROL, 1000),
        target(DAVE, 500),
    ]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let bob = wire.expect(BOB, "MESSAGE");
    let carol = wire.expect(CAROL, "MESSAGE");
    wire.receive(CAROL, &carol.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.expect_nothing();
    wire.receive(BOB, &bob.reply("200 OK"));
    wire.finish();
}
