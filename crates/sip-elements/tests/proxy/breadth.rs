//! Max-Breadth (RFC 5393 section 5): no fork has more branches than the request allows, and none passes on more than it
//! received.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, Sent, Wire, ack_of_refusal, request, target, target_uri,
};

/// An INVITE with these header fields to Bob, Carol and Dave, all with the same q.
fn forked(headers: &str) -> Wire {
    let targets = [BOB, CAROL, DAVE].map(|phone| target(phone, 1000));
    let mut wire = Wire::new(targets.to_vec());
    wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", headers));
    wire
}

fn breadth(sent: &Sent) -> Vec<&str> {
    sent.header("Max-Breadth")
}

/// The phone that received the INVITE rejects it.
fn refuse(wire: &mut Wire, invite: &Sent) {
    let phone = invite.to.to_string();
    wire.receive(&phone, &invite.reply("480 Away"));
    wire.expect(&phone, "ACK");
}

#[test]
fn a_fork_divides_what_the_request_has() {
    let rows = [
        ("", ["20", "20", "20"]),
        ("Max-Breadth: 8\r\n", ["3", "3", "2"]),
        ("max-breadth : 3\r\n", ["1", "1", "1"]),
        // A value above the maximum and a value that is not a number count as the default.
        ("Max-Breadth: 4000000000\r\n", ["20", "20", "20"]),
        ("Max-Breadth: many\r\n", ["20", "20", "20"]),
        ("Max-Breadth: 8\r\nMax-Breadth: 9\r\n", ["3", "3", "2"]),
    ];
    for (headers, expected) in rows {
        let mut wire = forked(headers);
        wire.expect(ALICE, "SIP/2.0 100");
        let sent = [BOB, CAROL, DAVE].map(|phone| wire.expect(phone, "INVITE"));
        let shares: Vec<_> = sent.iter().flat_map(breadth).collect();
        assert_eq!(shares, expected, "{headers}");
        for invite in &sent {
            refuse(&mut wire, invite);
        }
        let refused = wire.expect(ALICE, "SIP/2.0 480");
        wire.receive(ALICE, &ack_of_refusal(&refused));
        wire.finish();
    }
}

#[test]
fn a_request_with_one_target_keeps_its_breadth_and_gets_one_where_it_has_none() {
    for (headers, expected) in [
        ("", ["60"]),
        ("Max-Breadth: 7\r\n", ["7"]),
        ("Max-Breadth: 60\r\n", ["60"]),
        ("Max-Breadth: 61\r\n", ["60"]),
    ] {
        let mut wire = Wire::new(vec![target(BOB, 1000)]);
        wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", headers));
        wire.expect(ALICE, "SIP/2.0 100");
        let sent = wire.expect(BOB, "INVITE");
        assert_eq!(breadth(&sent), expected);
        refuse(&mut wire, &sent);
        let refused = wire.expect(ALICE, "SIP/2.0 480");
        wire.receive(ALICE, &ack_of_refusal(&refused));
        wire.finish();
    }
}

#[test]
fn what_a_branch_had_is_free_again_when_it_has_ended() {
    let mut wire = Wire::new(vec![target(BOB, 900), target(CAROL, 800)]);
    let headers = "Max-Breadth: 4\r\n";
    wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", headers));
    wire.expect(ALICE, "SIP/2.0 100");
    for phone in [BOB, CAROL] {
        let sent = wire.expect(phone, "INVITE");
        assert_eq!(breadth(&sent), ["4"]);
        refuse(&mut wire, &sent);
    }
    let refused = wire.expect(ALICE, "SIP/2.0 480");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_fork_that_the_request_may_not_have_becomes_serial() {
    let mut wire = forked("Max-Breadth: 2\r\n");
    wire.expect(ALICE, "SIP/2.0 100");
    let bob = wire.expect(BOB, "INVITE");
    let carol = wire.expect(CAROL, "INVITE");
    assert_eq!((breadth(&bob), breadth(&carol)), (vec!["1"], vec!["1"]));
    wire.expect_nothing();
    refuse(&mut wire, &bob);
    wire.expect_nothing();
    refuse(&mut wire, &carol);
    let dave = wire.expect(DAVE, "INVITE");
    assert_eq!(breadth(&dave), ["2"]);
    refuse(&mut wire, &dave);
    let refused = wire.expect(ALICE, "SIP/2.0 480");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}

#[test]
fn a_request_that_may_have_no_branch_is_refused() {
    let mut wire = forked("Max-Breadth: 0\r\n");
    let refused = wire.expect(ALICE, "SIP/2.0 440 Max-Breadth Exceeded");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.assert_counts(0);
    wire.finish();
}

#[test]
fn the_next_address_of_a_name_gets_the_share_of_the_one_that_failed() {
    let mut wire = Wire::new(vec![
        target_uri("sip:bob@phones.example.net", 1000),
        target(DAVE, 1000),
    ]);
    wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", ""));
    wire.expect(ALICE, "SIP/2.0 100");
    let dave = wire.expect(DAVE, "INVITE");
    assert_eq!(breadth(&dave), ["30"]);
    let (ticket, ..) = wire.expect_question();
    wire.resolved(ticket, &[BOB, CAROL]);
    let bob = wire.expect(BOB, "INVITE");
    assert_eq!(breadth(&bob), ["30"]);
    wire.receive(BOB, &bob.reply("503 Service Unavailable"));
    wire.expect(BOB, "ACK");
    let carol = wire.expect(CAROL, "INVITE");
    assert_eq!(breadth(&carol), ["30"]);
    refuse(&mut wire, &carol);
    refuse(&mut wire, &dave);
    let refused = wire.expect(ALICE, "SIP/2.0 480");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}
