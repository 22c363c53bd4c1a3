//! Phones whose connections end, and phones that accept no connections.

use interop::{Server, ServerOptions, free_port, header, wait_until};
use sip_transport::Protocol;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use tungstenite::client::IntoClientRequest;

/// How long a message may take without a delay.
const SOON: Duration = Duration::from_secs(3);

/// A server that does not authenticate.
fn server() -> Server {
    Server::start(&ServerOptions::with("[auth]\nchallenge = []\n"))
}

/// A REGISTER from bob.
fn register(transport: &str, from: SocketAddr, contact: &str, number: u32) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bKr{number}\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.org>;tag=1\r\nTo: <sip:bob@example.org>\r\nCall-ID: register-{number}\r\nCSeq: 1 REGISTER\r\n\
         Contact: {contact}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// A request from alice, sent from `socket`, with a body of `body` bytes.
fn request(method: &str, uri: &str, socket: &UdpSocket, more: &str, body: usize) -> String {
    let from = socket.local_addr().expect("bound");
    let mut text = format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{method}{body};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=a\r\nCall-ID: call-{from}\r\nContact: <sip:alice@{from}>\r\n{more}"
    );
    let _ = write!(text, "Content-Length: {body}\r\n\r\n{}", "v".repeat(body));
    text
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(SOON)).expect("a timeout");
    socket
}

/// The next message at a socket that begins with this text. Other messages are skipped.
fn receive(socket: &UdpSocket, beginning: &str) -> String {
    let mut buffer = vec![0; 65_536];
    loop {
        let count = socket.recv(&mut buffer);
        let count = count.unwrap_or_else(|error| panic!("no {beginning} within {SOON:?}: {error}"));
        let text = String::from_utf8_lossy(&buffer[..count]);
        if text.starts_with(beginning) {
            return text.into_owned();
        }
    }
}

/// The response of a phone to a request.
fn respond(request: &str, status: &str, more: &str) -> String {
    let mut text = format!("SIP/2.0 {status}\r\n");
    for name in ["Via", "Record-Route", "From", "Call-ID", "CSeq"] {
        for value in header(request, name) {
            let _ = write!(text, "{name}: {value}\r\n");
        }
    }
    let to = header(request, "To")[0];
    let tag = if to.contains("tag=") { "" } else { ";tag=b" };
    let _ = write!(text, "To: {to}{tag}\r\n{more}Content-Length: 0\r\n\r\n");
    text
}

/// Reads a stream up to the end of a header.
fn read_header(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let (mut text, mut buffer) = (String::new(), [0; 4_096]);
    while !text.contains("\r\n\r\n") {
        let count = stream.read(&mut buffer).expect("a message in time");
        assert!(count > 0, "the end after {text:?}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    text
}

#[test]
fn a_page_that_is_loaded_again_and_again_registers_every_time() {
    let server = server();
    let address = server.address_of(Protocol::Ws);
    for load in 1..=15 {
        let mut request = format!("ws://{address}/")
            .into_client_request()
            .expect("a request");
        let protocol = "sip".parse().expect("a token");
        request
            .headers_mut()
            .insert("Sec-WebSocket-Protocol", protocol);
        let stream = TcpStream::connect(address).expect("a connection");
        let from = stream.local_addr().expect("connected");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        let (mut socket, _) = tungstenite::client(request, stream).expect("a web socket");
        let contact = format!("<sip:{load}@{load}.invalid;transport=ws>");
        let text = register("WS", from, &contact, load);
        socket.send(text.into()).expect("sent");
        let response = socket.read().expect("a response").into_data();
        let response = String::from_utf8_lossy(&response).into_owned();
        assert!(response.starts_with("SIP/2.0 200"), "{load}: {response}");
        drop(socket);
        wait_until("the contact goes with the page", || {
            server.bindings("bob").is_empty()
        });
    }
    let ended = server.count("tandem_registrations_disconnected_total", "");
    assert_eq!(ended, 15);
}

#[test]
fn a_phone_is_called_at_its_contact_after_its_connection_has_ended() {
    let server = server();
    let phone = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = phone.local_addr().expect("bound");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let contact = format!("<sip:bob@{at};transport=tcp>");
    let from = stream.local_addr().expect("connected");
    let text = register("TCP", from, &contact, 1);
    stream.write_all(text.as_bytes()).expect("sent");
    assert!(read_header(&mut stream).starts_with("SIP/2.0 200"));
    drop(stream);
    wait_until("the server knows of the end", || {
        server.metric("tandem_connections", "") == 0.0
    });
    assert_eq!(server.bindings("bob").len(), 1);
    let alice = socket();
    let more = "To: <sip:bob@example.org>\r\nCSeq: 1 INVITE\r\n";
    let invite = request("INVITE", "sip:bob@example.org", &alice, more, 0);
    alice
        .send_to(invite.as_bytes(), server.address())
        .expect("sent");
    phone.set_nonblocking(true).expect("a listener");
    let mut accepted = None;
    wait_until("the server connects to the contact", || {
        accepted = phone.accept().ok();
        accepted.is_some()
    });
    let (mut stream, _) = accepted.expect("it has");
    stream.set_nonblocking(false).expect("a stream");
    let received = read_header(&mut stream);
    assert!(
        received.starts_with(&format!("INVITE sip:bob@{at};transport=tcp ")),
        "{received}"
    );
    let busy = respond(&received, "486 Busy Here", "");
    stream.write_all(busy.as_bytes()).expect("sent");
    receive(&alice, "SIP/2.0 486");
}

#[test]
fn a_long_re_invite_to_a_phone_that_registered_over_udp_arrives_over_udp_at_once() {
    let server = server();
    let port = free_port();
    let bob = UdpSocket::bind(("127.0.0.1", port)).expect("a socket");
    bob.set_read_timeout(Some(SOON)).expect("a timeout");
    // It accepts connections but never reads from them.
    let _silent = TcpListener::bind(("127.0.0.1", port)).expect("a listener");
    let at = bob.local_addr().expect("bound");
    let text = register("UDP", at, &format!("<sip:bob@{at}>"), 1);
    bob.send_to(text.as_bytes(), server.address())
        .expect("sent");
    receive(&bob, "SIP/2.0 200");

    let alice = socket();
    let send = |text: &str| alice.send_to(text.as_bytes(), server.address());
    let more = "To: <sip:bob@example.org>\r\nCSeq: 1 INVITE\r\n";
    send(&request("INVITE", "sip:bob@example.org", &alice, more, 300)).expect("sent");
    let invite = receive(&bob, "INVITE");
    let contact = format!("Contact: <sip:bob@{at}>\r\n");
    let okay = respond(&invite, "200 OK", &contact);
    bob.send_to(okay.as_bytes(), server.address())
        .expect("sent");
    let answered = receive(&alice, "SIP/2.0 200");
    let mut inside = format!("To: {}\r\n", header(&answered, "To")[0]);
    for route in header(&answered, "Record-Route").iter().rev() {
        let _ = write!(inside, "Route: {route}\r\n");
    }
    let uri = format!("sip:bob@{at}");
    let ack = request("ACK", &uri, &alice, &format!("{inside}CSeq: 1 ACK\r\n"), 0);
    send(&ack).expect("sent");
    receive(&bob, "ACK");
    let more = format!("{inside}CSeq: 2 INVITE\r\n");
    send(&request("INVITE", &uri, &alice, &more, 2_000)).expect("sent");
    let again = receive(&bob, &format!("INVITE {uri} "));
    assert!(again.len() > 2_000);
    let busy = respond(&again, "488 Not Acceptable Here", "");
    bob.send_to(busy.as_bytes(), server.address())
        .expect("sent");
    receive(&alice, "SIP/2.0 488");
}
