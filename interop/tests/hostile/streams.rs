//! Peers that use up descriptors, memory and time with their connections, and pages of foreign origins.

use interop::{Server, ServerOptions, eventually, free_port, wait_until};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use serde_json::json;
use sip_transport::Protocol;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;

/// A server with an additional TCP listener and these connection settings. It does not authenticate.
fn listening(connections: &str, descriptors: Option<(u64, u64)>) -> (Server, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let server = Server::start(&ServerOptions {
        sections: format!(
            "[auth]\nchallenge = []\n\n[connections]\n{connections}\n\n[[listen]]\ntransport = \"tcp\"\naddress = \"{address}\"\n"
        ),
        descriptors,
        ..ServerOptions::default()
    });
    (server, address)
}

/// Opens a connection from an address of the loopback network. `None` if the kernel or the server refused it.
fn connected(from: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from((from, 0))).expect("bind");
    connect(&socket, &to).ok()?;
    let stream = TcpStream::from(socket);
    let patience = Some(Duration::from_secs(10));
    stream.set_read_timeout(patience).expect("a timeout");
    stream.set_write_timeout(patience).expect("a timeout");
    Some(stream)
}

fn request(method: &str, stream: &TcpStream) -> String {
    let local = stream.local_addr().expect("an address");
    let mark = local.to_string().replace(['.', ':'], "");
    format!(
        "{method} sip:example.org SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK{mark}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=1\r\nTo: <sip:alice@example.org>\r\nCall-ID: {mark}{method}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:alice@{local};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Whether a request is answered with 200.
fn asks(stream: &mut TcpStream, method: &str) -> bool {
    let mut answer = [0; 4_096];
    stream.write_all(request(method, stream).as_bytes()).is_ok()
        && matches!(stream.read(&mut answer), Ok(count) if answer[..count].starts_with(b"SIP/2.0 200"))
}

#[test]
fn connections_silence_neither_the_admin_interface_nor_other_addresses() {
    let (server, address) = listening("", Some((256, 256)));
    let admin_answers = || {
        assert_eq!(server.http("/health/ready").0, 200);
        server.rpc("node.status", &json!({}));
    };
    let one = Ipv4Addr::new(127, 0, 9, 1);
    let mut held: Vec<TcpStream> = (0..400).filter_map(|_| connected(one, address)).collect();
    let limited = || server.metric("tandem_connections_refused_total", "peer_limit") > 300.0;
    wait_until("the address has what it may", limited);
    admin_answers();
    let mut other = connected(Ipv4Addr::new(127, 0, 9, 2), address).expect("a connection");
    assert!(asks(&mut other, "OPTIONS"), "another address is not served");
    for number in 0..40 {
        let from = Ipv4Addr::new(127, 0, 10, number);
        held.extend((0..50).filter_map(|_| connected(from, address)));
    }
    let full = || server.metric("tandem_connections_refused_total", "table_full") > 0.0;
    wait_until("no more connections are taken on", full);
    admin_answers();
    assert!(
        asks(&mut other, "OPTIONS"),
        "a peer that is connected is not served"
    );
    let without = server.count("tandem_connections_refused_total", "no_descriptor");
    assert_eq!(without, 0, "some found no descriptor");
}

/// The resident memory of a process in bytes.
fn memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/statm")).expect("a process");
    let pages: u64 = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("pages");
    pages * 4_096
}

#[test]
fn messages_that_never_end_do_not_fill_memory() {
    const CONNECTIONS: usize = 800;
    let (mut server, address) = listening("max_per_peer = 10000", None);
    let process = server.process().id();
    let before = memory(process);
    let mut held = Vec::new();
    let body = vec![b'x'; 60_000];
    for _ in 0..CONNECTIONS {
        let mut stream = connected(Ipv4Addr::new(127, 0, 9, 1), address).expect("a connection");
        let head = request("MESSAGE", &stream);
        let head = head.replace("Content-Length: 0", "Content-Length: 65000");
        // The server may close it because of the memory that the others hold.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(&body);
        held.push(stream);
    }
    let closed = || server.metric("tandem_connections_closed_total", "memory") > 600.0;
    wait_until("those that began first are closed", closed);
    let bounded = || server.metric("tandem_connections_partial_bytes", "") <= 4_194_304.0;
    wait_until("the address holds no more than its share", bounded);
    let grown = memory(process).saturating_sub(before);
    assert!(
        grown < 24 << 20,
        "{grown} bytes for {CONNECTIONS} connections"
    );
    let mut other = connected(Ipv4Addr::new(127, 0, 9, 2), address).expect("a connection");
    assert!(asks(&mut other, "OPTIONS"), "another address is not served");
}

#[test]
fn a_stranger_does_not_stay_by_keep_alives_and_a_registered_phone_does() {
    let settings = "unproven_timeout = \"1s\"\nsilent_timeout = \"1s\"";
    let (server, address) = listening(settings, None);
    let mut phone = connected(Ipv4Addr::new(127, 0, 9, 1), address).expect("a connection");
    assert!(asks(&mut phone, "REGISTER"));
    let mut stranger = connected(Ipv4Addr::new(127, 0, 9, 2), address).expect("a connection");
    assert!(asks(&mut stranger, "OPTIONS"));
    let begin = Instant::now();
    let goes = || {
        let _ = stranger.write_all(b"\r\n\r\n");
        let _ = phone.write_all(b"\r\n\r\n");
        server.metric("tandem_connections_closed_total", "unproven") > 0.0
    };
    assert!(
        eventually(Duration::from_secs(6), goes),
        "the stranger stays"
    );
    assert!(begin.elapsed() > Duration::from_secs(1));
    std::thread::sleep(Duration::from_secs(2));
    let mut pong = [0; 4_096];
    phone
        .write_all(b"\r\n\r\n")
        .expect("the phone is connected");
    assert!(phone.read(&mut pong).expect("the phone is connected") > 0);
    assert!(asks(&mut phone, "OPTIONS") || asks(&mut phone, "OPTIONS"));
}

#[test]
fn pages_of_foreign_origins_open_no_web_socket() {
    let server = Server::start(&ServerOptions::with(
        "[connections]\norigins = [\"https://phone.example.net\"]\n",
    ));
    let address = server.address_of(Protocol::Ws);
    let status = |origin: Option<&str>, host: Option<&str>| {
        let mut request = format!("ws://{address}/")
            .into_client_request()
            .expect("a URL");
        let fields = request.headers_mut();
        let mut set = |name: &'static str, value: &str| {
            fields.insert(name, value.parse().expect("a value"));
        };
        set("Sec-WebSocket-Protocol", "sip");
        if let Some(origin) = origin {
            set("Origin", origin);
        }
        if let Some(host) = host {
            set("Host", host);
        }
        let stream = TcpStream::connect(address).expect("a connection");
        match tungstenite::client(request, stream) {
            Ok((_, response)) => response.status().as_u16(),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                response.status().as_u16()
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(status(None, None), 101);
    assert_eq!(status(Some("https://example.org"), None), 101);
    assert_eq!(status(Some("http://127.0.0.1:3000"), None), 101);
    assert_eq!(status(Some("https://phone.example.net"), None), 101);
    assert_eq!(status(Some("https://evil.example"), None), 403);
    assert_eq!(status(Some("null"), None), 403);
    // A name of the attacker that points here (DNS rebinding).
    assert_eq!(
        status(Some("http://evil.example"), Some("evil.example")),
        403
    );
    let counted = || server.count("tandem_connections_closed_total", "foreign_origin") == 3;
    wait_until("the refusals are counted", counted);
}
