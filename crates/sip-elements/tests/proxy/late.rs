//! Responses that arrive when the response context is gone.

use crate::wire::{ALICE, BOB, Sent, US, Wire, ack_of_refusal, invite, settings, target, udp};
use sip_elements::metrics::DropReason;
use std::time::Duration;

fn answered() -> (Wire, Sent, String) {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    let answer = sent.reply("200 OK");
    wire.receive(BOB, &answer);
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.assert_counts(0);
    (wire, sent, answer)
}

#[test]
fn retransmissions_of_the_answer_are_forwarded() {
    let (mut wire, _, answer) = answered();
    for _ in 0..3 {
        wire.pass(Duration::from_secs(1));
        wire.receive(BOB, &answer);
        wire.expect(ALICE, "SIP/2.0 200 OK");
    }
    assert_eq!(wire.responses(200), 4);
    wire.finish();
}

#[test]
fn retransmissions_of_the_answer_take_the_way_of_the_first() {
    let second = "192.0.2.1:5080";
    let mut wire = Wire::with(
        settings(vec![udp(US, 24), udp(second, 24)]),
        vec![target(BOB, 1000)],
    );
    wire.receive_at(1, ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    for _ in 0..2 {
        wire.receive_at(1, BOB, &sent.reply("200 OK"));
        assert_eq!(wire.expect(ALICE, "SIP/2.0 200 OK").listener, 1);
    }
    wire.finish();
}

#[test]
fn an_answer_to_a_call_that_outlived_a_restart_is_forwarded() {
    let (wire, _, answer) = answered();
    let mut restarted = wire.restarted();
    restarted.receive(BOB, &answer);
    let passed = restarted.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(passed.header("Via").len(), 1);
    restarted.finish();
}

#[test]
fn what_is_not_the_answer_to_a_call_of_ours_is_dropped() {
    let (wire, sent, answer) = answered();
    let branch = sent.branch();
    let unsealed = [&branch[..23], "0123456789abcdef", &branch[39..]].concat();
    let change = |from: &str, to: &str| answer.replace(from, to);
    let (upstream, stray, forged) = (
        "received=192.0.2.10",
        DropReason::StrayResponse,
        DropReason::ForgedResponse,
    );
    let rows = [
        (
            "another upstream",
            change(upstream, "received=198.51.100.7"),
            forged,
        ),
        ("another port", change("rport=5060", "rport=53"), forged),
        (
            "another call",
            change("call-1@alice", "call-2@alice"),
            forged,
        ),
        (
            "broadcast",
            change(upstream, "received=255.255.255.255"),
            forged,
        ),
        ("not our seal", change(&branch, &unsealed), forged),
        ("not our branch", change(&branch, "z9hG4bKabcdef"), stray),
        ("a 100", change("200 OK", "100 Trying"), stray),
        ("of another method", change("1 INVITE", "1 INFO"), forged),
        ("of another request", change("1 INVITE", "2 INVITE"), forged),
        ("of another caller", change("tag=a1", "tag=a2"), forged),
    ];
    for (name, response, reason) in rows {
        assert_ne!(response, answer, "{name}");
        let mut restarted = wire.restarted();
        restarted.receive(BOB, &response);
        restarted.expect_nothing();
        assert_eq!(restarted.dropped(reason), 1, "{name}");
        restarted.finish();
    }
}

#[test]
fn a_failure_of_a_request_that_has_ended_here_is_dropped() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(BOB, &sent.reply("486 Busy Here"));
    wire.expect(BOB, "ACK");
    let refusal = wire.expect(ALICE, "SIP/2.0 486");
    wire.receive(ALICE, &ack_of_refusal(&refusal));
    wire.pass(Duration::from_secs(60));
    wire.receive(BOB, &sent.reply("603 Decline"));
    wire.expect_nothing();
    assert_eq!(wire.dropped(DropReason::StrayResponse), 1);
    wire.finish();
}

#[test]
fn a_broadcast_via_below_ours_is_not_answered() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    let stray = "SIP/2.0 200 OK\r\n\
        Via: SIP/2.0/UDP 192.0.2.198;branch=z9hG4bK1324923\r\n\
        Via: SIP/2.0/UDP 255.255.255.255;branch=z9hG4bK1saber23\r\n\
        Call-ID: bcast.0384840201234ksdfak3j2erwedfsASdf\r\n\
        CSeq: 35 INVITE\r\n\
        From: sip:user@example.com;tag=11141343\r\n\
        To: sip:user@example.edu;tag=2229\r\n\
        Content-Length: 0\r\n\r\n";
    wire.receive(BOB, stray);
    wire.expect_nothing();
    assert_eq!(wire.dropped(DropReason::StrayResponse), 1);
    wire.finish();
}
