//! Timer C (RFC 3261 sections 16.6 step 11, 16.7 step 2, 16.8) and the operator's limit on silence.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Sent, US, Wire, ack_of_refusal, invite, settings, target, udp,
};
use sip_elements::routing::Target;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn calling(timer_c: u64, no_answer: Option<u64>) -> (Wire, Sent) {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.timer_c = Duration::from_secs(timer_c);
    settings.proxy.no_answer = no_answer.map(Duration::from_secs);
    let mut wire = Wire::with(settings, vec![target(BOB, 1000), target(CAROL, 500)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    (wire, sent)
}

#[test]
fn a_phone_that_rings_too_long_is_cancelled_and_the_next_one_tried() {
    let (mut wire, sent) = calling(181, None);
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.pass(SECOND * 180);
    wire.expect_nothing();
    wire.pass(SECOND + SECOND / 100);
    wire.expect_cancel(&sent);
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    let second = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &second.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    // If no target is left, a call that Timer C ended is a timeout upstream.
    wire.pass(SECOND * 181 + SECOND / 100);
    wire.expect_cancel(&second);
    wire.receive(CAROL, &second.reply("487 Request Terminated"));
    wire.expect(CAROL, "ACK");
    let refused = wire.expect(ALICE, "SIP/2.0 408 Request Timeout");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_phone_that_answers_when_timer_c_cancels_it_has_answered() {
    let (mut wire, sent) = calling(181, None);
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.pass(SECOND * 181 + SECOND / 100);
    wire.expect_cancel(&sent);
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn each_provisional_response_but_100_starts_timer_c_again() {
    let (mut wire, sent) = calling(181, None);
    for _ in 0..3 {
        wire.receive(BOB, &sent.reply("183 Session Progress"));
        wire.expect(ALICE, "SIP/2.0 183");
        wire.pass(SECOND * 120);
        wire.expect_nothing();
    }
    wire.receive(BOB, &sent.reply("100 Trying"));
    wire.pass(SECOND * 61 + SECOND / 100);
    wire.expect_cancel(&sent);
    wire.receive(BOB, &sent.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    let second = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn timer_c_without_any_response_is_a_timeout() {
    let (mut wire, _) = calling(10, None);
    wire.pass(SECOND * 9);
    wire.ignore_sent();
    wire.pass(SECOND + SECOND / 100);
    let second = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    // The transaction continues, so that it can cancel the call if Bob responds late.
    wire.pass(SECOND * 30);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_silent_target_is_left_for_the_next_and_cancelled_when_it_speaks_after_all() {
    let (mut wire, first) = calling(181, Some(4));
    wire.pass(SECOND * 3 + SECOND / 2);
    wire.ignore_sent();
    wire.pass(SECOND / 2 + SECOND / 100);
    let second = wire.expect(CAROL, "INVITE");
    wire.receive(CAROL, &second.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(BOB, &first.reply("180 Ringing"));
    wire.expect_cancel(&first);
    wire.expect_nothing();
    wire.receive(BOB, &first.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    wire.expect_nothing();
    wire.receive(CAROL, &second.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn any_provisional_response_ends_the_bound_on_silence() {
    let (mut wire, sent) = calling(181, Some(4));
    wire.receive(BOB, &sent.reply("100 Trying"));
    wire.pass(SECOND * 100);
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn the_last_target_may_be_silent_until_its_transaction_times_out() {
    let (mut wire, _) = calling(181, Some(4));
    wire.pass(SECOND * 35);
    wire.ignore_sent();
    assert_eq!(wire.responses(408), 0);
    wire.pass(SECOND + SECOND / 5);
    wire.ignore_sent();
    assert_eq!(wire.responses(408), 1);
    wire.assert_counts(0);
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_late_answer_of_a_target_that_was_passed_over_reaches_the_caller() {
    let (mut wire, first) = calling(181, Some(4));
    wire.pass(SECOND * 8 + SECOND / 5);
    wire.ignore_sent();
    wire.receive(BOB, &first.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

/// A desk phone, a mobile phone that wakes up slowly, and voicemail. Returns the two INVITEs that are sent at once.
fn desk_mobile_and_voicemail() -> (Wire, Sent, Sent) {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.no_answer = Some(SECOND * 3);
    let phones = [(BOB, 1000), (CAROL, 1000), (DAVE, 100)];
    let mut wire = Wire::with(settings, phones.map(|(at, q)| target(at, q)).into());
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let desk = wire.expect(BOB, "INVITE");
    let mobile = wire.expect(CAROL, "INVITE");
    wire.receive(BOB, &desk.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    (wire, desk, mobile)
}

#[test]
fn a_silent_phone_is_not_given_up_for_voicemail_while_another_one_rings() {
    let (mut wire, desk, mobile) = desk_mobile_and_voicemail();
    wire.pass(SECOND * 4);
    for _ in 0..3 {
        wire.expect(CAROL, "INVITE");
    }
    wire.receive(CAROL, &mobile.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(CAROL, &mobile.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.expect_cancel(&desk);
    wire.receive(BOB, &desk.reply("487 Request Terminated"));
    wire.expect(BOB, "ACK");
    wire.finish();
}

#[test]
fn without_a_ringing_phone_a_silent_phone_is_given_up_for_voicemail() {
    let (mut wire, desk, _) = desk_mobile_and_voicemail();
    wire.pass(SECOND * 5);
    wire.ignore_sent();
    wire.receive(BOB, &desk.reply("486 Busy Here"));
    wire.expect(BOB, "ACK");
    wire.expect_nothing();
    wire.pass(SECOND + SECOND / 100);
    let voicemail = wire.expect(DAVE, "INVITE");
    wire.receive(DAVE, &voicemail.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_silent_flow_is_given_up_for_the_next_flow_to_its_phone_while_another_phone_rings() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.no_answer = Some(SECOND * 3);
    let flow_of = |instance, at, q| Target {
        instance,
        ..target(at, q)
    };
    let targets = vec![
        flow_of(1, BOB, 1000),
        flow_of(2, CAROL, 1000),
        flow_of(2, DAVE, 1000),
    ];
    let mut wire = Wire::with(settings, targets);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let desk = wire.expect(BOB, "INVITE");
    wire.expect(CAROL, "INVITE");
    wire.receive(BOB, &desk.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.pass(SECOND * 3 + SECOND / 100);
    for _ in 0..2 {
        wire.expect(CAROL, "INVITE");
    }
    wire.expect(DAVE, "INVITE");
    wire.receive(BOB, &desk.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}
