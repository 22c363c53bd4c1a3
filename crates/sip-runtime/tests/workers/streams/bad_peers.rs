//! Misbehaving peers do not affect others.

use super::peer::{Peer, accepted, reset_at_the_end};
use super::switch::{Switches, framed, impatient};
use crate::workers::script::{ANYWHERE, await_count, eventually};
use sip_runtime::{CloseReason, RefuseReason, StreamOptions};
use std::io::Write;
use std::net::TcpStream;

/// Checks that these bytes close the peer's connection for this reason, and that another peer's
/// connection continues.
fn check_is_closed(octets: &[u8], options: StreamOptions, reason: CloseReason) {
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut other = Peer::of(switches.address());
    assert_eq!(other.asks("before"), "before");
    let mut peer = Peer::of(switches.address());
    // The connection may be closed while it still writes.
    let _ = peer.stream.write_all(octets);
    peer.until_closed();
    let stats = switches.running.stats();
    drop(peer);
    await_count(&stats[0].connections_closed[reason as usize], 1);
    if reason != CloseReason::Idle {
        assert_eq!(Peer::of(switches.address()).asks("after"), "after");
    }
}

#[test]
fn what_is_not_sip_ends_its_connection() {
    let http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for octets in [&http[..], tls, b"\0\0\0\0", b"\xff\xff\xff\xff\n"] {
        check_is_closed(octets, StreamOptions::default(), CloseReason::NotSip);
    }
}

#[test]
fn a_header_without_end_is_not_kept() {
    let mut octets = b"MESSAGE sip:switch SIP/2.0\r\nSubject: ".to_vec();
    octets.resize(1 << 20, b'x');
    check_is_closed(&octets, StreamOptions::default(), CloseReason::TooLong);
}

#[test]
fn a_body_that_is_announced_too_long_is_not_waited_for() {
    let octets = b"MESSAGE sip:switch SIP/2.0\r\nContent-Length: 65537\r\n\r\n";
    check_is_closed(octets, StreamOptions::default(), CloseReason::TooLong);
}

#[test]
fn a_content_length_that_makes_no_sense_ends_the_connection() {
    for length in [
        "Content-Length: 5x",
        "Content-Length: 4\r\nl: 5",
        "Subject: none",
    ] {
        let octets = format!("MESSAGE sip:switch SIP/2.0\r\n{length}\r\n\r\nbody");
        check_is_closed(
            octets.as_bytes(),
            StreamOptions::default(),
            CloseReason::BadLength,
        );
    }
}

#[test]
fn a_silent_peer_is_closed_by_deadline() {
    check_is_closed(b"", impatient(), CloseReason::Silent);
}

#[test]
fn a_peer_whose_first_message_comes_with_what_opens_the_connection_is_not_silent() {
    let switches = Switches::behind_balancer(ANYWHERE[0], impatient());
    let mut peer = Peer::of(switches.address());
    // The balancer opens the connection itself.
    let opening = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    peer.send(&[&opening[..], &framed("at once")].concat());
    assert_eq!(peer.receive(), "at once");
    peer.until_closed();
    let stats = switches.running.stats();
    await_count(&stats[0].connections_closed[CloseReason::Idle as usize], 1);
}

#[test]
fn half_a_message_is_closed_by_deadline() {
    let half = &framed("half")[..40];
    check_is_closed(half, impatient(), CloseReason::HalfMessage);
    let after_a_whole_one = [&framed("whole")[..], half].concat();
    check_is_closed(&after_a_whole_one, impatient(), CloseReason::HalfMessage);
}

#[test]
fn an_idle_connection_is_closed_by_deadline() {
    check_is_closed(&framed("once"), impatient(), CloseReason::Idle);
}

#[test]
fn a_peer_that_never_reads_is_bounded_and_closed_by_deadline() {
    let options = StreamOptions {
        max_queue: 1 << 20,
        ..impatient()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut greedy = Peer::of(switches.address());
    greedy
        .stream
        .set_write_timeout(Some(std::time::Duration::from_millis(500)))
        .expect("timeout");
    // Until the switch, whose output is not read, stops reading.
    let ask = framed("large 60000");
    while greedy.stream.write_all(&ask).is_ok() {}
    let mut other = Peer::of(switches.address());
    assert_eq!(other.asks("others go on"), "others go on");
    let stats = switches.running.stats();
    await_count(
        &stats[0].connections_closed[CloseReason::NotReading as usize],
        1,
    );
    // The switch has processed the messages of one last read, and none after it stopped reading.
    assert!(stats[0].stream_messages_received.value() < 10_000);
}

#[test]
fn a_message_for_a_peer_whose_queue_is_full_is_undeliverable() {
    let options = StreamOptions {
        max_queue: 64 << 10,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let deaf = Peer::of(switches.address());
    let to = deaf.stream.local_addr().expect("address");
    let mut caller = Peer::of(switches.address());
    let text = "y".repeat(30_000);
    for _ in 0..400 {
        caller.send(&framed(&format!("dial {to} {text}")));
    }
    assert_eq!(switches.question(), format!("undeliverable: {text}"));
    assert_eq!(caller.asks("others go on"), "others go on");
    assert!(switches.running.stats()[0].stream_queue_full.value() > 0);
}

#[test]
fn one_address_has_no_more_connections_than_it_may() {
    let options = StreamOptions {
        max_per_peer: 3,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 2, options);
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::of(switches.address())).collect();
    for peer in &mut peers {
        assert_eq!(peer.asks("mine"), "mine");
    }
    for _ in 0..100 {
        Peer::of(switches.address()).until_closed();
    }
    let stats = switches.running.stats();
    let refused = |stats: &std::sync::Arc<sip_runtime::WorkerStats>| {
        stats.connections_refused[RefuseReason::PeerLimit as usize].value()
    };
    // The last connection is counted after it has been closed.
    eventually(|| stats.iter().map(refused).sum::<u64>() == 100);
    for peer in &mut peers {
        assert_eq!(peer.asks("still mine"), "still mine");
    }
    drop(peers);
    eventually(|| stats.iter().all(|stats| stats.connections.value() == 0));
    assert_eq!(Peer::of(switches.address()).asks("again"), "again");
}

#[test]
fn fifty_thousand_connections_of_one_address_cost_others_nothing() {
    const MANY: u64 = 50_000;
    let options = StreamOptions {
        max_per_peer: 10,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let _own: Vec<Peer> = (0..10).map(|_| Peer::of(switches.address())).collect();
    let stats = &switches.running.stats()[0];
    await_count(&stats.connections_accepted, 10);
    let mut other = Peer::from_another_address(switches.address());
    for number in 0..MANY {
        let stream = TcpStream::connect(switches.address()).expect("connect");
        reset_at_the_end(&stream);
        if number % 5_000 == 0 {
            assert_eq!(other.asks("others go on"), "others go on");
        }
    }
    let refused = &stats.connections_refused[RefuseReason::PeerLimit as usize];
    eventually(|| refused.value() == MANY);
    assert_eq!(stats.connections.value(), 11);
}

#[test]
fn workers_take_no_more_connections_together_than_they_may() {
    let options = StreamOptions {
        max_connections: 5,
        kept_for_opening: 2,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 2, options);
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::of(switches.address())).collect();
    for peer in &mut peers {
        assert_eq!(peer.asks("mine"), "mine");
    }
    for _ in 0..20 {
        Peer::of(switches.address()).until_closed();
    }
    let stats = switches.running.stats();
    let refused = |stats: &std::sync::Arc<sip_runtime::WorkerStats>| {
        stats.connections_refused[RefuseReason::TableFull as usize].value()
    };
    eventually(|| stats.iter().map(refused).sum::<u64>() == 20);
    // Connections that the node opens have their own slots.
    let listener = std::net::TcpListener::bind(ANYWHERE[0]).expect("bind");
    let to = listener.local_addr().expect("address");
    peers[0].send(&framed(&format!("dial {to} hello")));
    let mut callee = Peer::over(accepted(&listener));
    assert_eq!(callee.receive(), "hello");
    drop(peers.pop());
    eventually(|| {
        let count = |stats: &std::sync::Arc<sip_runtime::WorkerStats>| stats.connections.value();
        stats.iter().map(count).sum::<u64>() == 3
    });
}
