//! Messages whose connection ends.

use super::peer::{Peer, accepted, reset_at_the_end};
use super::switch::{Switches, framed, impatient};
use crate::workers::script::ANYWHERE;
use sip_runtime::{Aliases, CloseReason, StreamOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn what_is_sent_over_a_connection_that_was_reset_is_undeliverable() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.send(&framed("sleep 300 late"));
    reset_at_the_end(&peer.stream);
    drop(peer);
    assert_eq!(switches.question(), "undeliverable: late");
    switches.await_closed(CloseReason::Failed, 1);
}

#[test]
fn the_node_learns_of_the_end_of_a_connection_whichever_side_ends_it() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let connect = || {
        let mut peer = Peer::of(switches.address());
        assert_eq!(peer.asks("watch me"), "watch me");
        peer
    };
    drop(connect());
    assert_eq!(switches.question(), "ended");
    let reset = connect();
    reset_at_the_end(&reset.stream);
    drop(reset);
    assert_eq!(switches.question(), "ended");
    let mut closed = connect();
    closed.send(&framed("close it"));
    assert_eq!(switches.question(), "ended");
    let mut nonsense = connect();
    nonsense.send(b"nonsense\r\n\r\n");
    drop(nonsense);
    assert_eq!(switches.question(), "ended");
}

#[test]
fn a_flow_with_another_address_than_that_of_its_connection_leads_nowhere() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.send(&framed("beside it"));
    assert_eq!(switches.question(), "undeliverable: it");
    assert_eq!(peer.asks("still mine"), "still mine");
}

#[test]
fn who_talks_nonsense_gets_what_waited_and_then_the_end() {
    let options = StreamOptions {
        max_queue: 64 << 20,
        max_held_per_peer: 64 << 20,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut peer = Peer::of(switches.address());
    for _ in 0..200 {
        peer.send(&framed("large 60000"));
    }
    peer.send(b"nonsense\r\n\r\n");
    let begun = Instant::now();
    let octets = peer.until_closed();
    assert!(octets.len() > 200 * 60_000);
    assert!(begun.elapsed() < Duration::from_secs(2));
    drop(peer);
    switches.await_closed(CloseReason::NotSip, 1);
    assert_eq!(switches.running.stats()[0].undeliverable.value(), 0);
}

#[test]
fn a_connection_that_the_node_closes_ends_behind_what_was_sent() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    peer.send(&framed("close it"));
    assert_eq!(peer.until_closed(), framed("close it"));
    switches.await_closed(CloseReason::ByNode, 1);
    assert_eq!(switches.running.stats()[0].undeliverable.value(), 0);
}

#[test]
fn a_leaving_connection_gets_no_new_messages() {
    let options = StreamOptions {
        aliases: Aliases::All,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let callee = TcpListener::bind(ANYWHERE[0]).expect("bind");
    let address = callee.local_addr().expect("an address");
    let mut peer = Peer::of(switches.address());
    peer.asks(&format!("alias {}", address.port()));
    let mut caller = Peer::of(switches.address());
    caller.send(&framed(&format!("dial {address} over the alias")));
    assert_eq!(peer.receive(), "over the alias");
    peer.send(b"nonsense\r\n\r\n");
    assert!(peer.until_closed().is_empty());
    caller.send(&framed(&format!("dial {address} over another")));
    assert_eq!(Peer::on(accepted(&callee)).receive(), "over another");
}

#[test]
fn the_answer_to_a_message_that_ends_its_connection_arrives_whatever_follows_it() {
    let bad = b"MESSAGE sip:switch SIP/2.0\r\nContent-Length: 5x\r\n\r\nwrong".to_vec();
    let large = b"MESSAGE sip:switch SIP/2.0\r\nContent-Length: 999999\r\n\r\ntoo large".to_vec();
    for message in [bad, large] {
        let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
        let mut peer = Peer::of(switches.address());
        let mut writer = peer.stream.try_clone().expect("a second end");
        let writing = std::thread::spawn(move || {
            let _ = writer.write_all(&message);
            std::thread::sleep(Duration::from_millis(100));
            for _ in 0..100 {
                let _ = writer.write_all(&[b'x'; 10_000]);
            }
        });
        let answer = peer.receive();
        assert!(
            ["wrong", "too large"].contains(&answer.as_str()),
            "{answer}"
        );
        writing.join().expect("it writes");
        // The connection ends normally, without a reset.
        let mut rest = Vec::new();
        peer.stream.read_to_end(&mut rest).expect("the end");
    }
}

#[test]
fn half_a_message_has_its_deadline_also_after_its_peer_has_read() {
    let options = StreamOptions {
        max_queue: 16 << 20,
        max_held_per_peer: 16 << 20,
        idle_timeout: Duration::from_secs(3_600),
        ..impatient()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut peer = Peer::of(switches.address());
    for _ in 0..100 {
        peer.send(&framed("large 60000"));
    }
    peer.send(&framed("half")[..40]);
    for _ in 0..100 {
        assert_eq!(peer.receive().len(), 60_000);
    }
    assert!(peer.until_closed().is_empty());
    switches.await_closed(CloseReason::HalfMessage, 1);
}
