//! Echoes datagrams.

use super::script::{
    ANYWHERE, Client, Script, address_of, await_count, options, start, udp_listener, workers,
};
use sip_runtime::{Options, Runtime, WorkerStats};
use std::time::{Duration, Instant};

fn total(stats: &[std::sync::Arc<WorkerStats>], figure: impl Fn(&WorkerStats) -> u64) -> u64 {
    stats.iter().map(|stats| figure(stats)).sum()
}

fn check_echo(address: &str, count: u16) {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 20;
    let running = start(address, count, options());
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| Client::of(address_of(&running)))
        .collect();
    for round in 0..ROUNDS {
        for client in &clients {
            client.send(&format!("datagram {round} of {}", client.address()));
        }
    }
    for client in &clients {
        for round in 0..ROUNDS {
            assert_eq!(
                client.receive(),
                format!("datagram {round} of {}", client.address())
            );
        }
    }
    let stats = running.stats();
    assert_eq!(stats.len(), usize::from(count));
    assert!(stats.iter().all(|stats| stats.rounds.value() > 0));
    running.stop();
    let datagrams = (CLIENTS * ROUNDS) as u64;
    assert_eq!(
        total(&stats, |stats| stats.datagrams_received.value()),
        datagrams
    );
    assert_eq!(
        total(&stats, |stats| stats.datagrams_sent.value()),
        datagrams
    );
    let bytes = total(&stats, |stats| stats.bytes_received.value());
    assert_eq!(total(&stats, |stats| stats.bytes_sent.value()), bytes);
    assert!(bytes > 20 * datagrams);
    assert!(
        stats
            .iter()
            .all(|stats| stats.datagrams_received.value() > 0),
        "every worker reads"
    );
}

#[test]
fn every_datagram_is_answered_in_order_by_one_worker() {
    for address in ANYWHERE {
        check_echo(address, 1);
    }
}

#[test]
fn every_datagram_is_answered_in_order_by_four_workers() {
    for address in ANYWHERE {
        check_echo(address, 4);
    }
}

#[test]
fn what_arrives_before_the_start_is_answered_after_it() {
    for address in ANYWHERE {
        let bound =
            Runtime::bind(vec![udp_listener(address)], workers(2), options()).expect("bind");
        let clients: Vec<Client> = (0..20)
            .map(|_| Client::of(bound.listeners()[0].address))
            .collect();
        for client in &clients {
            client.send("early");
        }
        let running = bound.start(Script::new, &|_, _| Ok(())).expect("start");
        assert!(clients.iter().all(|client| client.receive() == "early"));
        running.stop();
    }
}

#[test]
fn what_is_answered_in_the_last_round_leaves() {
    let (node, blocked) = Script::blockable(0);
    let mut node = Some(node);
    let listeners = [ANYWHERE[0], ANYWHERE[0]].map(udp_listener);
    let bound = Runtime::bind(listeners.into(), workers(1), options()).expect("bind");
    let [client, blocking] = [0, 1].map(|index| Client::of(bound.listeners()[index].address));
    // Both datagrams are queued when the worker starts, so it handles both in its first round.
    client.send("last words");
    blocking.send("block");
    let running = bound
        .start(|_| node.take().expect("one worker"), &|_, _| Ok(()))
        .expect("start");
    blocked.wait();
    let stopping = std::thread::spawn(move || running.stop());
    std::thread::sleep(Duration::from_millis(100));
    blocked.release();
    stopping.join().expect("stopped");
    assert_eq!(client.receive(), "last words");
}

#[test]
fn answers_leave_through_the_listener_that_was_asked() {
    let listeners = ANYWHERE
        .iter()
        .chain(&ANYWHERE)
        .map(|address| udp_listener(address))
        .collect();
    let running = Runtime::bind(listeners, workers(2), options())
        .expect("bind")
        .start(Script::new, &|_, _| Ok(()))
        .expect("start");
    // A connected socket receives from its peer only.
    let clients: Vec<Client> = running
        .listeners()
        .iter()
        .map(|listener| Client::of(listener.address))
        .collect();
    assert_eq!(clients.len(), 4);
    for client in &clients {
        client.send("one");
        client.send("two");
    }
    assert!(
        clients
            .iter()
            .all(|client| client.receive() == "one" && client.receive() == "two")
    );
    running.stop();
}

#[test]
fn a_listener_that_is_never_quiet_does_not_starve_another() {
    let listeners = [ANYWHERE[0], ANYWHERE[0]].map(udp_listener);
    let running = Runtime::bind(listeners.into(), workers(1), options())
        .expect("bind")
        .start(Script::new, &|_, _| Ok(()))
        .expect("start");
    let [busy, quiet] = [0, 1].map(|index| running.listeners()[index].address);
    let (storm, client) = (Client::of(busy), Client::of(quiet));
    assert_eq!(client.asks("before"), "before");
    let stats = running.stats();
    // From now on the node keeps the first listener's socket filled on its own.
    for _ in 0..10 {
        storm.send(&format!("storm {}", busy.port()));
    }
    await_count(&stats[0].datagrams_received, 1_000);
    let waits = stats[0].waits.value();
    assert_eq!(client.asks("during"), "during");
    assert_eq!(stats[0].waits.value(), waits, "it never slept meanwhile");
    running.stop();
}

#[test]
fn the_longest_datagram_comes_back_whole() {
    for (address, length) in ANYWHERE.into_iter().zip([65_507, 65_527]) {
        let running = start(address, 1, options());
        let client = Client::of(address_of(&running));
        let sent: Vec<u8> = (0..length)
            .map(|index: u32| b'a' + (index % 23) as u8)
            .collect();
        client.0.send(&sent).expect("send");
        let mut buffer = vec![0; 70_000];
        let received = client.0.recv(&mut buffer).expect("an answer");
        assert!(buffer[..received] == sent);
        running.stop();
    }
}

#[test]
fn datagrams_that_the_kernel_drops_are_counted() {
    for address in ANYWHERE {
        let (node, blocked) = Script::blockable(0);
        let mut node = Some(node);
        let options = Options {
            receive_buffer: 4_096,
            ..options()
        };
        let running = Runtime::bind(vec![udp_listener(address)], workers(1), options)
            .expect("bind")
            .start(|_| node.take().expect("one worker"), &|_, _| Ok(()))
            .expect("start");
        let client = Client::of(address_of(&running));
        client.send("block");
        blocked.wait();
        for _ in 0..200 {
            client.send("one of more than fit");
        }
        blocked.release();
        await_count(&running.stats()[0].kernel_drops, 1);
        running.stop();
    }
}

/// Sends a worker messages that keep it busy for `busy` each, `idle` after the answer to the previous one, until it has paused or
/// half a second has passed. Returns whether it has paused.
fn pauses(gather: Duration, busy: Duration, idle: Duration) -> bool {
    let options = Options {
        gather,
        ..options()
    };
    let running = start(ANYWHERE[0], 1, options);
    let client = Client::of(address_of(&running));
    let sent = format!("work {}", busy.as_micros());
    let (begun, stats) = (Instant::now(), running.stats());
    while begun.elapsed() < Duration::from_millis(500) && stats[0].pauses.value() == 0 {
        client.send(&sent);
        assert_eq!(client.receive(), sent);
        std::thread::sleep(idle);
    }
    running.stop();
    stats[0].pauses.value() > 0
}

#[test]
fn a_busy_worker_pauses_and_answers_all_the_same() {
    let (busy, idle) = (Duration::from_millis(20), Duration::ZERO);
    assert!(pauses(Duration::from_millis(10), busy, idle));
    assert!(!pauses(Duration::ZERO, busy, idle));
}

#[test]
fn a_worker_that_is_idle_most_of_the_time_never_pauses() {
    let (busy, idle) = (Duration::from_micros(200), Duration::from_millis(2));
    assert!(!pauses(Duration::from_millis(10), busy, idle));
}

#[test]
fn a_worker_is_pinned_to_its_cpu() {
    let running = start(
        ANYWHERE[0],
        2,
        Options {
            cpus: vec![0],
            ..options()
        },
    );
    for worker in 0..2 {
        assert_eq!(
            Client::read_by(address_of(&running), worker).asks("cpus"),
            "0"
        );
    }
    running.stop();
}
