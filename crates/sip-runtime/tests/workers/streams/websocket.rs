//! Peers that open a WebSocket, with and without TLS.

use super::authority::Authority;
use super::peer::{Peer, connected};
use super::secure_peer::{NAME, client_over, trusting, with_tls};
use super::switch::{Switches, framed, impatient};
use sip_message::Message as Sip;
use sip_runtime::{CloseReason, StreamOptions};
use sip_transport::Protocol;
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: switch.example\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n\r\n";

/// A WebSocket over a stream.
pub fn opened<S: Read + Write>(stream: S) -> WebSocket<S> {
    let mut request = "ws://switch.example/"
        .into_client_request()
        .expect("a request");
    let protocol = "sip".parse().expect("a value");
    let headers = request.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", protocol);
    let (socket, response) = tungstenite::client(request, stream)
        .map_err(|error| error.to_string())
        .expect("a WebSocket");
    assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "sip");
    socket
}

pub fn receive<S: Read + Write>(socket: &mut WebSocket<S>) -> String {
    let message = socket.read().expect("a message").into_data();
    let message = Sip::parse(&message).expect("a message");
    String::from_utf8(message.body().to_vec()).expect("text")
}

pub fn asks<S: Read + Write>(socket: &mut WebSocket<S>, text: &str) -> String {
    let message = String::from_utf8(framed(text)).expect("text");
    socket.send(Message::text(message)).expect("sent");
    receive(socket)
}

/// A client frame. Its masking key is zero, so it masks nothing.
fn frame(first: u8, length: u64, payload: &[u8]) -> Vec<u8> {
    let mut octets = vec![first];
    match length {
        0..126 => octets.push(0x80 | length as u8),
        126..65_536 => {
            octets.push(0x80 | 0x7e);
            octets.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            octets.push(0x80 | 0x7f);
            octets.extend_from_slice(&length.to_be_bytes());
        }
    }
    octets.extend_from_slice(&[0; 4]);
    octets.extend_from_slice(payload);
    octets
}

/// Checks that these bytes close the peer's connection for this reason, and that another peer's connection continues. Returns
/// what the peer received.
fn check_is_closed(octets: &[u8], reason: CloseReason) -> Vec<u8> {
    let switches = Switches::speaking(Protocol::Ws, impatient());
    let mut other = opened(connected(switches.address()));
    assert_eq!(asks(&mut other, "before"), "before");
    let mut peer = Peer::of(switches.address());
    let _ = peer.stream.write_all(octets);
    let told = peer.until_closed();
    drop(peer);
    switches.await_closed(reason, 1);
    let mut other = opened(connected(switches.address()));
    assert_eq!(asks(&mut other, "after"), "after");
    told
}

#[test]
fn messages_are_answered_as_text_or_binary_in_one_frame_or_several() {
    let switches = Switches::speaking(Protocol::Ws, StreamOptions::default());
    let mut socket = opened(connected(switches.address()));
    assert_eq!(asks(&mut socket, "text"), "text");
    socket
        .send(Message::binary(framed("binary")))
        .expect("sent");
    assert_eq!(receive(&mut socket), "binary");
    let message = framed("in pieces");
    let (one, other) = message.split_at(20);
    let octets = [frame(0x01, 20, one), frame(0x80, other.len() as u64, other)].concat();
    for octet in octets {
        socket.get_mut().write_all(&[octet]).expect("sent");
    }
    assert_eq!(receive(&mut socket), "in pieces");
    socket
        .send(Message::Ping("are you there".into()))
        .expect("sent");
    assert_eq!(
        socket.read().expect("a pong"),
        Message::Pong("are you there".into())
    );
    socket.send(Message::text("\r\n\r\n")).expect("sent");
    assert_eq!(socket.read().expect("a pong"), Message::text("\r\n"));
    assert_eq!(switches.running.stats()[0].pings.value(), 2);
}

#[test]
fn messages_are_answered_over_tls() {
    let authority = Authority::new();
    let options = with_tls(authority.context(&[&[NAME]]), StreamOptions::default());
    let switches = Switches::speaking(Protocol::Wss, options);
    let config = trusting(authority.roots(), None);
    let mut socket = opened(client_over(connected(switches.address()), &config));
    for text in ["one", "two"] {
        assert_eq!(asks(&mut socket, text), text);
    }
    assert_eq!(asks(&mut socket, "large 60000").len(), 60_000);
}

#[test]
fn who_closes_is_answered_and_let_go() {
    let switches = Switches::speaking(Protocol::Ws, StreamOptions::default());
    let mut socket = opened(connected(switches.address()));
    assert_eq!(asks(&mut socket, "hello"), "hello");
    socket.close(None).expect("sent");
    assert!(matches!(socket.read(), Ok(Message::Close(_))));
    assert!(matches!(
        socket.read(),
        Err(tungstenite::Error::ConnectionClosed)
    ));
    drop(socket);
    switches.await_closed(CloseReason::ByPeer, 1);
}

#[test]
fn a_message_that_comes_with_the_upgrade_counts() {
    let options = StreamOptions {
        idle_timeout: Duration::from_secs(60),
        ..impatient()
    };
    let switches = Switches::speaking(Protocol::Ws, options);
    let mut peer = Peer::of(switches.address());
    let message = framed("first");
    peer.send(&[UPGRADE, &frame(0x81, message.len() as u64, &message)].concat());
    let mut answer = vec![0; 4_000];
    let mut length = 0;
    while !answer[..length].ends_with(b"first") {
        length += peer.stream.read(&mut answer[length..]).expect("an answer");
    }
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(switches.closed(CloseReason::Silent), 0);
}

#[test]
fn a_request_for_something_else_is_refused_with_a_reason() {
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"[..], "HTTP/1.1 4"),
        (b"POST /upload HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 4"),
        (&framed("hello")[..], "HTTP/1.1 400"),
    ] {
        let told = check_is_closed(request, CloseReason::BadUpgrade);
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with(status), "{told}");
    }
}

#[test]
fn a_request_without_end_is_not_kept() {
    let mut request = b"GET / HTTP/1.1\r\nX: ".to_vec();
    request.resize(1 << 20, b'x');
    check_is_closed(&request, CloseReason::BadUpgrade);
}

#[test]
fn a_request_that_does_not_end_is_ended_by_deadline() {
    check_is_closed(&UPGRADE[..50], CloseReason::OpenTimeout);
}

#[test]
fn a_frame_of_100_megabytes_is_not_waited_for() {
    let octets = [UPGRADE, &frame(0x82, 100 << 20, &[b'x'; 1_000])].concat();
    let told = check_is_closed(&octets, CloseReason::TooLong);
    let close = [&[0x88, 2][..], &u16::from(CloseCode::Size).to_be_bytes()].concat();
    assert!(told.ends_with(&close), "{told:?}");
}

#[test]
fn many_frames_do_not_make_a_message_longer_than_one() {
    let payload = vec![b'x'; 60_000];
    let piece = frame(0x00, 60_000, &payload);
    let octets = [UPGRADE, &frame(0x02, 60_000, &payload), &piece, &piece].concat();
    check_is_closed(&octets, CloseReason::TooLong);
}

#[test]
fn frames_that_break_the_rules_end_the_connection() {
    for bad in [
        &b"\x81\x01x"[..],
        b"\xf1\x80\0\0\0\0",
        b"\x83\x80\0\0\0\0",
        b"\x09\x80\0\0\0\0",
        b"\x80\x80\0\0\0\0",
    ] {
        let told = check_is_closed(&[UPGRADE, bad].concat(), CloseReason::BadFrame);
        let code = u16::from(CloseCode::Protocol).to_be_bytes();
        assert!(told.ends_with(&code), "{bad:?}: {told:?}");
    }
}

#[test]
fn half_a_frame_is_closed_by_deadline() {
    let message = framed("half");
    let half = &frame(0x81, message.len() as u64, &message)[..40];
    check_is_closed(&[UPGRADE, half].concat(), CloseReason::HalfMessage);
}

#[test]
fn half_a_message_in_whole_frames_is_closed_by_deadline_whatever_else_comes() {
    let options = StreamOptions {
        idle_timeout: Duration::from_secs(3_600),
        ..impatient()
    };
    let switches = Switches::speaking(Protocol::Ws, options);
    let mut socket = opened(connected(switches.address()));
    assert_eq!(asks(&mut socket, "hello"), "hello");
    let half = frame(0x01, 20, &framed("half")[..20]);
    socket.get_mut().write_all(&half).expect("sent");
    let begun = Instant::now();
    while switches.closed(CloseReason::HalfMessage) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5));
        let _ = socket.get_mut().write_all(&frame(0x89, 0, b""));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_invalid_message_in_a_frame_keeps_the_connection_open() {
    let switches = Switches::speaking(Protocol::Ws, StreamOptions::default());
    let mut socket = opened(connected(switches.address()));
    socket.send(Message::text("not SIP at all")).expect("sent");
    assert_eq!(asks(&mut socket, "hello"), "hello");
}

#[test]
fn a_peer_that_never_reads_is_bounded_and_closed_by_deadline() {
    let options = StreamOptions {
        max_queue: 1 << 20,
        ..impatient()
    };
    let switches = Switches::speaking(Protocol::Ws, options);
    let mut greedy = opened(connected(switches.address()));
    let patience = Some(Duration::from_millis(300));
    greedy
        .get_mut()
        .set_write_timeout(patience)
        .expect("timeout");
    let ask = framed("large 60000");
    let ask = frame(0x81, ask.len() as u64, &ask);
    while greedy.get_mut().write_all(&ask).is_ok() {}
    let mut other = opened(connected(switches.address()));
    assert_eq!(asks(&mut other, "others go on"), "others go on");
    switches.await_closed(CloseReason::NotReading, 1);
}

#[test]
fn no_websocket_is_opened_to_a_peer() {
    let switches = Switches::speaking(Protocol::Ws, StreamOptions::default());
    let mut socket = opened(connected(switches.address()));
    let message = framed("dial 127.0.0.1:9 hello");
    socket.send(Message::binary(message)).expect("sent");
    assert_eq!(switches.question(), "undeliverable: hello");
}
