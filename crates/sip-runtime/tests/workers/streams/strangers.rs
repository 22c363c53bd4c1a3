//! How long a peer may stay unproven.

use super::peer::Peer;
use super::switch::Switches;
use crate::workers::script::{ANYWHERE, PATIENCE};
use sip_runtime::{CloseReason, PeerPolicy, SharedPeerPolicy, StreamOptions};
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// Unproven peers are disconnected after one second without a message, or after eight seconds in total.
fn wary() -> StreamOptions {
    StreamOptions {
        unproven_timeout: Some(Duration::from_secs(1)),
        silent_timeout: Duration::from_secs(1),
        ..StreamOptions::default()
    }
}

/// Sends something every quarter of a second until the connection ends or `most` has passed. Returns how long that took.
fn lasts(peer: &mut Peer, octets: &[u8], most: Duration) -> Duration {
    let begin = Instant::now();
    let quarter = Some(Duration::from_millis(250));
    peer.stream.set_read_timeout(quarter).expect("timeout");
    let mut next = begin;
    while begin.elapsed() < most {
        if Instant::now() >= next {
            next += Duration::from_millis(250);
            if peer.stream.write_all(octets).is_err() {
                break;
            }
        }
        match peer.stream.read(&mut [0; 4_096]) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    peer.stream
        .set_read_timeout(Some(PATIENCE))
        .expect("timeout");
    begin.elapsed()
}

#[test]
fn keep_alives_alone_do_not_let_a_stranger_stay() {
    let switches = Switches::start(ANYWHERE[0], 1, wary());
    let mut silent = Peer::of(switches.address());
    let time = lasts(&mut silent, b"\r\n\r\n", Duration::from_secs(10));
    assert!(time < Duration::from_secs(4), "{time:?}");
    assert_eq!(switches.closed(CloseReason::Silent), 1);
    let mut stranger = Peer::of(switches.address());
    assert_eq!(stranger.asks("hello"), "hello");
    let time = lasts(&mut stranger, b"\r\n\r\n", Duration::from_secs(10));
    assert!(time < Duration::from_secs(4), "{time:?}");
    assert_eq!(switches.closed(CloseReason::Unproven), 1);
}

#[test]
fn messages_let_a_stranger_stay_for_a_while() {
    let switches = Switches::start(ANYWHERE[0], 1, wary());
    let mut stranger = Peer::of(switches.address());
    let message = super::switch::framed("hello");
    let time = lasts(&mut stranger, &message, Duration::from_secs(20));
    assert!(time > Duration::from_secs(6), "{time:?}");
    assert!(time < Duration::from_secs(12), "{time:?}");
    assert_eq!(switches.closed(CloseReason::Unproven), 1);
}

#[test]
fn a_proven_peer_stays_as_long_as_it_keeps_its_connection_alive() {
    // The worker that handles the proving message may not be the owner of the connection.
    let switches = Switches::start(ANYWHERE[0], 2, wary());
    for message in ["prove me", "to 0 prove me", "to 1 prove me"] {
        let mut peer = Peer::of(switches.address());
        assert!(peer.asks(message).ends_with("prove me"));
        let time = lasts(&mut peer, b"\r\n\r\n", Duration::from_secs(4));
        assert!(time >= Duration::from_secs(4), "{message}: {time:?}");
        assert!(peer.asks("prove me").ends_with("prove me"));
    }
}

#[test]
fn a_trusted_peer_is_no_stranger_and_has_no_share() {
    let options = StreamOptions {
        max_per_peer: 2,
        policy: SharedPeerPolicy::new(PeerPolicy {
            trusted: ["127.0.0.1/32".parse().expect("a network")]
                .into_iter()
                .collect(),
            ..PeerPolicy::default()
        }),
        ..wary()
    };
    let policy = std::sync::Arc::clone(&options.policy);
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut peers: Vec<Peer> = (0..5).map(|_| Peer::of(switches.address())).collect();
    for peer in &mut peers {
        assert_eq!(peer.asks("hello"), "hello");
    }
    let time = lasts(&mut peers[0], b"\r\n\r\n", Duration::from_secs(3));
    assert!(time >= Duration::from_secs(3), "{time:?}");
    // New connections are subject to the new policy.
    policy.replace(PeerPolicy::default());
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::of(switches.address())).collect();
    assert_eq!(peers[0].asks("hello"), "hello");
    assert_eq!(peers[1].asks("hello"), "hello");
    peers[2].until_closed();
}
