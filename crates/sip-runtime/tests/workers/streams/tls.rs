//! Peers that connect over TLS, and peers that violate the protocol.

use super::authority::Authority;
use super::peer::{Peer, connected, reset_at_the_end};
use super::secure_peer::{NAME, client_of, client_over, trusting, with_tls};
use super::switch::{Switches, framed, impatient};
use rustls::HandshakeKind;
use sip_runtime::tls::{ClientCertificates, TlsSettings};
use sip_runtime::{Aliases, CloseReason, StreamOptions};
use sip_transport::Protocol;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

fn secure(authority: &Authority, options: StreamOptions) -> Switches {
    let options = with_tls(authority.context(&[&[NAME]]), options);
    Switches::speaking(Protocol::Tls, options)
}

/// The bytes of a client's first message.
fn hello(authority: &Authority) -> Vec<u8> {
    let config = trusting(authority.roots(), None);
    let name = NAME.try_into().expect("a name");
    let mut session = rustls::ClientConnection::new(config, name).expect("a client");
    let mut octets = Vec::new();
    session.write_tls(&mut octets).expect("a vector");
    octets
}

/// Checks that these bytes close the peer's connection for this reason, and that another peer's
/// connection continues.
fn check_is_closed(octets: &[u8], reason: CloseReason) {
    let authority = Authority::new();
    let switches = secure(&authority, impatient());
    let config = trusting(authority.roots(), None);
    let mut other = client_of(&switches, &config);
    assert_eq!(other.asks("before"), "before");
    let mut peer = connected(switches.address());
    let _ = peer.write_all(octets);
    let mut told = Vec::new();
    let _ = peer.read_to_end(&mut told);
    drop(peer);
    switches.await_closed(reason, 1);
    assert_eq!(client_of(&switches, &config).asks("after"), "after");
}

#[test]
fn a_peer_that_says_something_other_than_tls_is_closed() {
    for octets in [&framed("hello")[..], b"GET / HTTP/1.1\r\n\r\n", b"\0\0"] {
        check_is_closed(octets, CloseReason::NotTls);
    }
}

#[test]
fn records_that_make_no_sense_end_the_connection() {
    check_is_closed(
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        CloseReason::TlsFailed,
    );
    check_is_closed(b"\x16\x03\x01\xff\xff\x01\x00\x00", CloseReason::TlsFailed);
}

#[test]
fn a_handshake_that_does_not_end_is_ended_by_deadline() {
    let hello = hello(&Authority::new());
    for half in [&b""[..], &hello[..hello.len() / 2], &hello] {
        check_is_closed(half, CloseReason::OpenTimeout);
    }
}

#[test]
fn half_a_record_is_closed_by_deadline() {
    let authority = Authority::new();
    let options = StreamOptions {
        idle_timeout: Duration::from_secs(3_600),
        ..impatient()
    };
    let switches = secure(&authority, options);
    let mut peer = client_of(&switches, &trusting(authority.roots(), None));
    assert_eq!(peer.asks("hello"), "hello");
    let record = b"\x17\x03\x03\x40\x00 the rest never comes";
    peer.stream.sock.write_all(record).expect("sent");
    assert!(peer.until_closed().is_empty());
    switches.await_closed(CloseReason::HalfMessage, 1);
}

#[test]
fn records_come_whole_wherever_the_stream_is_cut() {
    /// Writes single bytes.
    struct Slowly(std::net::TcpStream);
    impl Read for Slowly {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(into)
        }
    }
    impl Write for Slowly {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.write(&octets[..octets.len().min(1)])
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let authority = Authority::new();
    let switches = secure(&authority, StreamOptions::default());
    let config = trusting(authority.roots(), None);
    let name = NAME.try_into().expect("a name");
    let session = rustls::ClientConnection::new(config, name).expect("a client");
    let stream = Slowly(connected(switches.address()));
    let mut peer = Peer::on(rustls::StreamOwned::new(session, stream));
    for text in ["one", "two"] {
        assert_eq!(peer.asks(text), text);
    }
}

#[test]
fn what_comes_with_the_end_of_the_handshake_counts_as_a_message() {
    let authority = Authority::new();
    let options = StreamOptions {
        open_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(60),
        ..impatient()
    };
    let switches = secure(&authority, options);
    let config = trusting(authority.roots(), None);
    let mut peer = client_of(&switches, &config).stream;
    // The client has read the server's answer. Its own reply waits for the message.
    peer.conn.write_tls(&mut peer.sock).expect("sent");
    while peer.conn.is_handshaking() {
        peer.conn.read_tls(&mut peer.sock).expect("read");
        peer.conn.process_new_packets().expect("TLS");
    }
    peer.conn
        .writer()
        .write_all(&framed("first"))
        .expect("kept");
    let mut together = Vec::new();
    while peer.conn.wants_write() {
        peer.conn.write_tls(&mut together).expect("a vector");
    }
    peer.sock.write_all(&together).expect("sent");
    let mut peer = Peer::on(peer);
    assert_eq!(peer.receive(), "first");
    sleep(Duration::from_millis(2_500));
    assert_eq!(peer.asks("still there"), "still there");
    assert_eq!(switches.closed(CloseReason::Silent), 0);
}

#[test]
fn what_comes_with_the_goodbye_is_heard_and_answered() {
    let authority = Authority::new();
    let switches = secure(&authority, StreamOptions::default());
    let config = trusting(authority.roots(), None);
    let mut peer = client_of(&switches, &config);
    assert_eq!(peer.asks("first"), "first");
    let session = &mut peer.stream.conn;
    session.writer().write_all(&framed("last")).expect("kept");
    session.send_close_notify();
    let mut together = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut together).expect("a vector");
    }
    peer.stream.sock.write_all(&together).expect("sent");
    assert_eq!(peer.receive(), "last");
    // The switch sends `close_notify` too: without it, reading would fail here.
    let mut rest = Vec::new();
    assert_eq!(peer.stream.read_to_end(&mut rest).expect("goodbye"), 0);
    drop(peer);
    switches.await_closed(CloseReason::ByPeer, 1);
}

#[test]
fn a_session_that_the_node_closes_ends_with_a_goodbye_behind_what_was_sent() {
    let authority = Authority::new();
    let switches = secure(&authority, StreamOptions::default());
    let config = trusting(authority.roots(), None);
    let mut peer = client_of(&switches, &config);
    peer.send(&framed("close it"));
    let mut all = Vec::new();
    peer.stream.read_to_end(&mut all).expect("goodbye");
    assert_eq!(all, framed("close it"));
    switches.await_closed(CloseReason::ByNode, 1);
}

#[test]
fn what_is_sent_over_a_session_whose_socket_was_reset_is_undeliverable() {
    let authority = Authority::new();
    let switches = secure(&authority, StreamOptions::default());
    let mut peer = client_of(&switches, &trusting(authority.roots(), None));
    assert_eq!(peer.asks("first"), "first");
    peer.send(&framed("sleep 300 late"));
    reset_at_the_end(&peer.stream.sock);
    drop(peer);
    assert_eq!(switches.question(), "undeliverable: late");
}

#[test]
fn a_peer_that_never_reads_is_bounded_and_closed_by_deadline() {
    let authority = Authority::new();
    let options = StreamOptions {
        max_queue: 1 << 20,
        ..impatient()
    };
    let switches = secure(&authority, options);
    let config = trusting(authority.roots(), None);
    let mut greedy = client_of(&switches, &config);
    assert_eq!(greedy.asks("first"), "first");
    let patience = Some(Duration::from_millis(300));
    let socket = &greedy.stream.sock;
    socket.set_write_timeout(patience).expect("timeout");
    let ask = framed("large 60000");
    while greedy.stream.write_all(&ask).is_ok() {}
    assert_eq!(client_of(&switches, &config).asks("others"), "others");
    switches.await_closed(CloseReason::NotReading, 1);
    assert!(switches.running.stats()[0].stream_messages_received.value() < 10_000);
}

#[test]
fn a_new_certificate_serves_new_connections_and_closes_none() {
    let (before, after) = (Authority::new(), Authority::new());
    let options = with_tls(before.context(&[&[NAME]]), StreamOptions::default());
    let shared = options.tls.clone().expect("TLS");
    let switches = Switches::speaking(Protocol::Tls, options);
    let mut early = client_of(&switches, &trusting(before.roots(), None));
    assert_eq!(early.asks("before"), "before");
    shared.replace(after.context(&[&[NAME]]));
    let mut late = client_of(&switches, &trusting(after.roots(), None));
    assert_eq!(late.asks("after"), "after");
    assert_eq!(early.asks("still there"), "still there");
}

#[test]
fn a_session_is_resumed_also_after_a_reload() {
    let authority = Authority::new();
    let settings = authority.settings(&[&[NAME]]);
    let options = with_tls(
        settings.load(None).expect("it loads"),
        StreamOptions::default(),
    );
    let shared = options.tls.clone().expect("TLS");
    let switches = Switches::speaking(Protocol::Tls, options);
    let config = trusting(authority.roots(), None);
    let kind = |config| {
        let mut peer = client_of(&switches, config);
        assert_eq!(peer.asks("hello"), "hello");
        peer.stream.conn.handshake_kind()
    };
    assert_eq!(kind(&config), Some(HandshakeKind::Full));
    assert_eq!(kind(&config), Some(HandshakeKind::Resumed));
    let before = shared.context();
    shared.replace(settings.load(Some(&before)).expect("it loads"));
    assert_eq!(kind(&config), Some(HandshakeKind::Resumed));
}

/// Checks which peers are reached over their connection under an alias.
fn check_alias(aliases: Aliases, is_certified: bool, is_believed: bool) {
    let authority = Authority::new();
    let settings = TlsSettings {
        client_certificates: ClientCertificates::Optional,
        client_ca: Some(authority.file()),
        ..authority.settings(&[&[NAME]])
    };
    let options = StreamOptions {
        aliases,
        ..impatient()
    };
    let options = with_tls(settings.load(None).expect("it loads"), options);
    let switches = Switches::speaking(Protocol::Tls, options);
    let shown = is_certified.then(|| authority.issue(&["trunk.example"]));
    let mut trunk = client_of(&switches, &trusting(authority.roots(), shown.as_ref()));
    // A port where nothing listens.
    let port = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
        socket.local_addr().expect("an address").port()
    };
    trunk.asks(&format!("alias {port}"));
    let mut caller = client_of(&switches, &trusting(authority.roots(), None));
    caller.send(&framed(&format!("dial 127.0.0.1:{port} hello")));
    if is_believed {
        assert_eq!(trunk.receive(), "hello");
        // The alias leads nowhere when the connection is gone.
        drop(trunk);
        switches.await_closed(CloseReason::ByPeer, 1);
        caller.send(&framed(&format!("dial 127.0.0.1:{port} hello")));
    }
    assert_eq!(switches.question(), "undeliverable: hello");
}

#[test]
fn an_alias_is_believed_of_whom_the_operator_says() {
    for (aliases, believed) in [
        (Aliases::None, [false, false]),
        (Aliases::Certified, [false, true]),
        (Aliases::All, [true, true]),
    ] {
        check_alias(aliases, false, believed[0]);
        check_alias(aliases, true, believed[1]);
    }
}

#[test]
fn a_certificate_of_another_authority_ends_the_connection() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let settings = TlsSettings {
        client_certificates: ClientCertificates::Required,
        client_ca: Some(authority.file()),
        ..authority.settings(&[&[NAME]])
    };
    let options = with_tls(
        settings.load(None).expect("it loads"),
        StreamOptions::default(),
    );
    let switches = Switches::speaking(Protocol::Tls, options);
    for shown in [None, Some(stranger.issue(&["trunk.example"]))] {
        let config = trusting(authority.roots(), shown.as_ref());
        let mut client = client_over(connected(switches.address()), &config);
        let _ = client.write_all(&framed("hello"));
        let mut told = Vec::new();
        let error = client.read_to_end(&mut told).expect_err("an alert");
        assert!(error.to_string().contains("alert"), "{error}");
    }
    switches.await_closed(CloseReason::TlsFailed, 2);
    let good = authority.issue(&["trunk.example"]);
    let config = trusting(authority.roots(), Some(&good));
    assert_eq!(client_of(&switches, &config).asks("good"), "good");
}
