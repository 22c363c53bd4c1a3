//! A WebSocket that a phone opens ([`StreamOptions::is_client`]), to a server that uses tungstenite.

use super::authority::Authority;
use super::peer::{accepted, connected};
use super::secure_peer::{NAME, client_over, server_over, trusting, with_tls};
use super::switch::{Switches, framed, impatient, listener};
use super::websocket::{asks, opened, receive};
use crate::workers::script::ANYWHERE;
use sip_runtime::{CloseReason, StreamOptions};
use sip_transport::Protocol;
use std::io::{Read, Write};
use std::net::TcpListener;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::{Message, WebSocket};

fn phones() -> StreamOptions {
    StreamOptions {
        is_client: true,
        ..impatient()
    }
}

/// The server side of a WebSocket. It accepts only masked frames (RFC 6455 section 5.1) and only the SIP subprotocol.
#[expect(clippy::result_large_err, reason = "tungstenite asks for it")]
fn server<S: Read + Write>(stream: S) -> WebSocket<S> {
    let agree = |request: &Request, mut response: Response| {
        assert_eq!(request.headers()["Sec-WebSocket-Protocol"], "sip");
        let protocol = "sip".parse().expect("a value");
        response
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol);
        Ok(response)
    };
    tungstenite::accept_hdr(stream, agree)
        .map_err(|error| error.to_string())
        .expect("a WebSocket")
}

fn somewhere() -> (TcpListener, String) {
    let listener = TcpListener::bind(ANYWHERE[0]).expect("bind");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

fn dial<S: Read + Write>(caller: &mut WebSocket<S>, to: &str, text: &str) {
    let message = String::from_utf8(framed(&format!("dial {to} {text}"))).expect("text");
    caller.send(Message::text(message)).expect("sent");
}

#[test]
fn messages_wait_for_the_upgrade_and_arrive_in_order() {
    let switches = Switches::speaking(Protocol::Ws, phones());
    let mut caller = opened(connected(switches.address()));
    let (listener, to) = somewhere();
    for text in ["one", "two", "three"] {
        dial(&mut caller, &to, text);
    }
    let mut callee = server(accepted(&listener));
    for text in ["one", "two", "three"] {
        assert_eq!(receive(&mut callee), text);
    }
    assert_eq!(asks(&mut callee, "back"), "back");
    assert_eq!(asks(&mut callee, "large 60000").len(), 60_000);
    dial(&mut caller, &to, "four");
    assert_eq!(receive(&mut callee), "four");
    assert_eq!(switches.running.stats()[0].connections_opened.value(), 1);
}

#[test]
fn a_secure_one_is_opened_once_the_handshake_is_done() {
    let authority = Authority::new();
    let options = with_tls(authority.context(&[&[NAME]]), phones());
    let switches = Switches::speaking(Protocol::Wss, options);
    let config = trusting(authority.roots(), None);
    let mut caller = opened(client_over(connected(switches.address()), &config));
    let (listener, to) = somewhere();
    dial(&mut caller, &format!("{to}/bob.example"), "hello");
    let stream = server_over(accepted(&listener), &authority, &["bob.example"]).stream;
    let mut callee = server(stream);
    assert_eq!(receive(&mut callee), "hello");
    assert_eq!(asks(&mut callee, "back"), "back");
}

#[test]
fn a_server_that_wants_no_websocket_makes_messages_undeliverable_at_once() {
    let switches = Switches::speaking(Protocol::Ws, phones());
    let mut caller = opened(connected(switches.address()));
    let (listener, to) = somewhere();
    dial(&mut caller, &to, "hello");
    let mut stream = accepted(&listener);
    stream
        .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        .expect("written");
    assert_eq!(switches.question(), "undeliverable: hello");
    switches.await_closed(CloseReason::BadUpgrade, 1);
}

#[test]
fn a_server_that_agrees_and_leaves_at_once_makes_messages_undeliverable() {
    let switches = Switches::speaking(Protocol::Ws, phones());
    let mut caller = opened(connected(switches.address()));
    let (listener, to) = somewhere();
    dial(&mut caller, &to, "hello");
    let mut stream = accepted(&listener);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut octet = [0];
        stream.read_exact(&mut octet).expect("a request");
        request.push(octet[0]);
    }
    let request = String::from_utf8(request).expect("text");
    let key = request
        .lines()
        .find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "))
        .expect("a key");
    let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
    let mut answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    )
    .into_bytes();
    // A close frame, in the same segment.
    answer.extend_from_slice(&[0x88, 0]);
    stream.write_all(&answer).expect("written");
    assert_eq!(switches.question(), "undeliverable: hello");
}

#[test]
fn a_ping_is_answered_and_a_single_line_end_is_not() {
    let switches = Switches::speaking(Protocol::Ws, phones());
    let mut caller = opened(connected(switches.address()));
    let (listener, to) = somewhere();
    dial(&mut caller, &to, "hello");
    let mut callee = server(accepted(&listener));
    assert_eq!(receive(&mut callee), "hello");
    callee.send(Message::text("\r\n")).expect("sent");
    callee.send(Message::Ping("there?".into())).expect("sent");
    assert_eq!(
        callee.read().expect("a pong"),
        Message::Pong("there?".into())
    );
}

#[test]
fn phones_open_a_connection_for_each_listener_and_a_server_one_for_all() {
    for (is_client, expected) in [(true, 2), (false, 1)] {
        let streams = StreamOptions {
            is_client,
            ..impatient()
        };
        let listeners = vec![listener(Protocol::Tcp, ANYWHERE[0]); 2];
        let switches = Switches::listening(listeners, 1, streams);
        let (_listener, to) = somewhere();
        for own in switches.running.listeners() {
            let mut caller = super::peer::Peer::of(own.address);
            caller.send(&framed(&format!("dial {to} hello")));
            assert_eq!(caller.asks("done"), "done");
        }
        let opened = switches.running.stats()[0].connections_opened.value();
        assert_eq!(opened, expected, "is_client {is_client}");
    }
}
