//! Incomplete messages and queued messages take bounded memory, however many connections they are spread over.

use super::authority::Authority;
use super::peer::{Peer, accepted};
use super::secure_peer::{NAME, client_over, trusting, with_tls};
use super::switch::{Switches, framed};
use crate::workers::script::{ANYWHERE, eventually};
use sip_runtime::{CloseReason, StreamOptions};
use sip_transport::Protocol;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

/// The start of a message that is never completed.
fn beginning(octets: usize) -> Vec<u8> {
    let mut bytes = b"MESSAGE sip:switch SIP/2.0\r\nContent-Length: 60000\r\n\r\n".to_vec();
    bytes.resize(octets, b'x');
    bytes
}

/// Bytes of memory that incomplete messages take.
fn partial(switches: &Switches) -> u64 {
    switches.running.stats()[0].partial_octets.value()
}

#[test]
fn one_address_fills_no_memory_with_beginnings_however_many_connections_it_has() {
    const SHARE: usize = 256 << 10;
    let options = StreamOptions {
        max_held_per_peer: SHARE,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut other = Peer::from_another_address(switches.address());
    assert_eq!(other.asks("before"), "before");
    // Half of a large message on each of a hundred connections: 3 MB.
    let mut greedy: Vec<Peer> = (0..100).map(|_| Peer::of(switches.address())).collect();
    for peer in &mut greedy {
        // Some are closed while others still write.
        let _ = peer.stream.write_all(&beginning(30_000));
    }
    let closed = || switches.closed(CloseReason::Memory) > 80;
    eventually(closed);
    // The excess is visible until a connection is closed for it.
    eventually(|| partial(&switches) <= SHARE as u64);
    // Another address has its own share.
    let large = "y".repeat(50_000);
    let message = framed(&large);
    let (begin, end) = message.split_at(30_000);
    other.send(begin);
    other.send(end);
    assert_eq!(other.receive(), large);
}

#[test]
fn the_message_that_has_been_incomplete_for_longest_goes_first() {
    let options = StreamOptions {
        max_partial: 100_000,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut slow: Vec<Peer> = Vec::new();
    for number in 1..=3 {
        let mut peer = Peer::of(switches.address());
        peer.send(&beginning(30_000));
        slow.push(peer);
        eventually(|| partial(&switches) >= number * 30_000);
    }
    let mut quick = Peer::from_another_address(switches.address());
    let message = framed(&"z".repeat(30_000));
    let (begin, end) = message.split_at(25_000);
    quick.send(begin);
    switches.await_closed(CloseReason::Memory, 1);
    quick.send(end);
    assert_eq!(quick.receive().len(), 30_000);
    slow.remove(0).until_closed();
    assert_eq!(switches.closed(CloseReason::Memory), 1);
}

#[test]
fn what_was_incomplete_gives_its_memory_back() {
    let switches = Switches::start(ANYWHERE[0], 1, StreamOptions::default());
    let mut peer = Peer::of(switches.address());
    let message = framed(&"z".repeat(50_000));
    let (begin, end) = message.split_at(25_000);
    peer.send(begin);
    eventually(|| partial(&switches) >= 25_000);
    // At most twice what has arrived, whatever length was announced.
    assert!(partial(&switches) <= 50_100, "{}", partial(&switches));
    peer.send(end);
    assert_eq!(peer.receive().len(), 50_000);
    eventually(|| partial(&switches) == 0);
    peer.send(begin);
    eventually(|| partial(&switches) >= 25_000);
    drop(peer);
    eventually(|| partial(&switches) == 0);
}

#[test]
fn one_address_fills_no_memory_with_what_it_does_not_read() {
    const SHARE: usize = 1 << 20;
    let options = StreamOptions {
        max_held_per_peer: SHARE,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut deaf: Vec<Peer> = (0..20).map(|_| Peer::of(switches.address())).collect();
    for _ in 0..100 {
        for peer in &mut deaf {
            let _ = peer.stream.write_all(&framed("large 60000"));
        }
    }
    let stats = &switches.running.stats()[0];
    eventually(|| stats.stream_queue_full.value() > 0);
    let queued = stats.queued_octets.value();
    assert!(queued <= (SHARE + (128 << 10)) as u64, "{queued}");
}

#[test]
fn strangers_that_do_not_read_leave_room_for_connections_that_we_open() {
    const POOL: usize = 512 << 10;
    const DEAF: usize = 24;
    const MESSAGE: usize = 2_000;
    let minute = Duration::from_secs(60);
    let options = StreamOptions {
        max_queue: 64 << 10,
        max_queued: POOL,
        max_held_per_peer: 64 << 20,
        unproven_timeout: Some(minute),
        write_timeout: minute,
        ..StreamOptions::default()
    };
    let switches = Switches::start(ANYWHERE[0], 1, options);
    let mut deaf: Vec<Peer> = (0..DEAF)
        .map(|_| Peer::with_a_small_buffer(switches.address()))
        .collect();
    let ask = framed(&format!("large {MESSAGE}")).repeat(500);
    let stats = &switches.running.stats()[0];
    let queued = || stats.queued_octets.value() as usize;
    let share = POOL / 4 * 3;
    // Each is read until half a queue waits for it, so together they could fill the pool.
    let mut rounds = 0;
    while queued() + 2 * MESSAGE < share {
        rounds += 1;
        assert!(rounds < 20, "{} of {share} octets wait", queued());
        for peer in &mut deaf {
            // Some are closed while others still write.
            let _ = peer.stream.write_all(&ask);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for peer in &mut deaf {
        let _ = peer.stream.write_all(&ask);
    }
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        assert!(queued() <= share, "{} of {share} octets wait", queued());
    }
    let callee = TcpListener::bind(ANYWHERE[0]).expect("bind");
    let to = callee.local_addr().expect("address");
    let text = "y".repeat(50_000);
    let mut caller = Peer::from_another_address(switches.address());
    caller.send(&framed(&format!("dial {to} {text}")));
    assert_eq!(Peer::over(accepted(&callee)).receive(), text);
}

#[test]
fn what_is_encrypted_and_not_read_stays_within_the_same_bound() {
    const POOL: usize = 512 << 10;
    const DEAF: usize = 24;
    let minute = Duration::from_secs(60);
    let authority = Authority::new();
    let options = StreamOptions {
        max_queued: POOL,
        max_held_per_peer: 64 << 20,
        unproven_timeout: Some(minute),
        write_timeout: minute,
        ..StreamOptions::default()
    };
    let options = with_tls(authority.context(&[&[NAME]]), options);
    let switches = Switches::speaking(Protocol::Tls, options);
    let config = trusting(authority.roots(), None);
    let mut deaf: Vec<_> = (0..DEAF)
        .map(|_| Peer::with_a_small_buffer(switches.address()).stream)
        .map(|stream| client_over(stream, &config))
        .collect();
    // Each answer is encrypted at once, and the socket accepts little of it.
    let ask = framed("large 60000").repeat(60);
    let stats = &switches.running.stats()[0];
    for _ in 0..20 {
        for peer in &mut deaf {
            // Some are closed while others still write.
            let _ = peer.write_all(&ask);
        }
        let queued = stats.queued_octets.value() as usize;
        assert!(queued <= POOL / 4 * 3, "{queued} octets wait");
    }
    switches.await_closed(CloseReason::Memory, 1);
}
