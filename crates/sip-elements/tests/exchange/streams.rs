//! Requests on a stream whose end is unclear: they get a response before the connection is closed, and are never acted
//! on.

use crate::bench::{Bench, request, settings, status};
use sip_elements::metrics::DropReason;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Protocol};

/// A node that also has TCP and WebSocket listeners, and a phone's connection to each.
fn bench() -> (Bench, [Flow; 2]) {
    let mut settings = settings();
    let udp = settings.listeners[0].clone();
    let speaking = |protocol| Listener {
        protocol,
        ..udp.clone()
    };
    let mut listeners = settings.listeners.clone();
    listeners.extend([Protocol::Tcp, Protocol::Ws].map(speaking));
    settings.listeners = listeners;
    settings.challenge.clear();
    let flows = [1, 2].map(|listener| Flow {
        listener: ListenerId(listener),
        connection: ConnectionId::new(0, 1),
        remote: "192.0.2.10:40000".parse().expect("an address"),
    });
    (Bench::new(settings).with_subscribers(), flows)
}

fn options() -> String {
    request("OPTIONS", "sip:example.org", "sip:x@y.example", "o1", "")
}

#[test]
fn a_request_whose_length_is_unclear_is_refused() {
    let (mut bench, [tcp, ws]) = bench();
    for (length, expected) in [
        ("Content-Length: 0\n", 200),
        ("", 400),
        ("Content-Length: five\n", 400),
        ("Content-Length: 0\nl: 1\n", 400),
        ("Content-Length: 1\n", 513),
        ("Content-Length: 4000000000\n", 513),
    ] {
        let message = options().replace("Content-Length: 0\n", length);
        let sent = bench.receive_on(tcp, &message);
        let [(flow, response)] = sent.as_slice() else {
            panic!("{sent:#?}")
        };
        assert_eq!((*flow, status(response)), (tcp, expected), "{message}");
    }
    // A WebSocket frame says where its message ends.
    let message = options().replace("Content-Length: 0\n", "");
    assert_eq!(status(&bench.receive_on(ws, &message)[0].1), 200);
}

#[test]
fn the_beginning_of_a_header_that_does_not_end_is_answered_where_it_says_whom() {
    let (mut bench, [tcp, _]) = bench();
    let message = options().replace("Content-Length: 0\n\n", "X-Long: and so on\n");
    let sent = bench.receive_on(tcp, &message);
    assert_eq!(status(&sent[0].1), 513);
    assert!(sent[0].1.contains("branch=z9hG4bKo1"), "{}", sent[0].1);
    assert_eq!(
        bench.receive_on(tcp, "OPTIONS sip:example.org SIP/2.0\n"),
        []
    );
}

#[test]
fn a_response_whose_length_is_unclear_means_nothing() {
    let (mut bench, [tcp, _]) = bench();
    let response = "SIP/2.0 200 OK\nVia: SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK1\nCall-ID: c\nCSeq: 1 INVITE\n\n";
    assert_eq!(bench.receive_on(tcp, response), []);
    let dropped = bench.metrics.drops[DropReason::MalformedResponse as usize].value();
    assert_eq!(dropped, 1);
}
