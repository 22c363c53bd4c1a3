//! Connections that the switch opens, and messages whose connection cannot be opened.

use super::peer::{Peer, reset_at_the_end};
use super::switch::{Switches, framed, impatient};
use crate::workers::script::{ANYWHERE, await_count, eventually};
use sip_runtime::{CloseReason, StreamOptions};
use std::net::TcpListener;

#[test]
fn a_connection_is_opened_once_and_used_again() {
    for address in ANYWHERE {
        let switches = Switches::start(address, 1, StreamOptions::default());
        let callee = TcpListener::bind(address).expect("bind");
        let to = callee.local_addr().expect("address");
        let mut caller = Peer::of(switches.address());
        caller.send(&framed(&format!("dial {to} one")));
        caller.send(&framed(&format!("dial {to} two")));
        let (stream, from) = callee.accept().expect("accept");
        assert_eq!(from.ip(), switches.address().ip());
        let mut callee = Peer::over(stream);
        assert_eq!([callee.receive(), callee.receive()], ["one", "two"]);
        caller.send(&framed(&format!("dial {to} three")));
        assert_eq!(callee.receive(), "three");
        assert_eq!(callee.asks("opened"), "by us");
        assert_eq!(caller.asks("opened"), "by the peer");
        assert_eq!(switches.running.stats()[0].connections_opened.value(), 1);
    }
}

#[test]
fn a_peer_that_called_is_called_back_over_its_connection() {
    let switches = Switches::start(ANYWHERE[0], 2, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    let from = peer.stream.local_addr().expect("address");
    peer.asks("who");
    for _ in 0..20 {
        let mut other = Peer::of(switches.address());
        other.send(&framed(&format!("dial {from} hello")));
        assert_eq!(peer.receive(), "hello");
    }
    let stats = switches.running.stats();
    assert!(
        stats
            .iter()
            .all(|stats| stats.connections_opened.value() == 0)
    );
}

#[test]
fn who_does_not_listen_makes_messages_undeliverable() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let nobody = {
        let socket = TcpListener::bind(ANYWHERE[0]).expect("bind");
        socket.local_addr().expect("address")
    };
    let mut caller = Peer::of(switches.address());
    for text in ["one", "two"] {
        caller.send(&framed(&format!("dial {nobody} {text}")));
    }
    for text in ["one", "two"] {
        assert_eq!(switches.question(), format!("undeliverable: {text}"));
    }
    let stats = switches.running.stats();
    assert!(stats[0].connections_closed[CloseReason::NotOpened as usize].value() >= 1);
    assert_eq!(stats[0].undeliverable.value(), 2);
}

#[test]
fn who_does_not_accept_makes_messages_undeliverable_in_time() {
    let switches = Switches::start(ANYWHERE[0], 1, impatient());
    // One connection fills its accept queue: the kernel answers no more.
    let deaf = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .expect("socket");
    let any: std::net::SocketAddr = ANYWHERE[0].parse().expect("an address");
    rustix::net::bind(&deaf, &any).expect("bind");
    rustix::net::listen(&deaf, 0).expect("listen");
    let to: std::net::SocketAddr = rustix::net::getsockname(&deaf)
        .expect("address")
        .try_into()
        .expect("address");
    let _first = Peer::of(to);
    let mut caller = Peer::of(switches.address());
    caller.send(&framed(&format!("dial {to} hello")));
    assert_eq!(switches.question(), "undeliverable: hello");
    let stats = switches.running.stats();
    await_count(
        &stats[0].connections_closed[CloseReason::OpenTimeout as usize],
        1,
    );
}

#[test]
fn what_is_for_a_connection_that_is_gone_is_undeliverable_and_none_is_opened() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    // Both arrive together, and both answers are written after the peer has gone.
    reset_at_the_end(&peer.stream);
    peer.send(&framed("one"));
    drop(peer);
    let stats = switches.running.stats();
    let ended = || {
        stats[0].connections_closed[CloseReason::ByPeer as usize].value()
            + stats[0].connections_closed[CloseReason::Failed as usize].value()
    };
    // The gauge is updated after the counter.
    eventually(|| ended() == 1 && stats[0].connections.value() == 0);
    assert_eq!(stats[0].connections_opened.value(), 0);
}
