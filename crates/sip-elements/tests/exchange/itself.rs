//! Requests to the server itself.

use crate::bench::{ALICE, Bench, only, register, request, settings, status};
use sip_elements::metrics::DropReason;
use sip_transport::{ConnectionId, Flow, ListenerId, Node};

#[test]
fn what_is_said_to_the_server_itself_is_answered_by_it() {
    let mut bench = Bench::new(settings());
    for (message, expected) in [
        (
            request("OPTIONS", "sip:example.org", "sip:x@y.example", "o1", ""),
            200,
        ),
        (
            request("OPTIONS", "sip:192.0.2.1", "sip:x@y.example", "o2", ""),
            200,
        ),
        (
            request(
                "OPTIONS",
                "sip:example.org",
                "sip:x@y.example",
                "o3",
                "Require: teleport\n",
            ),
            420,
        ),
        (
            request(
                "NOTIFY",
                "sip:example.org",
                "sip:x@y.example",
                "n1",
                "Event: keep-alive\n",
            ),
            200,
        ),
        (
            request("MESSAGE", "sip:example.org", "sip:x@y.example", "m1", ""),
            405,
        ),
        (
            request("FROBNICATE", "sip:example.org", "sip:x@y.example", "f1", ""),
            501,
        ),
        (
            request("BYE", "sip:example.org", "sip:x@y.example", "b1", ""),
            481,
        ),
        (
            request("CANCEL", "sip:bob@example.org", "sip:x@y.example", "c1", ""),
            481,
        ),
        (
            request(
                "OPTIONS",
                "sip:bob@example.org",
                "sip:x@y.example",
                "mf",
                "",
            )
            .replace("Max-Forwards: 70", "Max-Forwards: 0"),
            483,
        ),
        (
            request(
                "OPTIONS",
                "sip:bob@example.org",
                "sip:x@y.example",
                "pr",
                "Proxy-Require: foo, bar\n",
            ),
            420,
        ),
        (
            request("OPTIONS", "tel:+123", "sip:x@y.example", "te", ""),
            416,
        ),
    ] {
        assert_eq!(
            status(&only(bench.receive(ALICE, &message))),
            expected,
            "{message}"
        );
    }
    assert_eq!(
        bench.exchange.transaction_stats().servers_created,
        0,
        "a stranger is refused without state"
    );
    for noise in ["\n\n", "\0\0\0\0", "garbage", "\u{1}\u{1}\0\0"] {
        assert_eq!(bench.receive(ALICE, noise), vec![]);
    }
}

#[test]
fn a_stun_keep_alive_gets_the_address_of_the_phone() {
    let mut bench = Bench::new(settings());
    let mut receive = |connection, message: &[u8]| {
        let flow = Flow {
            connection,
            ..Flow::to(ListenerId(0), ALICE.parse().expect("address"))
        };
        bench
            .exchange
            .receive(bench.now, flow, message, &mut bench.output);
        let sent: Vec<Vec<u8>> = bench
            .output
            .outgoing()
            .iter()
            .map(|outgoing| bench.output.written(outgoing.range.clone()).to_vec())
            .collect();
        bench.output.clear();
        (
            sent,
            bench.metrics.drops[DropReason::KeepAlive as usize].value(),
        )
    };
    let request = b"\x00\x01\x00\x00\x21\x12\xa4\x42transaction.";
    // 192.0.2.10:5060, masked with the magic cookie.
    let response = b"\x01\x01\x00\x0c\x21\x12\xa4\x42transaction.\x00\x20\x00\x08\x00\x01\x32\xd6\xe1\x12\xa6\x48";
    assert_eq!(
        receive(ConnectionId::NONE, request),
        (vec![response.to_vec()], 1)
    );
    let indication = b"\x00\x11\x00\x00\x21\x12\xa4\x42transaction.";
    assert_eq!(receive(ConnectionId::NONE, indication), (vec![], 2));
    assert_eq!(receive(ConnectionId::new(0, 1), request), (vec![], 2));
}

#[test]
fn a_request_that_ends_here_needs_no_hops() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let spent = |message: String| message.replace("Max-Forwards: 70", "Max-Forwards: 0");
    let stranger = "sip:x@y.example";
    for (message, expected) in [
        (
            request("OPTIONS", "sip:example.org", stranger, "o1", ""),
            200,
        ),
        (
            request(
                "NOTIFY",
                "sip:bob@example.org",
                stranger,
                "n1",
                "Event: keep-alive\n",
            ),
            200,
        ),
        (register("alice", ALICE, 1, ""), 401),
        (
            register("alice", ALICE, 2, "")
                .replace("REGISTER sip:example.org", "REGISTER sip:elsewhere.example"),
            483,
        ),
        (
            request("OPTIONS", "sip:bob@example.org", stranger, "o2", ""),
            483,
        ),
        (
            request("MESSAGE", "sip:bob@example.org", stranger, "m1", ""),
            483,
        ),
    ] {
        let message = spent(message);
        let response = only(bench.receive(ALICE, &message));
        assert_eq!(status(&response), expected, "{message}");
    }
}

#[test]
fn a_request_with_more_header_fields_than_are_read_is_refused() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let most = "X-Filler: 1\n".repeat(600);
    let stranger = "sip:x@y.example";
    let options = request("OPTIONS", "sip:example.org", stranger, "o1", &most);
    let response = only(bench.receive(ALICE, &options));
    assert!(
        response.starts_with("SIP/2.0 400 Too many header fields\r\n"),
        "{response}"
    );
    assert!(response.contains("\r\nCall-ID: call-1\r\n"), "{response}");
    assert!(!response.contains("X-Filler"), "{response}");
    // Messages that cannot be answered get no response: an ACK, a response, and a request with too many header fields
    // before its Via.
    let ack = request("ACK", "sip:example.org", stranger, "o1", &most);
    assert_eq!(bench.receive(ALICE, &ack), vec![]);
    let answered = options.replace("OPTIONS sip:example.org SIP/2.0", "SIP/2.0 200 OK");
    assert_eq!(bench.receive(ALICE, &answered), vec![]);
    let hidden = options.replace("Via: ", &format!("{most}Via: "));
    assert_eq!(bench.receive(ALICE, &hidden), vec![]);
    let dropped = bench.metrics.drops[DropReason::TooManyHeaders as usize].value();
    assert_eq!(dropped, 4);
}
