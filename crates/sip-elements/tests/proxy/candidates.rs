//! The candidates of a destination (RFC 3263 section 4.3): each call tries one after the other, and failures are
//! remembered for the other calls.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Sent, US, Wire, ack_of_refusal, invite, listener, over, request,
    request_in, settings, target, target_uri, udp,
};
use sip_elements::{BranchId, DeadTargetStats, TargetFailure};
use sip_transport::Protocol;
use std::time::Duration;

pub const SECOND: Duration = Duration::from_secs(1);
pub const TRUNK: &str = "sip:bob@trunk.example.com";

pub fn wire(no_answer: Option<Duration>) -> Wire {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.no_answer = no_answer;
    settings.proxy.dead_target_lifetime = SECOND * 30;
    Wire::with(settings, vec![target_uri(TRUNK, 1000)])
}

/// A call from Alice. The number distinguishes it from others.
fn call(number: u32) -> String {
    invite()
        .replace("call-1@", &format!("call-{number}@"))
        .replace("aliceINVITE1", &format!("aliceINVITE1-{number}"))
}

pub fn place(wire: &mut Wire, number: u32, addresses: &[&str]) -> BranchId {
    wire.receive(ALICE, &call(number));
    wire.expect(ALICE, "SIP/2.0 100");
    let (ticket, _, _) = wire.expect_question();
    wire.resolved(ticket, addresses);
    ticket
}

fn refuse(wire: &mut Wire, from: &str, sent: &Sent, status: &str, headers: &str) {
    wire.receive(from, &sent.reply_with(status, headers));
    wire.expect(from, "ACK");
}

pub fn answer(wire: &mut Wire, from: &str, sent: &Sent) {
    wire.receive(from, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
}

pub fn dead(wire: &Wire) -> DeadTargetStats {
    wire.shared.dead_targets.stats()
}

#[test]
fn a_silent_candidate_is_left_for_the_next_and_other_calls_try_it_last() {
    let mut wire = wire(Some(SECOND * 2));
    place(&mut wire, 1, &[BOB, CAROL]);
    wire.expect(BOB, "INVITE");
    wire.pass(SECOND * 2 + SECOND / 100);
    wire.expect(BOB, "INVITE");
    wire.expect(BOB, "INVITE");
    let second = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &second);
    assert_eq!((dead(&wire).known, wire.metrics.failovers.value()), (1, 1));

    place(&mut wire, 2, &[BOB, CAROL, DAVE]);
    let sent = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &sent);
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

/// In a fork, 408 would be the better response of the two. For a request other than INVITE, a timeout would get no
/// response at all.
#[test]
fn the_last_candidate_speaks_for_the_silent_ones_before_it() {
    for (method, silence, copies) in [("MESSAGE", 4, 4), ("INVITE", 2, 3)] {
        let mut wire = wire(Some(SECOND * 2));
        wire.receive(ALICE, &request(method, "sip:bob@example.org", ""));
        if method == "INVITE" {
            wire.expect(ALICE, "SIP/2.0 100");
        }
        let (ticket, _, _) = wire.expect_question();
        wire.resolved(ticket, &[BOB, CAROL]);
        wire.pass(SECOND * silence + SECOND / 100);
        for _ in 0..copies {
            wire.expect(BOB, method);
        }
        let second = wire.expect(CAROL, method);
        wire.receive(CAROL, &second.reply("500 Server Internal Error"));
        if method == "INVITE" {
            wire.expect(CAROL, "ACK");
        }
        wire.expect(ALICE, "SIP/2.0 500");
    }
}

#[test]
fn a_call_that_had_nothing_but_100_from_a_server_that_died_moves_on() {
    let mut wire = wire(Some(SECOND));
    place(&mut wire, 1, &[BOB, CAROL]);
    let taken = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &taken.reply("100 Trying"));
    place(&mut wire, 2, &[BOB, CAROL]);
    let ringing = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &ringing.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.pass(SECOND * 5);
    wire.expect_nothing();
    place(&mut wire, 3, &[BOB, CAROL]);
    let lost = wire.expect(BOB, "INVITE");
    wire.undeliverable(&lost);
    let moved = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &moved);
    wire.pass(SECOND + SECOND / 100);
    let cancel = wire.expect(BOB, "CANCEL");
    assert_eq!(cancel.branch(), taken.branch());
    let moved = wire.expect(CAROL, "INVITE");
    assert_eq!(moved.header("Call-ID"), taken.header("Call-ID"));
    answer(&mut wire, CAROL, &moved);
    // A call that rings may still be answered: the server may be up again, or use another path.
    wire.receive(BOB, &ringing.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_call_that_had_100_stays_where_the_server_answers_others() {
    let mut wire = wire(Some(SECOND));
    place(&mut wire, 1, &[BOB, CAROL]);
    let slow = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &slow.reply("100 Trying"));
    place(&mut wire, 2, &[BOB, CAROL]);
    let lost = wire.expect(BOB, "INVITE");
    wire.undeliverable(&lost);
    let moved = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &moved);
    wire.receive(BOB, &slow.reply("100 Trying"));
    wire.pass(SECOND * 10);
    wire.expect_nothing();
    answer(&mut wire, BOB, &slow);
    wire.finish();
}

#[test]
fn a_request_that_can_not_be_sent_goes_to_the_next_candidate_at_once() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.undeliverable(&first);
    let second = wire.expect(CAROL, "INVITE");
    // A second report for the same request has no effect, and neither has one for a request that was answered.
    wire.undeliverable(&first);
    wire.expect_nothing();
    answer(&mut wire, CAROL, &second);
    wire.undeliverable(&second);
    wire.expect_nothing();
    let mut failed_targets = Vec::new();
    let dead = &wire.shared.dead_targets;
    dead.for_each(|candidate, _, why| failed_targets.push((candidate, why)));
    assert_eq!(
        failed_targets,
        [(over(Protocol::Udp, BOB), TargetFailure::Unreachable)]
    );
    wire.finish();
}

#[test]
fn where_nothing_can_be_sent_anywhere_the_caller_gets_500() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB]);
    let sent = wire.expect(BOB, "INVITE");
    wire.undeliverable(&sent);
    let failed = wire.expect(ALICE, "SIP/2.0 500 Next hop is not reachable");
    let ack = ack_of_refusal(&failed);
    let ack = ack.replace("aliceINVITE1", "aliceINVITE1-1");
    wire.receive(ALICE, &ack);
    wire.finish();
}

#[test]
fn all_dead_candidates_are_tried_all_the_same_and_a_response_revives() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.undeliverable(&first);
    let second = wire.expect(CAROL, "INVITE");
    wire.undeliverable(&second);
    wire.expect(ALICE, "SIP/2.0 500");
    assert_eq!(dead(&wire).known, 2);

    place(&mut wire, 2, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &first.reply("100 Trying"));
    assert_eq!((dead(&wire).known, dead(&wire).revived), (1, 1));
    answer(&mut wire, BOB, &first);
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn after_its_time_one_call_tries_the_dead_candidate_again() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.undeliverable(&first);
    let sent = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &sent);
    wire.pass(SECOND * 30);
    place(&mut wire, 2, &[BOB, CAROL]);
    let probe = wire.expect(BOB, "INVITE");
    place(&mut wire, 3, &[BOB, CAROL]);
    let other = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &other);
    answer(&mut wire, BOB, &probe);
    place(&mut wire, 4, &[BOB, CAROL]);
    let again = wire.expect(BOB, "INVITE");
    answer(&mut wire, BOB, &again);
    wire.finish();
}

/// The 503 may come from the far end of a call.
#[test]
fn a_503_moves_the_next_calls_for_as_long_as_it_asks_and_no_longer_than_other_failures() {
    for (headers, back_after) in [
        ("", 30),
        ("Retry-After: 12 (maintenance);duration=3600\r\n", 12),
        ("Retry-After: 120\r\n", 30),
        ("Retry-After: 86400\r\n", 30),
    ] {
        let mut wire = wire(None);
        place(&mut wire, 1, &[BOB, CAROL]);
        let first = wire.expect(BOB, "INVITE");
        refuse(&mut wire, BOB, &first, "503 Service Unavailable", headers);
        let second = wire.expect(CAROL, "INVITE");
        answer(&mut wire, CAROL, &second);
        wire.pass(SECOND * (back_after - 1));
        place(&mut wire, 2, &[BOB, CAROL]);
        let sent = wire.expect(CAROL, "INVITE");
        answer(&mut wire, CAROL, &sent);
        wire.pass(SECOND + SECOND / 100);
        for call in 3..5 {
            place(&mut wire, call, &[BOB, CAROL]);
            let sent = wire.expect(BOB, "INVITE");
            answer(&mut wire, BOB, &sent);
        }
        wire.finish();
    }
}

#[test]
fn what_a_resting_candidate_still_answers_does_not_end_its_rest() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB]);
    let under_way = wire.expect(BOB, "INVITE");
    place(&mut wire, 2, &[BOB, CAROL]);
    let refused = wire.expect(BOB, "INVITE");
    let rest = "Retry-After: 60\r\n";
    refuse(&mut wire, BOB, &refused, "503 Service Unavailable", rest);
    let second = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &second);
    answer(&mut wire, BOB, &under_way);
    place(&mut wire, 3, &[BOB, CAROL]);
    let sent = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &sent);
    wire.finish();
}

#[test]
fn a_rejection_other_than_503_marks_no_target_as_dead() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    refuse(&mut wire, BOB, &first, "500 Server Internal Error", "");
    wire.expect(ALICE, "SIP/2.0 500");
    assert_eq!(dead(&wire), DeadTargetStats::default());
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_phone_that_does_not_answer_is_no_dead_target() {
    let mut wire = wire(Some(SECOND));
    wire.targets = vec![target(BOB, 1000)];
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    wire.expect(BOB, "INVITE");
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    assert_eq!(dead(&wire), DeadTargetStats::default());
    wire.finish();
}

#[test]
fn with_a_lifetime_of_zero_nothing_is_remembered() {
    let mut wire = wire(None);
    wire.settings.proxy.dead_target_lifetime = Duration::ZERO;
    place(&mut wire, 1, &[BOB, CAROL]);
    let first = wire.expect(BOB, "INVITE");
    wire.undeliverable(&first);
    let sent = wire.expect(CAROL, "INVITE");
    answer(&mut wire, CAROL, &sent);
    place(&mut wire, 2, &[BOB, CAROL]);
    let sent = wire.expect(BOB, "INVITE");
    answer(&mut wire, BOB, &sent);
    wire.finish();
}

#[test]
fn all_requests_of_a_call_bring_the_same_seed_and_other_calls_another() {
    let mut wire = wire(None);
    let mut seed = |text: &str| {
        wire.receive(ALICE, text);
        let (_, destination, seed) = wire.expect_destination();
        assert_eq!(&*destination.host, "trunk.example.com");
        wire.ignore_sent();
        seed
    };
    let first = seed(&call(1));
    let bye = request_in("BYE", TRUNK, "b1", 2, "");
    assert_eq!(seed(&bye), first);
    let ack = request_in("ACK", TRUNK, "b1", 1, "");
    assert_eq!(seed(&ack), first);
    assert_ne!(seed(&call(2)), first);
}

#[test]
fn more_than_eight_servers_are_tried_up_to_the_bound() {
    let mut wire = wire(None);
    let addresses: Vec<String> = (100..130).map(|n| format!("192.0.2.{n}:5060")).collect();
    let all: Vec<&str> = addresses.iter().map(String::as_str).collect();
    place(&mut wire, 1, &all);
    for address in &all[..20] {
        let sent = wire.expect(address, "INVITE");
        wire.undeliverable(&sent);
    }
    wire.expect(ALICE, "SIP/2.0 500");
    assert_eq!(
        (dead(&wire).known, wire.metrics.failovers.value()),
        (20, 19)
    );
    wire.pass(SECOND * 40);
    wire.ignore_sent();
    wire.finish();
}

#[test]
fn a_caller_who_gave_up_is_not_taken_to_the_next_candidate() {
    let mut wire = wire(None);
    place(&mut wire, 1, &[BOB, CAROL]);
    wire.expect(BOB, "INVITE");
    let cancel = crate::wire::cancel().replace("aliceINVITE1", "aliceINVITE1-1");
    wire.receive(ALICE, &cancel);
    wire.pass(SECOND * 40);
    let sent = wire.take_sent();
    let to_carol = sent.iter().any(|sent| sent.to.to_string() == CAROL);
    assert!(!to_carol, "{sent:?}");
    wire.finish();
}

/// Alice's INVITE with a body of `octets` bytes.
fn long_invite(octets: usize) -> String {
    let body = "v".repeat(octets);
    invite().replace(
        "Content-Length: 0\r\n\r\n",
        &format!("Content-Length: {octets}\r\n\r\n{body}"),
    )
}

#[test]
fn a_long_request_leaves_as_a_stream_and_as_a_datagram_where_that_fails() {
    let listeners = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
    for (uri, is_named) in [(TRUNK, true), ("sip:bob@192.0.2.20:5060", false)] {
        let mut wire = Wire::with(settings(listeners.clone()), vec![target_uri(uri, 1000)]);
        wire.receive(ALICE, &long_invite(1_200));
        wire.expect(ALICE, "SIP/2.0 100");
        if is_named {
            let (ticket, _, _) = wire.expect_question();
            wire.resolved(ticket, &[BOB]);
        }
        let stream = wire.expect(BOB, "INVITE");
        assert!(stream.header("Via")[0].starts_with("SIP/2.0/TCP "), "{uri}");
        wire.undeliverable(&stream);
        let datagram = wire.expect(BOB, "INVITE");
        assert!(
            datagram.header("Via")[0].starts_with("SIP/2.0/UDP "),
            "{uri}"
        );
        answer(&mut wire, BOB, &datagram);
        wire.finish();
    }
}

/// Sends a long INVITE from Alice to an address.
fn place_long(wire: &mut Wire, number: u32) -> Sent {
    let invite = long_invite(1_200)
        .replace("call-1@", &format!("call-{number}@"))
        .replace("aliceINVITE1", &format!("aliceINVITE1-{number}"));
    wire.receive(ALICE, &invite);
    wire.expect(ALICE, "SIP/2.0 100");
    wire.expect(BOB, "INVITE")
}

fn protocol(sent: &Sent) -> &str {
    let via = sent.header("Via")[0];
    via.split([' ', '/']).nth(2).expect("a transport")
}

#[test]
fn an_address_that_took_no_stream_gets_datagrams_at_once_for_a_while() {
    let mut settings = settings(vec![udp(US, 24), listener(Protocol::Tcp, US, 24)]);
    settings.proxy.dead_target_lifetime = SECOND * 30;
    let mut wire = Wire::with(settings, vec![target(BOB, 1000)]);
    let stream = place_long(&mut wire, 1);
    assert_eq!(protocol(&stream), "TCP");
    wire.undeliverable(&stream);
    let datagram = wire.expect(BOB, "INVITE");
    assert_eq!(protocol(&datagram), "UDP");
    answer(&mut wire, BOB, &datagram);
    for number in 2..5 {
        let sent = place_long(&mut wire, number);
        assert_eq!(protocol(&sent), "UDP");
        answer(&mut wire, BOB, &sent);
    }
    assert_eq!((dead(&wire).known, dead(&wire).died), (1, 1));
    wire.pass(SECOND * 30);
    let stream = place_long(&mut wire, 5);
    assert_eq!(protocol(&stream), "TCP", "one call tries it again");
    let sent = place_long(&mut wire, 6);
    assert_eq!(protocol(&sent), "UDP", "and one only");
    answer(&mut wire, BOB, &sent);
    answer(&mut wire, BOB, &stream);
    assert_eq!(dead(&wire).known, 0);
    let stream = place_long(&mut wire, 7);
    assert_eq!(protocol(&stream), "TCP");
    answer(&mut wire, BOB, &stream);
    wire.finish();
}

/// Sends a long re-INVITE from Alice, and returns it as it reaches Bob.
fn long_re_invite(wire: &mut Wire, answered: &Sent) -> Sent {
    let to = answered.header("To")[0];
    let tag = to.split("tag=").nth(1).expect("a tag");
    let mut routes = String::new();
    for route in answered.header("Record-Route").into_iter().rev() {
        routes.extend(["Route: ", route, "\r\n"]);
    }
    let body = "v".repeat(1_400);
    let again = request_in("INVITE", "sip:bob@192.0.2.20:5060", tag, 2, &routes).replace(
        "Content-Length: 0\r\n\r\n",
        &format!("Content-Length: 1400\r\n\r\n{body}"),
    );
    wire.receive(ALICE, &again);
    wire.expect(ALICE, "SIP/2.0 100");
    wire.expect(BOB, "INVITE")
}

#[test]
fn a_long_request_in_a_dialog_stays_with_the_transport_of_the_dialog() {
    for (octets, expected) in [(200, "UDP"), (1_200, "TCP")] {
        let listeners = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
        let mut wire = Wire::with(settings(listeners), vec![target(BOB, 1000)]);
        wire.receive(ALICE, &long_invite(octets));
        wire.expect(ALICE, "SIP/2.0 100");
        let sent = wire.expect(BOB, "INVITE");
        assert_eq!(protocol(&sent), expected);
        let contact = "Contact: <sip:bob@192.0.2.20:5060>\r\n";
        wire.receive(BOB, &sent.reply_with("200 OK", contact));
        let answered = wire.expect(ALICE, "SIP/2.0 200 OK");
        let again = long_re_invite(&mut wire, &answered);
        assert_eq!(protocol(&again), expected, "{octets}");
        answer(&mut wire, BOB, &again);
        wire.finish();
    }
}

#[test]
fn a_request_stays_a_datagram_when_it_is_short_or_its_uri_says_so_or_we_know_no_tcp() {
    let both = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
    let rows = [
        ("sip:bob@192.0.2.20:5060", &both, 200),
        ("sip:bob@192.0.2.20:5060;transport=udp", &both, 1_200),
        ("sip:bob@192.0.2.20:5060", &vec![udp(US, 24)], 1_200),
    ];
    for (uri, listeners, octets) in rows {
        let mut wire = Wire::with(settings(listeners.clone()), vec![target_uri(uri, 1000)]);
        wire.receive(ALICE, &long_invite(octets));
        wire.expect(ALICE, "SIP/2.0 100");
        let sent = wire.expect(BOB, "INVITE");
        assert!(sent.header("Via")[0].starts_with("SIP/2.0/UDP "), "{uri}");
        answer(&mut wire, BOB, &sent);
        wire.finish();
    }
}

/// RFC 3261 section 18.3: a body ends where its datagram ends. On a stream, only Content-Length says where it ends.
#[test]
fn what_leaves_as_a_stream_has_a_content_length() {
    const NONE: &str = "Content-Length: 0\r\n";
    let both = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
    for (transport, lengths) in [("tcp", vec!["2"]), ("udp", vec![])] {
        let uri = format!("sip:bob@{BOB};transport={transport}");
        let mut wire = Wire::with(settings(both.clone()), vec![target_uri(&uri, 1000)]);
        let message = request("MESSAGE", "sip:bob@example.org", "").replace(NONE, "");
        wire.receive(ALICE, &format!("{message}hi"));
        let sent = wire.expect(BOB, "MESSAGE");
        assert_eq!(sent.header("Content-Length"), lengths, "{transport}");
        wire.receive(BOB, &sent.reply("200 OK").replace(NONE, ""));
        let answered = wire.expect(ALICE, "SIP/2.0 200 OK");
        assert_eq!(answered.header("Content-Length"), ["0"]);
        let ack = request_in("ACK", &uri, "b1", 1, "").replace(NONE, "");
        wire.receive(ALICE, &ack);
        let sent = wire.expect(BOB, "ACK");
        let expected = lengths.iter().map(|_| "0").collect::<Vec<_>>();
        assert_eq!(sent.header("Content-Length"), expected, "{transport}");
        wire.finish();
    }
}
