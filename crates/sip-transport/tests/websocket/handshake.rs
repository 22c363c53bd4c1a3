//! The server's side of the opening handshake.
use crate::{ACCEPT, KEY};
use proptest::prelude::*;
use sip_transport::websocket::{Handshake, HandshakeError, Origins, Upgrade};

const MAX_HEADER: usize = 1000;

fn request() -> String {
    format!(
        "GET /any?thing HTTP/1.1\r\nHost: sip.example.org:8080\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nOrigin: https://phone.example.org\r\nSec-WebSocket-Protocol: sip\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    )
}

/// Feeds the chunks of a request. Returns the final state and the response.
fn open(chunks: &[&[u8]], origins: &Origins) -> (Upgrade, String) {
    let mut handshake = Handshake::new(MAX_HEADER);
    let (mut buffered, mut response) = (Vec::new(), Vec::new());
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        let upgrade = handshake.next(&buffered, origins, false, &mut response);
        if upgrade != Upgrade::Incomplete {
            return (upgrade, String::from_utf8(response).expect("text"));
        }
        assert!(response.is_empty());
    }
    (Upgrade::Incomplete, String::new())
}

fn open_whole(request: &str) -> (Upgrade, String) {
    let all = Origins {
        all: true,
        ..Origins::default()
    };
    open(&[request.as_bytes()], &all)
}

/// Replaces one piece of the request, expects this refusal, and returns the response.
#[track_caller]
fn refused(piece: &str, by: &str, reason: HandshakeError) -> String {
    let original = request();
    assert!(original.contains(piece));
    let (upgrade, response) = open_whole(&original.replacen(piece, by, 1));
    assert_eq!(upgrade, Upgrade::Refused(reason), "{by}");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    let status = format!("HTTP/1.1 {} ", reason.status());
    assert!(head.starts_with(&status), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())));
    assert!(head.contains("close"), "{head}");
    response
}

#[test]
fn a_request_of_a_browser_is_accepted() {
    let request = request();
    let (upgrade, response) = open_whole(&request);
    let consumed = request.len();
    assert_eq!(upgrade, Upgrade::Accepted { consumed });
    assert_eq!(
        response,
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
        )
    );
}

#[test]
fn frames_may_follow_at_once() {
    let request = request();
    let (upgrade, _) = open_whole(&format!("{request}\u{1}\u{2}"));
    let consumed = request.len();
    assert_eq!(upgrade, Upgrade::Accepted { consumed });
}

#[test]
fn tokens_are_found_in_lists_and_in_whichever_case() {
    for (piece, by) in [
        ("Connection: Upgrade", "connection: keep-alive,\tupgrade"),
        (
            "Connection: Upgrade",
            "Connection: keep-alive\r\nConnection: UPGRADE",
        ),
        ("Upgrade: websocket", "UPGRADE: h2c, WebSocket"),
        ("Protocol: sip", "Protocol: xmpp, sip"),
        (
            "Protocol: sip",
            "Protocol: msrp\r\nsec-websocket-protocol: sip",
        ),
        ("Version: 13\r\n", "Version:13\r\nContent-Length: 0\r\n"),
    ] {
        let (upgrade, _) = open_whole(&request().replacen(piece, by, 1));
        assert!(
            matches!(upgrade, Upgrade::Accepted { .. }),
            "{by}: {upgrade:?}"
        );
    }
}

#[test]
fn only_get_opens_a_websocket() {
    for method in ["POST", "HEAD", "OPTIONS", "CONNECT"] {
        let response = refused("GET", method, HandshakeError::Method);
        assert!(response.contains("\r\nAllow: GET\r\n"), "{response}");
    }
}

#[test]
fn a_request_for_a_page_gets_upgrade_required() {
    let response = refused(
        "Upgrade: websocket\r\nConnection: Upgrade\r\n",
        "",
        HandshakeError::NoUpgrade,
    );
    assert!(response.starts_with("HTTP/1.1 426 Upgrade Required\r\n"));
    assert!(response.contains("\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"));
    refused(
        "Upgrade: websocket",
        "Upgrade: h2c",
        HandshakeError::NoUpgrade,
    );
}

#[test]
fn another_version_gets_ours() {
    for by in [
        "Version: 8",
        "Version: 13\r\nSec-WebSocket-Version: 8",
        "Other: 13",
    ] {
        let response = refused("Version: 13", by, HandshakeError::WebSocketVersion);
        assert!(response.starts_with("HTTP/1.1 426 "), "{response}");
        assert!(
            response.contains("\r\nSec-WebSocket-Version: 13\r\n"),
            "{response}"
        );
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let twice = format!("Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}");
    let key = format!("Sec-WebSocket-Key: {KEY}");
    for (piece, by, reason) in [
        ("Host: sip.example.org:8080", "X: y", HandshakeError::Host),
        (
            "Host: sip.example.org:8080",
            "Host: a\r\nHost: b",
            HandshakeError::Host,
        ),
        (
            "Connection: Upgrade",
            "Connection: keep-alive",
            HandshakeError::NoConnectionUpgrade,
        ),
        (&key, "X: y", HandshakeError::Key),
        (&key, &twice, HandshakeError::Key),
        (KEY, "c2hvcnQ=", HandshakeError::Key),
        (
            "Protocol: sip",
            "Protocol: xmpp",
            HandshakeError::SubProtocol,
        ),
        (
            "Sec-WebSocket-Protocol: sip",
            "X: y",
            HandshakeError::SubProtocol,
        ),
        (
            "Protocol: sip",
            "Protocol: sips",
            HandshakeError::SubProtocol,
        ),
        (
            "Origin:",
            "Content-Length: 5\r\nOrigin:",
            HandshakeError::Body,
        ),
        (
            "Origin:",
            "Transfer-Encoding: chunked\r\nOrigin:",
            HandshakeError::Body,
        ),
        ("HTTP/1.1", "HTTP/1.0", HandshakeError::HttpVersion),
        ("HTTP/1.1", "HTTP/2.0", HandshakeError::HttpVersion),
        ("HTTP/1.1", "SIP/2.0", HandshakeError::NotHttp),
        ("Host:", "Ho st:", HandshakeError::NotHttp),
        ("Host:", " Host:", HandshakeError::NotHttp),
    ] {
        refused(piece, by, reason);
    }
}

#[test]
fn pages_of_foreign_origins_stay_out() {
    let allowed = Origins {
        listed: vec!["https://phone.example.org".to_owned()],
        ..Origins::default()
    };
    let opened = |request: &str| open(&[request.as_bytes()], &allowed).0;
    assert!(matches!(opened(&request()), Upgrade::Accepted { .. }));
    let upper = request().replace("https://phone.", "HTTPS://Phone.");
    assert!(matches!(opened(&upper), Upgrade::Accepted { .. }));
    for other in ["https://evil.example", "http://phone.example.org", "null"] {
        let request = request().replace("https://phone.example.org", other);
        assert_eq!(
            opened(&request),
            Upgrade::Refused(HandshakeError::Origin),
            "{other}"
        );
    }
    let no_browser = request().replace("Origin: https://phone.example.org\r\n", "");
    assert!(matches!(opened(&no_browser), Upgrade::Accepted { .. }));
}

#[test]
fn what_is_no_http_is_refused_before_more_of_it_is_buffered() {
    for begin in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], // TLS
        b"\r\n\r\n",
        b"\0",
        b"OPTIONS sip:example.org SIP/2.0\r\n",
        b"SIP/2.0 200 OK\r\n",
        b"GET  HTTP/1.1\r\n",
    ] {
        let (upgrade, response) = open(&[begin], &Origins::default());
        assert_eq!(
            upgrade,
            Upgrade::Refused(HandshakeError::NotHttp),
            "{begin:?}"
        );
        assert!(response.starts_with("HTTP/1.1 400 "));
    }
}

#[test]
fn a_header_has_a_greatest_length_and_number_of_fields() {
    let long = format!("X: {}", "x".repeat(MAX_HEADER));
    refused(
        "Host: sip",
        &format!("{long}\r\nHost: sip"),
        HandshakeError::TooLong,
    );
    let endless = "A".repeat(MAX_HEADER + 1);
    assert_eq!(
        open_whole(&endless).0,
        Upgrade::Refused(HandshakeError::TooLong)
    );
    refused(
        "Host: sip",
        &format!("{}Host: sip", "a:\r\n".repeat(64)),
        HandshakeError::TooManyFields,
    );
}

/// Pieces of requests and of noise.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("GET / HTTP/1.1\r\n".to_owned()),
        Just("Host: a\r\n".to_owned()),
        Just("Upgrade: websocket\r\n".to_owned()),
        Just("Connection: Upgrade\r\n".to_owned()),
        Just(format!("Sec-WebSocket-Key: {KEY}\r\n")),
        Just("Sec-WebSocket-Protocol: sip\n".to_owned()),
        Just("Sec-WebSocket-Version: 13\r\n".to_owned()),
        Just("\r\n".to_owned()),
        "[ -~]{0,8}\r?\n",
        "(?s).{0,4}",
    ]
}

proptest! {
    #[test]
    fn however_a_request_is_cut_it_comes_to_the_same_end(
        lines in proptest::collection::vec(line(), 0..10), whole: bool, cuts in proptest::collection::vec(0..500_usize, 0..8)
    ) {
        let mut text = if whole { request() } else { String::new() };
        text.extend(lines);
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let whole = open(&[bytes], &Origins::default());
        prop_assert_eq!(&open(&chunks, &Origins::default()), &whole);
        prop_assert_eq!(&open(&single, &Origins::default()), &whole);
    }
}
