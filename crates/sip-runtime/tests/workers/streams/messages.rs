//! Messages in streams, cut at any byte.

use super::peer::Peer;
use super::switch::{Switches, framed};
use crate::workers::script::{ANYWHERE, PATIENCE, await_count};
use sip_runtime::StreamOptions;
use std::io::Read;
use std::time::Instant;

#[test]
fn each_message_is_answered_on_its_connection() {
    for address in ANYWHERE {
        for count in [1, 3] {
            let switches = Switches::start(address, count, StreamOptions::default());
            let mut peers: Vec<Peer> = (0..50).map(|_| Peer::of(switches.address())).collect();
            for (number, peer) in peers.iter_mut().enumerate() {
                for round in 0..5 {
                    let text = format!("{round} of {number}");
                    assert_eq!(peer.asks(&text), text);
                }
            }
        }
    }
}

#[test]
fn messages_come_whole_wherever_the_stream_is_cut() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.stream.set_nodelay(true).expect("no delay");
    let two = [framed("one"), framed("two")].concat();
    for cut in 1..two.len() {
        peer.send(&two[..cut]);
        peer.send(&two[cut..]);
        assert_eq!([peer.receive(), peer.receive()], ["one", "two"], "{cut}");
    }
}

#[test]
fn a_thousand_messages_in_one_write_and_one_message_in_a_thousand() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.stream.set_nodelay(true).expect("no delay");
    let many: Vec<u8> = (0..1_000)
        .flat_map(|number| framed(&number.to_string()))
        .collect();
    peer.send(&many);
    for number in 0..1_000 {
        assert_eq!(peer.receive(), number.to_string());
    }
    let text = "x".repeat(1_000);
    for octet in framed(&text) {
        peer.send(&[octet]);
    }
    assert_eq!(peer.receive(), text);
}

#[test]
fn a_double_crlf_is_answered_with_one() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.send(b"\r\n\r\n");
    let mut pong = [0; 2];
    peer.stream.read_exact(&mut pong).expect("a pong");
    assert_eq!(&pong, b"\r\n");
    assert_eq!(peer.asks("still there"), "still there");
    assert_eq!(switches.running.stats()[0].pings.value(), 1);
}

#[test]
fn what_another_worker_has_for_a_connection_goes_over_it() {
    let switches = Switches::start(ANYWHERE[0], 2, StreamOptions::default());
    let begun = Instant::now();
    let mut seen = [false; 2];
    // The kernel chooses the worker that accepts.
    while seen != [true; 2] {
        assert!(begun.elapsed() < PATIENCE);
        let mut peer = Peer::of(switches.address());
        let owner = peer.asks("who");
        let owner: u16 = owner
            .strip_prefix("worker ")
            .and_then(|own| own.parse().ok())
            .expect("a worker");
        let other = 1 - owner;
        assert_eq!(
            peer.asks(&format!("to {other} hello")),
            format!("worker {other}: hello")
        );
        seen[usize::from(owner)] = true;
    }
}

#[test]
fn what_is_too_much_for_the_socket_waits_and_arrives_in_order() {
    let options = StreamOptions {
        max_queue: 16 << 20,
        max_held_per_peer: 16 << 20,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut peer = Peer::of(switches.address());
    for number in 0..200 {
        peer.send(&framed("large 60000"));
        peer.send(&framed(&number.to_string()));
    }
    await_count(&switches.running.stats()[0].stream_messages_sent, 400);
    for number in 0..200 {
        assert_eq!(peer.receive().len(), 60_000);
        assert_eq!(peer.receive(), number.to_string());
    }
}
