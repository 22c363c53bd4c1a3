//! Requests other than INVITE, whose servers may be silent for long (RFC 4320): when another candidate is tried, and
//! what the silence says about a server.

use crate::candidates::{SECOND, TRUNK, answer, dead, place, wire};
use crate::wire::{ALICE, BOB, CAROL, Wire, request};
use std::time::Duration;

/// Sends a request from Alice for the trunk, which resolves to these servers.
fn send(wire: &mut Wire, method: &str, addresses: &[&str]) {
    let request = request(method, TRUNK, "").replace("call-1@", "call-8@");
    wire.receive(ALICE, &request);
    let (ticket, _, _) = wire.expect_question();
    wire.resolved(ticket, addresses);
}

fn had_copies(wire: &mut Wire, method: &str, to: &str) -> usize {
    let sent = wire.take_sent();
    let copies = sent
        .iter()
        .filter(|sent| sent.first_line().starts_with(method) && sent.to.to_string() == to);
    copies.count()
}

#[test]
fn a_bye_goes_to_the_next_candidate_when_a_healthy_server_would_have_answered() {
    let millis = Duration::from_millis;
    for (t1, no_answer, expected) in [
        (500, 1_000, 4_000),
        (500, 3_000, 4_000),
        (500, 6_000, 6_000),
        (100, 500, 800),
    ] {
        let mut wire = wire(Some(millis(no_answer)));
        wire.settings.timers.t1 = millis(t1);
        send(&mut wire, "BYE", &[BOB, CAROL]);
        wire.pass(millis(expected - 10));
        assert_eq!(had_copies(&mut wire, "BYE", CAROL), 0, "{no_answer}");
        wire.pass(millis(20));
        let sent = wire.take_sent();
        let second = sent.last().expect("the next candidate has its turn");
        assert_eq!(second.to.to_string(), CAROL);
        wire.receive(CAROL, &second.reply("200 OK"));
        wire.expect(ALICE, "SIP/2.0 200 OK");
        wire.pass(SECOND * 40);
        wire.ignore_sent();
        wire.finish();
    }
}

#[test]
fn a_server_that_is_silent_to_a_message_keeps_its_calls() {
    let mut wire = wire(Some(SECOND));
    place(&mut wire, 1, &[BOB, CAROL]);
    let call = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &call.reply("100 Trying"));
    send(&mut wire, "MESSAGE", &[BOB, CAROL]);
    wire.pass(SECOND * 5);
    assert_eq!(had_copies(&mut wire, "MESSAGE", CAROL), 2);
    assert_eq!(dead(&wire).known, 0);
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    answer(&mut wire, BOB, &call);
    wire.finish();
}

#[test]
fn a_server_in_front_of_a_silent_phone_is_not_dead() {
    let mut wire = wire(Some(SECOND));
    send(&mut wire, "MESSAGE", &[BOB]);
    wire.pass(SECOND * 33);
    assert_eq!(had_copies(&mut wire, "MESSAGE", BOB), 11);
    assert_eq!(dead(&wire).known, 0);
    wire.finish();
}

/// When Timer F fires, the sender has given up. Another server would process the request a second time.
#[test]
fn a_message_that_a_server_has_taken_goes_to_no_other() {
    for status in ["100 Trying", "183 Later"] {
        let mut wire = wire(Some(SECOND));
        send(&mut wire, "MESSAGE", &[BOB, CAROL]);
        let first = wire.expect(BOB, "MESSAGE");
        wire.pass(SECOND * 3);
        wire.receive(BOB, &first.reply(status));
        wire.pass(SECOND * 40);
        assert_eq!(had_copies(&mut wire, "MESSAGE", CAROL), 0, "{status}");
        wire.finish();
    }
}

#[test]
fn the_last_candidate_of_a_bye_has_all_the_time_there_is() {
    let mut wire = wire(Some(SECOND));
    send(&mut wire, "BYE", &[BOB]);
    let sent = wire.expect(BOB, "BYE");
    wire.pass(SECOND * 20);
    wire.ignore_sent();
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}
