//! Listeners behind a load balancer, which announces the peer (PROXY protocol, version 2).

use super::peer::Peer;
use super::switch::{Switches, framed, impatient};
use crate::workers::script::ANYWHERE;
use sip_runtime::{CloseReason, StreamOptions};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

/// The PROXY header of a connection from this address.
fn header(source: &str) -> Vec<u8> {
    let source: SocketAddrV4 = source.parse().expect("an address");
    let mut octets = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    octets.extend_from_slice(&source.ip().octets());
    octets.extend_from_slice(&[192, 0, 2, 1]);
    octets.extend_from_slice(&source.port().to_be_bytes());
    octets.extend_from_slice(&5060_u16.to_be_bytes());
    octets
}

/// The header of a load balancer's health check.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

#[test]
fn a_peer_is_found_under_the_address_that_the_balancer_says() {
    let switches = Switches::behind_balancer(ANYWHERE[0], StreamOptions::default());
    let source = "203.0.113.9:4711";
    let mut peer = Peer::of(switches.address());
    for octet in header(source) {
        peer.send(&[octet]);
    }
    assert_eq!(peer.asks("hello"), "hello");
    let mut other = Peer::of(switches.address());
    other.send(&header("203.0.113.10:4711"));
    other.send(&framed(&format!("dial {source} from another")));
    assert_eq!(peer.receive(), "from another");
    let balancer: SocketAddr = peer.stream.local_addr().expect("an address");
    drop(peer);
    switches.await_closed(CloseReason::ByPeer, 1);
    // Now neither address leads anywhere.
    other.send(&framed(&format!("dial {balancer} hello")));
    assert_eq!(switches.question(), "undeliverable: hello");
}

#[test]
fn a_message_that_comes_with_the_header_counts() {
    let options = StreamOptions {
        idle_timeout: Duration::from_secs(60),
        ..impatient()
    };
    let switches = Switches::behind_balancer(ANYWHERE[0], options);
    let mut peer = Peer::of(switches.address());
    peer.send(&[header("203.0.113.9:4711"), framed("first")].concat());
    assert_eq!(peer.receive(), "first");
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(peer.asks("still there"), "still there");
}

#[test]
fn a_balancer_that_speaks_for_itself_is_a_peer_too() {
    let switches = Switches::behind_balancer(ANYWHERE[0], StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.send(LOCAL);
    assert_eq!(peer.asks("hello"), "hello");
}

#[test]
fn who_comes_without_header_is_closed() {
    let mut http = b"GET / HTTP/1.1\r\n".to_vec();
    http.resize(100, b'x');
    for octets in [
        &framed("hello")[..],
        b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
        &http,
    ] {
        let switches = Switches::behind_balancer(ANYWHERE[0], StreamOptions::default());
        let mut peer = Peer::of(switches.address());
        peer.send(octets);
        assert!(peer.until_closed().is_empty());
        drop(peer);
        switches.await_closed(CloseReason::BadProxyHeader, 1);
    }
}

#[test]
fn half_a_header_is_closed_by_deadline() {
    let header = header("203.0.113.9:4711");
    for half in [&b""[..], &header[..20]] {
        let switches = Switches::behind_balancer(ANYWHERE[0], impatient());
        let mut peer = Peer::of(switches.address());
        peer.send(half);
        assert!(peer.until_closed().is_empty());
        switches.await_closed(CloseReason::OpenTimeout, 1);
    }
}

#[test]
fn connections_count_for_who_is_behind_the_balancer() {
    let options = StreamOptions {
        max_per_peer: 2,
        ..StreamOptions::default()
    };
    let switches = Switches::behind_balancer(ANYWHERE[0], options);
    let from = |source: &str, text: &str| {
        let mut peer = Peer::of(switches.address());
        peer.send(&[header(source), framed(text)].concat());
        peer
    };
    let mut peers: Vec<Peer> = ["203.0.113.9:1", "203.0.113.9:2", "203.0.113.10:1"]
        .into_iter()
        .map(|source| from(source, "mine"))
        .collect();
    for peer in &mut peers {
        assert_eq!(peer.receive(), "mine");
    }
    for _ in 0..20 {
        from("203.0.113.9:3", "too many").until_closed();
    }
    switches.await_closed(CloseReason::PeerLimit, 20);
    // No message of the refused peers was delivered.
    assert_eq!(switches.messages_received(), 3);
    for peer in &mut peers {
        assert_eq!(peer.asks("still mine"), "still mine");
    }
    drop(peers);
    switches.await_closed(CloseReason::ByPeer, 3);
    assert_eq!(from("203.0.113.9:3", "room again").receive(), "room again");
}
