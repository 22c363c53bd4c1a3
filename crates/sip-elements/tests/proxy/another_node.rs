//! A node dies in the middle of a call set-up, and another node with the same secret gets the next messages.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Sent, US, Wire, invite, listener, request, settings, target, udp,
};
use sip_elements::metrics::DropReason;
use sip_elements::routing::Target;
use sip_transport::Protocol;
use std::time::Duration;

/// The copies of an INVITE to these targets, each with its destination.
fn copies(targets: Vec<Target>) -> (Wire, Vec<Sent>) {
    let mut wire = Wire::new(targets);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let mut copies = wire.take_sent();
    copies.sort_by_key(|sent| sent.to);
    (wire, copies)
}

fn texts(copies: &[Sent]) -> Vec<&str> {
    copies.iter().map(|sent| &*sent.text).collect()
}

#[test]
fn a_retransmitted_invite_is_the_same_to_each_callee_in_whatever_order_the_node_knows_them() {
    let targets = [target(BOB, 1000), target(CAROL, 1000), target(DAVE, 1000)];
    let (_, first) = copies(targets.to_vec());
    let (_, again) = copies(targets.iter().rev().cloned().collect());
    assert_eq!(first.len(), 3);
    assert_eq!(texts(&first), texts(&again));
    let mut branches: Vec<String> = first.iter().map(Sent::branch).collect();
    branches.dedup();
    assert_eq!(branches.len(), 3, "each callee has a branch of its own");
}

#[test]
fn another_request_or_another_attempt_has_another_branch() {
    let (_, first) = copies(vec![target(BOB, 1000)]);
    let (_, twice) = copies(vec![target(BOB, 1000), target(BOB, 1000)]);
    assert_ne!(twice[0].branch(), twice[1].branch());
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite().replace("aliceINVITE1", "aliceINVITE1b"));
    wire.expect(ALICE, "SIP/2.0 100");
    assert_ne!(wire.expect(BOB, "INVITE").branch(), first[0].branch());
}

#[test]
fn a_callee_that_answers_the_first_copy_reaches_the_caller_through_the_second_node() {
    let (wire, first) = copies(vec![target(BOB, 1000)]);
    let mut second = wire.restarted();
    second.receive(ALICE, &invite());
    second.expect(ALICE, "SIP/2.0 100");
    second.expect(BOB, "INVITE");
    second.receive(BOB, &first[0].reply("180 Ringing"));
    second.expect(ALICE, "SIP/2.0 180");
    second.receive(BOB, &first[0].reply("486 Busy Here"));
    second.expect(BOB, "ACK");
    second.expect(ALICE, "SIP/2.0 486");
}

#[test]
fn what_a_sole_callee_says_passes_without_a_context() {
    let (wire, sent) = copies(vec![target(BOB, 1000)]);
    for status in ["180 Ringing", "486 Busy Here", "603 Decline", "200 OK"] {
        let mut second = wire.restarted();
        second.receive(BOB, &sent[0].reply(status));
        let passed = second.expect(ALICE, &format!("SIP/2.0 {status}"));
        assert_eq!(passed.header("Via").len(), 1, "{status}");
        second.finish();
    }
    for status in ["100 Trying", "503 Service Unavailable", "430 Flow Failed"] {
        let mut second = wire.restarted();
        second.receive(BOB, &sent[0].reply(status));
        second.expect_nothing();
        assert_eq!(second.dropped(DropReason::StrayResponse), 1, "{status}");
    }
}

#[test]
fn the_refusal_of_one_callee_of_a_fork_does_not_end_the_call() {
    let (wire, sent) = copies(vec![target(BOB, 1000), target(CAROL, 1000)]);
    for (status, passes) in [
        ("180 Ringing", true),
        ("486 Busy Here", false),
        ("302 Moved", false),
        ("603 Decline", true),
        ("200 OK", true),
    ] {
        let mut second = wire.restarted();
        second.receive(BOB, &sent[0].reply(status));
        assert_eq!(second.take_sent().len(), usize::from(passes), "{status}");
    }
}

#[test]
fn a_refusal_whose_request_this_node_answers_itself_is_dropped() {
    // The second node knows another address of the callee.
    let (wire, sent) = copies(vec![target(BOB, 1000)]);
    let mut second = wire.restarted();
    second.targets = vec![target(CAROL, 1000)];
    second.receive(ALICE, &invite());
    second.expect(ALICE, "SIP/2.0 100");
    second.expect(CAROL, "INVITE");
    second.receive(BOB, &sent[0].reply("486 Busy Here"));
    second.expect_nothing();
    second.receive(BOB, &sent[0].reply("200 OK"));
    second.expect(ALICE, "SIP/2.0 200");
}

#[test]
fn a_node_that_has_run_for_long_passes_the_failures_of_other_nodes_only() {
    let (wire, sent) = copies(vec![target(BOB, 1000)]);
    let refusal = sent[0].reply("486 Busy Here");
    let of_another = refusal.replacen(US, "192.0.2.2:5060", 1);
    assert_ne!(refusal, of_another);
    let mut second = wire.restarted();
    second.pass(Duration::from_secs(3_600));
    second.receive(BOB, &refusal);
    second.expect_nothing();
    second.receive(BOB, &of_another);
    second.expect(ALICE, "SIP/2.0 486");
}

#[test]
fn a_response_to_another_request_passes_only_if_its_sender_does_not_repeat_it() {
    let message = request("MESSAGE", "sip:bob@example.org", "");
    for (transport, passes) in [("UDP", false), ("TCP", true)] {
        let listeners = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
        let mut wire = Wire::with(settings(listeners), vec![target(BOB, 1000)]);
        // The phone speaks with an edge, and the edge with us.
        let via =
            format!("Via: SIP/2.0/{transport} 192.0.2.99;branch=z9hG4bKphone\r\nMax-Forwards");
        let message = message.replace("Max-Forwards", &via);
        wire.receive(ALICE, &message);
        let sent = wire.expect(BOB, "MESSAGE");
        let mut second = wire.restarted();
        second.receive(BOB, &sent.reply("200 OK"));
        assert_eq!(second.take_sent().len(), usize::from(passes), "{transport}");
    }
}

#[test]
fn a_response_over_a_stream_goes_to_the_port_that_its_sender_listens_at_unless_behind_nat() {
    let listeners = vec![udp(US, 24), listener(Protocol::Tcp, US, 24)];
    for (sent_by, reaches) in [
        ("192.0.2.10:5070", Some("192.0.2.10:5070")),
        ("192.0.2.10", Some("192.0.2.10:5060")),
        ("edge.example.org:5070", Some("192.0.2.10:5070")),
        ("10.0.0.7:5070", None),
    ] {
        let mut wire = Wire::with(settings(listeners.clone()), vec![target(BOB, 1000)]);
        let invite = invite().replace(
            &format!("SIP/2.0/UDP {ALICE}"),
            &format!("SIP/2.0/TCP {sent_by}"),
        );
        wire.receive_at(1, "192.0.2.10:41234", &invite);
        wire.expect("192.0.2.10:41234", "SIP/2.0 100");
        let sent = wire.expect(BOB, "INVITE");
        let mut second = wire.restarted();
        second.receive(BOB, &sent.reply("180 Ringing"));
        match reaches {
            Some(address) => {
                let passed = second.expect(address, "SIP/2.0 180");
                assert_eq!(passed.listener, 1, "{sent_by}");
            }
            None => second.expect_nothing(),
        }
    }
}
