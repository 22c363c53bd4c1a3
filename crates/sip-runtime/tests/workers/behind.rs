//! A worker that is behind serves the most urgent message first.

use super::script::{
    ANYWHERE, Answer, Blocked, Client, Script, address_of, await_count, options, udp_listener,
    workers,
};
use sip_runtime::{Options, Running, Runtime};
use sip_transport::overload::OverloadSettings;
use sip_transport::{Listener, Protocol};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Long enough: a worker is behind when messages have waited for 5 ms.
const LONG: Duration = Duration::from_millis(20);

#[test]
fn what_is_urgent_overtakes_what_waits() {
    for address in ANYWHERE {
        let options = Options {
            overload: Some(OverloadSettings::default()),
            ..options()
        };
        let (node, blocked) = Script::blockable(0);
        let mut blockable = Some(node);
        let running = Runtime::bind(vec![udp_listener(address)], workers(1), options)
            .expect("bind")
            .start(|_| blockable.take().expect("once"), &|_, _| Ok(()))
            .expect("start");
        let client = Client::read_by(address_of(&running), 0);
        let in_order = || {
            client.send("block");
            blocked.wait();
            // More than one batch, so that the urgent message is in a later one.
            let messages = (0..50).map(|number| format!("message {number}"));
            for message in messages.chain(["urgent".to_owned()]) {
                client.send(&message);
            }
            std::thread::sleep(LONG);
            blocked.release();
            (0..51).map(|_| client.receive()).collect::<Vec<_>>()
        };
        // The kernel starts to add timestamps a moment after the option is set.
        let overtaken = (0..50).map(|_| in_order()).find(|it| it[0] == "urgent");
        let overtaken = overtaken.expect("the urgent one comes first");
        let expected: Vec<String> = (0..50).map(|number| format!("message {number}")).collect();
        assert_eq!(overtaken[1..], expected, "a burst is served in its order");
        let stats = running.stats();
        running.stop();
        assert!(stats[0].shed.iter().all(|count| count.value() == 0));
    }
}

/// Messages of each connection, all urgent. One in the middle blocks the worker.
const MESSAGES: usize = 10;

#[test]
fn connections_are_not_read_beyond_the_bound_of_the_backlog() {
    let most_bytes = 16_384;
    let options = Options {
        overload: Some(OverloadSettings {
            most_bytes,
            ..OverloadSettings::default()
        }),
        ..options()
    };
    let listener = Listener {
        protocol: Protocol::Tcp,
        ..udp_listener(ANYWHERE[0])
    };
    let (node, blocked) = Script::blockable(0);
    let mut blockable = Some(node);
    let running = Runtime::bind(vec![listener], workers(1), options)
        .expect("bind")
        .start(|_| blockable.take().expect("once"), &|_, _| Ok(()))
        .expect("start");
    let server = address_of(&running);
    let urgent = |command: &str| format!("urgent {command} SIP/2.0\r\nContent-Length: 0\r\n\r\n");
    let mut messages = vec![urgent("echo"); MESSAGES];
    messages[MESSAGES / 2] = urgent("block");
    let connect = |_| TcpStream::connect(server).expect("connect");
    let mut connections: Vec<_> = (0..40).map(connect).collect();
    let mut send = |index: usize, bytes: &[u8]| connections[index].write_all(bytes).expect("send");
    // All connections become ready while the worker is blocked, so it finds them at once.
    send(0, messages[MESSAGES / 2].as_bytes());
    blocked.wait();
    (0..40).for_each(|index| send(index, messages.concat().as_bytes()));
    blocked.release();
    let mut longest = 0;
    for _ in 0..40 {
        blocked.wait();
        std::thread::sleep(LONG);
        longest = longest.max(running.stats()[0].backlog_bytes.value());
        blocked.release();
    }
    running.stop();
    let of_one_read = MESSAGES * (messages[0].len() + 128);
    assert!(longest > 0, "messages waited");
    assert!(longest <= (most_bytes + of_one_read) as u64, "{longest}");
}

/// Two workers, the second of which can be blocked.
fn two_workers(overload: OverloadSettings) -> (Running<Answer>, Blocked) {
    let options = Options {
        overload: Some(overload),
        ..options()
    };
    let (node, blocked) = Script::blockable(1);
    let mut blockable = Some(node);
    let node_of = |worker| match worker {
        1 => blockable.take().expect("once"),
        _ => Script::new(worker),
    };
    let running = Runtime::bind(vec![udp_listener(ANYWHERE[0])], workers(2), options)
        .expect("bind")
        .start(node_of, &|_, _| Ok(()))
        .expect("start");
    (running, blocked)
}

#[test]
fn what_is_urgent_overtakes_what_waits_of_what_was_handed_over() {
    let (running, blocked) = two_workers(OverloadSettings::default());
    let server = address_of(&running);
    let (client, other) = (Client::read_by(server, 0), Client::read_by(server, 1));
    other.send("block");
    blocked.wait();
    for number in 0..50 {
        client.send(&format!("to 1 message {number}"));
    }
    client.send("urgent to 1 urgent");
    let stats = running.stats();
    await_count(&stats[0].handed_over_out, 51);
    std::thread::sleep(LONG);
    blocked.release();
    assert_eq!(client.receive(), "worker 1: urgent");
    for number in 0..50 {
        assert_eq!(client.receive(), format!("worker 1: message {number}"));
    }
    running.stop();
    assert_eq!(stats[1].handed_over_in.value(), 51);
    assert!(stats[1].shed.iter().all(|count| count.value() == 0));
}

#[test]
fn hand_overs_are_not_taken_beyond_the_bound_of_the_backlog() {
    const HANDED_OVER: u64 = 200;
    let most_bytes = 16_384;
    let (running, blocked) = two_workers(OverloadSettings {
        most_bytes,
        ..OverloadSettings::default()
    });
    let server = address_of(&running);
    let (client, other) = (Client::read_by(server, 0), Client::read_by(server, 1));
    other.send("block");
    blocked.wait();
    for number in 0..HANDED_OVER {
        // Not in the first slice of the backlog: the counters are updated at the end of a slice.
        let text = if number == 40 { "block" } else { "message" };
        client.send(&format!("urgent to 1 {text}"));
    }
    let stats = running.stats();
    await_count(&stats[0].handed_over_out, HANDED_OVER);
    std::thread::sleep(LONG);
    blocked.release();
    blocked.wait();
    let waiting = stats[1].backlog_bytes.value();
    blocked.release();
    for _ in 1..HANDED_OVER {
        assert_eq!(client.receive(), "worker 1: message");
    }
    running.stop();
    assert!(waiting > 0, "messages waited");
    assert!(waiting <= most_bytes as u64 + 200, "{waiting}");
}
