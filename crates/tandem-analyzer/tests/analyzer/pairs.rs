//! Which messages match, and which do not.

use super::wire::{ALICE, BOB, BOUNDS, SERVER, Wire, request, response};
use tandem_analyzer::{Bounds, Counter, Step};

const ALICES: &str = "192.0.2.7:5062;branch=z9hG4bK-a";
const ALICES_NEXT: &str = "192.0.2.7:5062;branch=z9hG4bK-b";
const SERVERS: &str = "192.0.2.1:5060;branch=z9hG4bK-s";
const CREDENTIALS: &str = "Proxy-Authorization: Digest username=\"alice\"\r\n";

/// A call with a challenge, up to its ACK. Times between incoming and outgoing messages: 100, 200, 300, 400 and 500 microseconds.
fn call(wire: &mut Wire) {
    wire.udp(ALICE, SERVER, request("INVITE", &[ALICES], "c", 1, ""));
    wire.wait(100).udp(
        SERVER,
        ALICE,
        response(407, "INVITE", &[ALICES], "c", 1, "s"),
    );
    wire.wait(1_000)
        .udp(ALICE, SERVER, request("ACK", &[ALICES], "c", 1, ""));
    wire.udp(
        ALICE,
        SERVER,
        request("INVITE", &[ALICES_NEXT], "c", 2, CREDENTIALS),
    );
    wire.wait(150).udp(
        SERVER,
        ALICE,
        response(100, "INVITE", &[ALICES_NEXT], "c", 2, ""),
    );
    wire.wait(50).udp(
        SERVER,
        BOB,
        request("INVITE", &[SERVERS, ALICES_NEXT], "c", 2, ""),
    );
    wire.wait(1_000).udp(
        BOB,
        SERVER,
        response(100, "INVITE", &[SERVERS, ALICES_NEXT], "c", 2, ""),
    );
    wire.udp(
        BOB,
        SERVER,
        response(180, "INVITE", &[SERVERS, ALICES_NEXT], "c", 2, "b"),
    );
    wire.wait(300).udp(
        SERVER,
        ALICE,
        response(180, "INVITE", &[ALICES_NEXT], "c", 2, "b"),
    );
    wire.wait(4_000_000).udp(
        BOB,
        SERVER,
        response(200, "INVITE", &[SERVERS, ALICES_NEXT], "c", 2, "b"),
    );
    wire.wait(400).udp(
        SERVER,
        ALICE,
        response(200, "INVITE", &[ALICES_NEXT], "c", 2, "b"),
    );
    let (came, left) = (
        "192.0.2.7:5062;branch=z9hG4bK-c",
        "192.0.2.1:5060;branch=z9hG4bK-t",
    );
    wire.wait(1_000)
        .udp(ALICE, SERVER, request("ACK", &[came], "c", 2, ""));
    wire.wait(500)
        .udp(SERVER, BOB, request("ACK", &[left, came], "c", 2, ""));
}

#[test]
fn a_call_has_the_three_response_times_of_a_proxy_and_those_of_its_other_messages() {
    let mut wire = Wire::new();
    call(&mut wire);
    wire.finish();
    assert_eq!(wire.times(Step::Challenged, "INVITE"), (1, 100));
    assert_eq!(wire.times(Step::AuthenticatedForwarded, "INVITE"), (1, 200));
    assert_eq!(wire.times(Step::SuccessRelayed, "INVITE"), (1, 400));
    assert_eq!(wire.times(Step::Trying, "INVITE"), (1, 150));
    assert_eq!(wire.times(Step::ProvisionalRelayed, "INVITE"), (1, 300));
    assert_eq!(wire.times(Step::Forwarded, "ACK"), (1, 500));
    assert_eq!(wire.samples(), 6);
    // All messages have a match.
    let expected = [(Counter::Packets, 13), (Counter::Messages, 13)];
    let counters = wire.counters();
    for counter in Counter::ALL {
        let expected = expected.iter().find(|(which, _)| which == counter);
        assert_eq!(
            counters.of(*counter),
            expected.map_or(0, |(_, count)| *count),
            "{counter:?}"
        );
    }
}

#[test]
fn what_is_exactly_at_the_bound_of_a_bucket_lies_in_it() {
    let mut wire = Wire::new();
    for (number, time) in [(1, 999), (2, 1_000), (3, 1_001), (4, 10_000), (5, 10_001)] {
        wire.udp(
            ALICE,
            SERVER,
            request("OPTIONS", &[ALICES], "o", number, ""),
        );
        wire.wait(time).udp(
            SERVER,
            ALICE,
            response(200, "OPTIONS", &[ALICES], "o", number, "s"),
        );
    }
    let (_, _, times) = wire.analysis.figures().times().next().expect("one step");
    assert_eq!(times.buckets, [2, 2, 1]);
    assert_eq!(times.longest, 10_001_000);
}

#[test]
fn requests_of_all_methods_are_paired() {
    let mut wire = Wire::new();
    wire.udp(ALICE, SERVER, request("REGISTER", &[ALICES], "r", 1, ""));
    wire.wait(10).udp(
        SERVER,
        ALICE,
        response(401, "REGISTER", &[ALICES], "r", 1, "s"),
    );
    wire.udp(
        ALICE,
        SERVER,
        request(
            "REGISTER",
            &[ALICES_NEXT],
            "r",
            2,
            "Authorization: Digest a\r\n",
        ),
    );
    wire.wait(20).udp(
        SERVER,
        ALICE,
        response(200, "REGISTER", &[ALICES_NEXT], "r", 2, "s"),
    );
    wire.udp(BOB, SERVER, request("BYE", &[ALICES], "c", 9, ""));
    wire.wait(30).udp(
        SERVER,
        ALICE,
        request("BYE", &[SERVERS, ALICES], "c", 9, ""),
    );
    wire.udp(
        ALICE,
        SERVER,
        response(481, "BYE", &[SERVERS, ALICES], "c", 9, "x"),
    );
    wire.wait(40)
        .udp(SERVER, BOB, response(481, "BYE", &[ALICES], "c", 9, "x"));
    wire.udp(ALICE, SERVER, request("GREET", &[ALICES], "g", 1, ""));
    wire.wait(50).udp(
        SERVER,
        ALICE,
        response(501, "GREET", &[ALICES], "g", 1, "x"),
    );
    assert_eq!(wire.times(Step::Challenged, "REGISTER"), (1, 10));
    assert_eq!(wire.times(Step::Answered, "REGISTER"), (1, 20));
    assert_eq!(wire.times(Step::Forwarded, "BYE"), (1, 30));
    assert_eq!(wire.times(Step::FailureRelayed, "BYE"), (1, 40));
    assert_eq!(wire.times(Step::Answered, "GREET"), (1, 50));
}

#[test]
fn of_retransmissions_and_forks_the_first_counts() {
    let mut wire = Wire::new();
    let invite = request("INVITE", &[ALICES], "c", 1, CREDENTIALS);
    wire.udp(ALICE, SERVER, &invite)
        .wait(500_000)
        .udp(ALICE, SERVER, &invite);
    let first = request("INVITE", &[SERVERS, ALICES], "c", 1, "");
    wire.wait(100).udp(SERVER, BOB, &first);
    let other_branch = "192.0.2.1:5060;branch=z9hG4bK-f";
    wire.udp(
        SERVER,
        BOB,
        request("INVITE", &[other_branch, ALICES], "c", 1, ""),
    )
    .udp(SERVER, BOB, &first);
    // Both branches ring; each sends a response of its own.
    for (tag, branch) in [("x", SERVERS), ("y", other_branch)] {
        wire.udp(
            BOB,
            SERVER,
            response(180, "INVITE", &[branch, ALICES], "c", 1, tag),
        );
        wire.wait(7).udp(
            SERVER,
            ALICE,
            response(180, "INVITE", &[ALICES], "c", 1, tag),
        );
    }
    let (came, left) = (
        response(200, "INVITE", &[SERVERS, ALICES], "c", 1, "x"),
        response(200, "INVITE", &[ALICES], "c", 1, "x"),
    );
    for _ in 0..2 {
        wire.wait(500_000)
            .udp(BOB, SERVER, &came)
            .wait(9)
            .udp(SERVER, ALICE, &left);
    }
    assert_eq!(
        wire.times(Step::AuthenticatedForwarded, "INVITE"),
        (1, 500_100)
    );
    assert_eq!(wire.times(Step::ProvisionalRelayed, "INVITE"), (2, 14));
    assert_eq!(wire.times(Step::SuccessRelayed, "INVITE"), (1, 9));
    assert_eq!(wire.count(Counter::Copies), 2);
    // The INVITE, and the 200 on both sides.
    assert_eq!(wire.count(Counter::Retransmissions), 3);
}

#[test]
fn what_the_server_does_by_itself_is_no_response_time() {
    let mut wire = Wire::new();
    wire.udp(
        ALICE,
        SERVER,
        request("INVITE", &[ALICES], "c", 1, CREDENTIALS),
    );
    wire.wait(10).udp(
        SERVER,
        BOB,
        request("INVITE", &[SERVERS, ALICES], "c", 1, ""),
    );
    wire.wait(20_000_000)
        .udp(SERVER, BOB, request("CANCEL", &[SERVERS], "c", 1, ""));
    wire.udp(
        BOB,
        SERVER,
        response(200, "CANCEL", &[SERVERS], "c", 1, "b"),
    );
    wire.udp(
        SERVER,
        ALICE,
        response(408, "INVITE", &[ALICES], "c", 1, "s"),
    );
    wire.udp(SERVER, BOB, request("OPTIONS", &[SERVERS], "probe", 1, ""));
    wire.udp(
        BOB,
        SERVER,
        response(200, "OPTIONS", &[SERVERS], "probe", 1, "b"),
    );
    wire.finish();
    assert_eq!(wire.samples(), 1);
    assert_eq!(wire.count(Counter::OwnRequests), 4);
    assert_eq!(wire.count(Counter::LateAnswers), 1);
    assert_eq!(
        wire.count(Counter::Unanswered) + wire.count(Counter::Unrelayed),
        0
    );
}

#[test]
fn what_has_no_other_half_is_counted() {
    let mut wire = Wire::new();
    wire.udp(
        SERVER,
        ALICE,
        response(200, "INVITE", &[ALICES], "before", 1, "b"),
    );
    wire.udp(
        SERVER,
        BOB,
        request("INVITE", &[SERVERS, ALICES], "before", 2, ""),
    );
    wire.udp(ALICE, SERVER, request("INVITE", &[ALICES], "lost", 1, ""));
    wire.udp(
        BOB,
        SERVER,
        response(486, "INVITE", &[SERVERS, ALICES], "lost", 1, "b"),
    );
    assert_eq!(wire.count(Counter::Unmatched), 2);
    assert_eq!(
        wire.count(Counter::Unanswered) + wire.count(Counter::Unrelayed),
        0
    );
    // After the timeout, by the time of another packet.
    wire.wait(33_000_000)
        .udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 1, ""));
    assert_eq!(
        (
            wire.count(Counter::Unanswered),
            wire.count(Counter::Unrelayed)
        ),
        (1, 1)
    );
    wire.wait(10).udp(
        SERVER,
        ALICE,
        response(407, "INVITE", &[ALICES], "lost", 1, "s"),
    );
    assert_eq!(wire.count(Counter::Unmatched), 3);
    wire.finish();
    assert_eq!(wire.count(Counter::Unanswered), 2);
    assert_eq!(wire.samples(), 0);
}

#[test]
fn no_more_messages_are_remembered_than_there_is_room_for() {
    let bounds = Bounds {
        messages: 10,
        ..BOUNDS
    };
    let mut wire = Wire::with(&[SERVER], bounds);
    for number in 1..=100 {
        wire.udp(
            ALICE,
            SERVER,
            request("OPTIONS", &[ALICES], "o", number, ""),
        );
        assert!(wire.analysis.held().0 <= 10);
    }
    assert_eq!(wire.count(Counter::Forgotten), 90);
    // The newest messages are remembered.
    wire.wait(5).udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 91, "s"),
    );
    wire.udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 90, "s"),
    );
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 5));
    assert_eq!(wire.count(Counter::Unmatched), 1);
    // Messages with a match are evicted without being counted.
    for number in 101..=200 {
        wire.udp(
            ALICE,
            SERVER,
            request("OPTIONS", &[ALICES], "o", number, ""),
        );
        wire.udp(
            SERVER,
            ALICE,
            response(200, "OPTIONS", &[ALICES], "o", number, "s"),
        );
    }
    assert_eq!(wire.count(Counter::Forgotten), 90 + 9);
}

#[test]
fn another_call_another_number_and_another_branch_are_others() {
    let mut wire = Wire::new();
    wire.udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 1, ""));
    for (via, call, number) in [(ALICES, "p", 1), (ALICES, "o", 2), (ALICES_NEXT, "o", 1)] {
        wire.udp(
            SERVER,
            ALICE,
            response(200, "OPTIONS", &[via], call, number, "s"),
        );
    }
    wire.udp(
        SERVER,
        ALICE,
        response(200, "MESSAGE", &[ALICES], "o", 1, "s"),
    );
    assert_eq!(wire.count(Counter::Unmatched), 4);
    assert_eq!(wire.samples(), 0);
}

#[test]
fn a_clock_that_is_set_back_makes_no_response_time() {
    let mut wire = Wire::new();
    wire.udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 1, ""));
    wire.wait(-3_600_000_000).udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 1, "s"),
    );
    assert_eq!(
        (
            wire.count(Counter::ClockBack),
            wire.count(Counter::Negative)
        ),
        (1, 1)
    );
    assert_eq!(wire.samples(), 0);
    // Matching continues as before.
    wire.udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 2, ""));
    wire.wait(6).udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 2, "s"),
    );
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 6));
}

#[test]
fn a_clock_that_is_set_ahead_loses_what_waits_and_nothing_else() {
    let mut wire = Wire::new();
    wire.udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 1, ""));
    wire.wait(86_400_000_000).udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 1, "s"),
    );
    assert_eq!(
        (
            wire.count(Counter::Unanswered),
            wire.count(Counter::Unmatched)
        ),
        (1, 1)
    );
    wire.udp(ALICE, SERVER, request("OPTIONS", &[ALICES], "o", 2, ""));
    wire.wait(6).udp(
        SERVER,
        ALICE,
        response(200, "OPTIONS", &[ALICES], "o", 2, "s"),
    );
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 6));
}

#[test]
fn the_server_may_have_several_addresses_of_both_families() {
    let mut wire = Wire::with(&["192.0.2.1", "2001:db8::1"], BOUNDS);
    let via = "[2001:db8::7]:5062;branch=z9hG4bK-a";
    let servers = "[2001:db8::1]:5060;branch=z9hG4bK-s";
    wire.udp(
        "[2001:db8::7]:5062",
        "[2001:db8::1]:5060",
        request("MESSAGE", &[via], "m", 1, ""),
    );
    wire.wait(8)
        .udp(SERVER, BOB, request("MESSAGE", &[servers, via], "m", 1, ""));
    wire.udp(
        "192.0.2.1:9",
        "192.0.2.1:5060",
        request("MESSAGE", &[via], "m", 2, ""),
    );
    wire.udp(ALICE, BOB, request("MESSAGE", &[via], "m", 3, ""));
    assert_eq!(wire.times(Step::Forwarded, "MESSAGE"), (1, 8));
    assert_eq!(wire.count(Counter::InternalMessages), 1);
    assert_eq!(wire.count(Counter::ForeignMessages), 1);
}
