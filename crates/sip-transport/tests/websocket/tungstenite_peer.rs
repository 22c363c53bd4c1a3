//! Both sides with tungstenite as the peer, over an in-memory wire.
use crate::MESSAGE;
use sip_transport::websocket::{
    ClientHandshake, CloseCode, Decoder, Event, Handshake, Opcode, Opening, Origins, Role, Upgrade,
    write_close, write_frame, write_message,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::rc::Rc;
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::handshake::{HandshakeError, HandshakeRole, MidHandshake};
use tungstenite::protocol::frame::coding::CloseCode as TheirCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tungstenite::{Message, WebSocket};

/// Bytes in flight in both directions.
#[derive(Default)]
struct Wire {
    to_peer: VecDeque<u8>,
    to_us: Vec<u8>,
}

/// The peer's end of a wire.
#[derive(Clone, Default)]
struct End(Rc<RefCell<Wire>>);

impl Read for End {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        if wire.to_peer.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // Reads a few bytes at a time, so that the peer sees split frames too.
        let most = into.len().min(7);
        wire.to_peer.read(&mut into[..most])
    }
}

impl Write for End {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().to_us.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl End {
    fn send(&self, bytes: &[u8]) {
        self.0.borrow_mut().to_peer.extend(bytes);
    }

    fn sent(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().to_us)
    }
}

/// A handshake that waits for bytes from this side.
fn waiting<R: HandshakeRole>(result: Result<R::FinalResult, HandshakeError<R>>) -> MidHandshake<R> {
    match result {
        Err(HandshakeError::Interrupted(waiting)) => waiting,
        Err(HandshakeError::Failure(error)) => panic!("{error}"),
        Ok(_) => panic!("it is over before we have said anything"),
    }
}

/// A tungstenite client, connected to a server of this crate.
fn their_client() -> (End, WebSocket<End>) {
    let end = End::default();
    let mut request = "ws://sip.example.org/"
        .into_client_request()
        .expect("a request");
    let protocol = "sip".parse().expect("a value");
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", protocol);
    let config = WebSocketConfig::default().write_buffer_size(0);
    let client = waiting(tungstenite::client::client_with_config(
        request,
        end.clone(),
        Some(config),
    ));
    let request = end.sent();
    let mut response = Vec::new();
    let upgrade = Handshake::new(1000).next(&request, &Origins::default(), false, &mut response);
    let consumed = request.len();
    assert_eq!(upgrade, Upgrade::Accepted { consumed });
    end.send(&response);
    let (client, response) = client.handshake().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(response.headers()["Sec-WebSocket-Protocol"], "sip");
    (end, client)
}

/// A tungstenite server with a client of this crate.
fn their_server() -> (End, WebSocket<End>) {
    let end = End::default();
    #[expect(clippy::result_large_err, reason = "the type is theirs")]
    let choose = |request: &Request, mut response: Response| {
        let offered = request.headers()["Sec-WebSocket-Protocol"].clone();
        response
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", offered);
        Ok(response)
    };
    let server = waiting(tungstenite::accept_hdr(end.clone(), choose));
    let mut handshake = ClientHandshake::new([7; 16], 1000);
    let mut request = Vec::new();
    let written = handshake.write_request(&mut request, "sip.example.org", "/");
    assert_eq!(written, Ok(()));
    end.send(&request);
    let server = server.handshake().unwrap_or_else(|error| panic!("{error}"));
    let response = end.sent();
    let consumed = response.len();
    assert_eq!(
        handshake.next(&response),
        Ok(Opening::Accepted { consumed })
    );
    (end, server)
}

/// Expects exactly this event from the peer.
#[track_caller]
fn received(decoder: &mut Decoder, end: &End, expected: &Event<'_>) {
    let mut bytes = end.sent();
    let length = bytes.len();
    let decoded = decoder.next(&mut bytes).expect("frames");
    assert_eq!((decoded.consumed, &decoded.event), (length, expected));
}

fn converse(end: &End, mut peer: WebSocket<End>, mut decoder: Decoder, mask: Option<[u8; 4]>) {
    let long = format!("{MESSAGE}{}", "x".repeat(70_000));
    for text in [MESSAGE, &long, ""] {
        peer.send(Message::text(text)).expect("sent");
        received(&mut decoder, end, &Event::Message(text.as_bytes().into()));
        let mut frame = Vec::new();
        write_message(&mut frame, text.as_bytes(), mask);
        end.send(&frame);
        assert_eq!(peer.read().expect("a message"), Message::text(text));
    }
    let binary = [MESSAGE.as_bytes(), b"\xff\0"].concat();
    peer.send(Message::binary(binary.clone())).expect("sent");
    received(&mut decoder, end, &Event::Message(binary.as_slice().into()));
    let mut frame = Vec::new();
    write_message(&mut frame, &binary, mask);
    end.send(&frame);
    assert_eq!(peer.read().expect("a message"), Message::binary(binary));

    peer.send(Message::Ping("are you there".into()))
        .expect("sent");
    received(&mut decoder, end, &Event::Ping(b"are you there"));
    let mut pong = Vec::new();
    write_frame(&mut pong, Opcode::Pong, b"are you there", mask);
    end.send(&pong);
    assert_eq!(
        peer.read().expect("a pong"),
        Message::Pong("are you there".into())
    );

    let reason = CloseFrame {
        code: TheirCode::Away,
        reason: "leaving".into(),
    };
    peer.close(Some(reason)).expect("closed");
    received(
        &mut decoder,
        end,
        &Event::Close(Some(CloseCode::GOING_AWAY)),
    );
    let mut close = Vec::new();
    write_close(&mut close, Some(CloseCode::GOING_AWAY), mask);
    end.send(&close);
    let closed = peer.read().expect("a close");
    assert!(closed.is_close(), "{closed}");
}

#[test]
fn a_client_that_we_did_not_write_converses_with_our_server() {
    let (end, client) = their_client();
    converse(&end, client, Decoder::new(Role::Client, 100_000), None);
}

#[test]
fn our_client_converses_with_a_server_that_we_did_not_write() {
    let (end, server) = their_server();
    converse(
        &end,
        server,
        Decoder::new(Role::Server, 100_000),
        Some([1, 2, 3, 250]),
    );
}

#[test]
fn a_message_that_is_too_big_is_refused_with_a_code_that_they_understand() {
    let (end, mut client) = their_client();
    client.send(Message::text("x".repeat(2000))).expect("sent");
    let mut decoder = Decoder::new(Role::Client, 1000);
    let mut sent = end.sent();
    let error = decoder.next(&mut sent[..4]).expect_err("too big");
    let mut close = Vec::new();
    write_close(&mut close, Some(error.close_code()), None);
    end.send(&close);
    let Ok(Message::Close(Some(frame))) = client.read() else {
        panic!("no close")
    };
    assert_eq!(frame.code, TheirCode::Size);
}
