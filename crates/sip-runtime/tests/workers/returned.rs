//! Datagrams that are returned as ICMP errors: the node is notified of each, and no other datagram is lost because of it.

use super::script::{ANYWHERE, Client, PATIENCE, await_count};
use super::streams::switch::{Switches, framed, listener};
use sip_runtime::{IcmpError, StreamOptions, WorkerStats};
use sip_transport::{Counter, Protocol};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

fn start(address: &str, workers: u16) -> Switches {
    let listeners = vec![listener(Protocol::Udp, address)];
    Switches::listening(listeners, workers, StreamOptions::default())
}

fn nobody(address: &str) -> SocketAddr {
    let socket = UdpSocket::bind(address).expect("bind");
    socket.local_addr().expect("address")
}

fn dial(to: SocketAddr, text: &str) -> String {
    String::from_utf8(framed(&format!("dial {to} {text}"))).expect("text")
}

fn closed_ports(stats: &WorkerStats) -> u64 {
    stats.icmp_errors[IcmpError::Port as usize].value()
}

#[test]
fn a_message_to_a_closed_port_is_undeliverable_at_once() {
    for address in ANYWHERE {
        let switches = start(address, 1);
        let caller = Client::of(switches.address());
        for number in 0..20_u64 {
            let begun = Instant::now();
            caller.send(&dial(nobody(address), &number.to_string()));
            assert_eq!(switches.question(), format!("undeliverable: {number}"));
            let took = begun.elapsed();
            assert!(took < Duration::from_millis(100), "{took:?}");
        }
        let stats = &switches.running.stats()[0];
        assert_eq!(closed_ports(stats), 20);
        let failures = [
            &stats.receive_errors,
            &stats.send_errors,
            &stats.send_unreachable,
        ];
        assert_eq!(failures.map(Counter::value), [0; 3]);
    }
}

#[test]
fn what_comes_back_takes_no_other_datagram_with_it() {
    for address in ANYWHERE {
        let switches = start(address, 1);
        let caller = Client::of(switches.address());
        let callee = UdpSocket::bind(address).expect("bind");
        callee.set_read_timeout(Some(PATIENCE)).expect("timeout");
        let (dead, alive) = (nobody(address), callee.local_addr().expect("address"));
        // All are read and sent together.
        caller.send(&String::from_utf8(framed("sleep 100 slept")).expect("text"));
        for number in 10..70 {
            caller.send(&dial(
                dead,
                &format!("dead {number} {}", "x".repeat(number)),
            ));
            caller.send(&dial(alive, &number.to_string()));
        }
        let mut buffer = [0; 2_000];
        let mut received = Vec::new();
        for _ in 10..70 {
            let length = callee.recv(&mut buffer).expect("a datagram");
            received.push(buffer[..length].to_vec());
        }
        // A ring may send a datagram later if it met the error of another one.
        received.sort_unstable();
        let numbers = (10..70).map(|number: i32| framed(&number.to_string()));
        assert_eq!(received, numbers.collect::<Vec<_>>());
        for _ in 10..70 {
            let question = switches.question();
            assert!(question.starts_with("undeliverable: dead "), "{question}");
        }
        let stats = &switches.running.stats()[0];
        assert_eq!(closed_ports(stats), 60);
        assert_eq!(
            stats.send_errors.value() + stats.send_unreachable.value(),
            0
        );
    }
}

#[test]
fn after_a_flood_of_errors_the_worker_rests() {
    for address in ANYWHERE {
        let switches = start(address, 1);
        let caller = Client::of(switches.address());
        let dead = nobody(address);
        for _ in 0..500 {
            caller.send(&dial(dead, "x"));
        }
        let stats = &switches.running.stats()[0];
        await_count(&stats.datagrams_received, 500);
        let begun = Instant::now();
        loop {
            let before = stats.rounds.value();
            std::thread::sleep(Duration::from_millis(100));
            let rounds = stats.rounds.value() - before;
            if rounds < 10 {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{rounds} rounds in 100 ms");
        }
        assert!(closed_ports(stats) > 0);
        caller.send(&String::from_utf8(framed("who")).expect("text"));
        assert!(caller.receive().ends_with("worker 0"));
    }
}

#[test]
fn one_of_several_workers_hears_of_it() {
    let switches = start(ANYWHERE[0], 3);
    for number in 0..10 {
        let caller = Client::of(switches.address());
        caller.send(&dial(nobody(ANYWHERE[0]), &number.to_string()));
        assert_eq!(switches.question(), format!("undeliverable: {number}"));
    }
}
