//! One target: what is forwarded, and which responses return.

use crate::wire::{ALICE, BOB, Wire, ack_of_refusal, invite, request, request_in, target};
use std::time::Duration;

#[test]
fn a_call_goes_out_and_its_responses_come_back() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    let trying = wire.expect(ALICE, "SIP/2.0 100 Trying");
    assert_eq!(trying.header("Via").len(), 1);
    let sent = wire.expect(BOB, "INVITE sip:bob@192.0.2.20:5060 SIP/2.0");
    let vias = sent.header("Via");
    assert_eq!(vias.len(), 2);
    assert!(
        vias[0].starts_with("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK")
            && vias[0].ends_with(";rport"),
        "{vias:?}"
    );
    assert!(
        vias[1].contains(";rport=5060") && vias[1].contains("received=192.0.2.10"),
        "{vias:?}"
    );
    assert_eq!(sent.header("Max-Forwards"), ["69"]);
    assert!(sent.header("Record-Route")[0].starts_with("<sip:192.0.2.1:5060;lr;ck="));
    wire.expect_nothing();
    wire.assert_counts(1);

    wire.receive(BOB, &sent.reply("100 Trying"));
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("180 Ringing"));
    let ringing = wire.expect(ALICE, "SIP/2.0 180 Ringing");
    assert_eq!(ringing.header("Via"), [vias[1]]);
    wire.receive(
        BOB,
        &sent.reply_with("200 OK", "Contact: <sip:bob@192.0.2.20:5060>\r\n"),
    );
    let answered = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(answered.header("Via"), [vias[1]]);
    wire.expect_nothing();
    wire.assert_counts(0);
    assert_eq!(
        [100, 180, 200].map(|status| wire.responses(status)),
        [1, 1, 1]
    );

    let route = format!("Route: {}\r\n", answered.header("Record-Route")[0]);
    wire.receive(
        ALICE,
        &request_in(
            "ACK",
            "sip:bob@192.0.2.20:5060",
            "192-0-2-20-5060",
            1,
            &route,
        ),
    );
    let ack = wire.expect(BOB, "ACK sip:bob@192.0.2.20:5060 SIP/2.0");
    assert!(ack.header("Route").is_empty() && ack.header("Record-Route").is_empty());
    assert_eq!(ack.header("Max-Forwards"), ["69"]);
    wire.receive(
        ALICE,
        &request_in(
            "ACK",
            "sip:bob@192.0.2.20:5060",
            "192-0-2-20-5060",
            1,
            &route,
        ),
    );
    assert_eq!(
        wire.expect(BOB, "ACK").text,
        ack.text,
        "a retransmitted ACK is forwarded with the same branch"
    );

    wire.receive(
        ALICE,
        &request_in(
            "BYE",
            "sip:bob@192.0.2.20:5060",
            "192-0-2-20-5060",
            2,
            &route,
        ),
    );
    let bye = wire.expect(BOB, "BYE sip:bob@192.0.2.20:5060 SIP/2.0");
    assert!(bye.header("Route").is_empty() && bye.header("Record-Route").is_empty());
    wire.receive(BOB, &bye.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn everything_that_is_not_ours_to_change_stays_byte_for_byte() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    let body = "v=0\r\no=- 1 1 IN IP4 192.0.2.10\r\n\r\n";
    let odd = "X-oDD :  spaced \t out\r\nsubject: folded\r\n  line\r\nUnknown: \"a;b,c\" <x>\r\n";
    let received = request("INVITE", "sip:bob@example.org", odd).replace(
        "Content-Length: 0\r\n\r\n",
        &format!("l : {}\r\n\r\n{body}", body.len()),
    );
    wire.receive(ALICE, &received);
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    let is_ours = |line: &&str| {
        [
            "INVITE",
            "Via",
            "Max-Forwards",
            "Max-Breadth",
            "Record-Route",
            "Session-Expires",
        ]
        .iter()
        .any(|name| line.starts_with(name))
    };
    let theirs = |text: &str| {
        text.split("\r\n")
            .filter(|line| !is_ours(line))
            .collect::<Vec<_>>()
            .join("\r\n")
    };
    assert_eq!(theirs(&sent.text), theirs(&received));

    let busy = sent.reply_with("486 Besetzt, leider", "x-why:   no\r\n");
    wire.receive(BOB, &busy);
    let acked = wire.expect(BOB, "ACK");
    assert_eq!(acked.branch(), sent.branch());
    let passed = wire.expect(ALICE, "SIP/2.0 486 Besetzt, leider");
    let our_via = format!("Via: {}\r\n", sent.header("Via")[0]);
    let (value, proof) = sent.header("Record-Route")[0]
        .split_once(";ck=")
        .expect("a proof");
    let ours = format!("{value};ck={proof}");
    let without_proof = format!("{value};ck=0>");
    assert_eq!(
        passed.text,
        busy.replace(&our_via, "").replace(&ours, &without_proof)
    );
    wire.receive(ALICE, &ack_of_refusal(&passed));
    wire.finish();
}

#[test]
fn max_forwards_is_added_where_it_is_missing() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(
        ALICE,
        &request("OPTIONS", "sip:bob@example.org", "").replace("Max-Forwards: 70\r\n", ""),
    );
    let sent = wire.expect(BOB, "OPTIONS sip:bob@192.0.2.20:5060");
    assert_eq!(sent.header("Max-Forwards"), ["70"]);
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    wire.finish();
}

#[test]
fn the_time_to_the_final_response_is_recorded_by_method() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(BOB, "MESSAGE");
    wire.pass(Duration::from_millis(40));
    wire.receive(BOB, &sent.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200");
    let latency = &wire.metrics.latency[sip_message::Method::Message.label_index()];
    assert_eq!(latency.sum.value(), 40_000);
    assert_eq!(
        latency
            .buckets
            .iter()
            .map(sip_transport::Counter::value)
            .sum::<u64>(),
        1
    );
    wire.finish();
}

#[test]
fn a_503_is_not_forwarded_but_becomes_500() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(
        BOB,
        &sent.reply_with("503 Service Unavailable", "Retry-After: 9\r\n"),
    );
    wire.expect(BOB, "ACK");
    let failed = wire.expect(ALICE, "SIP/2.0 500 ");
    assert!(failed.header("To")[0].contains(";tag=") && failed.header("Retry-After").is_empty());
    wire.receive(ALICE, &ack_of_refusal(&failed));
    wire.finish();
}

#[test]
fn a_redirection_is_forwarded() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    wire.receive(
        BOB,
        &sent.reply_with("302 Moved", "Contact: <sip:bob@elsewhere.example>\r\n"),
    );
    wire.expect(BOB, "ACK");
    let moved = wire.expect(ALICE, "SIP/2.0 302 Moved");
    assert_eq!(moved.header("Contact"), ["<sip:bob@elsewhere.example>"]);
    wire.receive(ALICE, &ack_of_refusal(&moved));
    wire.finish();
}

#[test]
fn an_invite_without_a_response_gets_408() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    wire.pass(Duration::from_millis(31_900));
    for _ in 0..7 {
        wire.expect(BOB, "INVITE");
    }
    wire.expect_nothing();
    wire.pass(Duration::from_millis(200));
    let timeout = wire.expect(ALICE, "SIP/2.0 408 Request Timeout");
    wire.receive(ALICE, &ack_of_refusal(&timeout));
    wire.finish();
}

#[test]
fn a_non_invite_without_a_response_ends_without_one() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    wire.pass(Duration::from_secs(33));
    wire.assert_counts(0);
    for _ in 0..11 {
        wire.expect(BOB, "MESSAGE");
    }
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    wire.expect_nothing();
    wire.pass(Duration::from_secs(33));
    let ended = wire.transactions.stats().servers_live == 0;
    assert!(ended, "its server transaction ends as well");
    wire.finish();
}

#[test]
fn a_408_from_downstream_to_a_non_invite_stays_here() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &request("MESSAGE", "sip:bob@example.org", ""));
    let sent = wire.expect(BOB, "MESSAGE");
    wire.receive(BOB, &sent.reply("408 Request Timeout"));
    wire.finish();
}

#[test]
fn only_an_invite_has_provisional_responses_forwarded() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(
        ALICE,
        &request("SUBSCRIBE", "sip:bob@example.org", "Event: presence\r\n"),
    );
    let sent = wire.expect(BOB, "SUBSCRIBE");
    wire.receive(BOB, &sent.reply("183 Wait"));
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("202 Accepted"));
    wire.expect(ALICE, "SIP/2.0 202 Accepted");
    wire.finish();
}

#[test]
fn a_final_response_with_nothing_below_our_via_ends_the_branch() {
    let mut wire = Wire::new(vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    let hers = format!("Via: {}\r\n", sent.header("Via")[1]);
    wire.receive(BOB, &sent.reply("180 Ringing").replace(&hers, ""));
    wire.expect_nothing();
    wire.receive(BOB, &sent.reply("200 OK").replace(&hers, ""));
    let failed = wire.expect(ALICE, "SIP/2.0 500 ");
    assert_eq!(
        wire.dropped(sip_elements::metrics::DropReason::StrayResponse),
        2
    );
    wire.receive(ALICE, &ack_of_refusal(&failed));
    wire.finish();
}

#[test]
fn a_target_that_can_not_be_routed_is_answered_here() {
    let rows = [
        ("tel:+15551234", "SIP/2.0 416 "),
        ("sips:bob@192.0.2.20", "SIP/2.0 480 "),
        ("sip:bob@192.0.2.20;transport=tcp", "SIP/2.0 500 "),
        ("sip:bob@192.0.2.255", "SIP/2.0 500 "),
        ("sip:bob@192.0.2.20:0", "SIP/2.0 500 "),
    ];
    for (uri, expected) in rows {
        let mut wire = Wire::new(vec![crate::wire::target_uri(uri, 1000)]);
        wire.receive(ALICE, &invite());
        wire.expect(ALICE, "SIP/2.0 100");
        let refused = wire.expect(ALICE, expected);
        wire.assert_counts(0);
        wire.receive(ALICE, &ack_of_refusal(&refused));
        wire.finish();
    }
}
