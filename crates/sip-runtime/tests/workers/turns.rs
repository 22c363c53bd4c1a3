//! Many connections that are ready at once do not starve other work.

use super::script::{
    ANYWHERE, Answer, Blocked, Client, Script, await_count, options, udp_listener, workers,
};
use sip_runtime::{Options, Running, Runtime};
use sip_transport::overload::OverloadSettings;
use sip_transport::{Listener, Protocol};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Longer than connections are served in one round, and longer than messages may wait before their worker is behind.
const LONG: Duration = Duration::from_millis(20);

/// A worker that can be blocked, with a listener for datagrams and one for connections.
fn start(options: Options) -> (Running<Answer>, Blocked) {
    let datagrams = udp_listener(ANYWHERE[0]);
    let streams = Listener {
        protocol: Protocol::Tcp,
        ..udp_listener(ANYWHERE[0])
    };
    let (node, blocked) = Script::blockable(0);
    let mut blockable = Some(node);
    let running = Runtime::bind(vec![datagrams, streams], workers(1), options)
        .expect("bind")
        .start(|_| blockable.take().expect("once"), &|_, _| Ok(()))
        .expect("start");
    (running, blocked)
}

/// Opens connections to a blocked worker, each with this message. The worker finds all of them ready at once.
fn all_ready(
    (running, blocked): (&Running<Answer>, &Blocked),
    client: &Client,
    count: u64,
    command: &str,
) -> Vec<TcpStream> {
    let server = running.listeners()[1].address;
    let connect = |_| TcpStream::connect(server).expect("connect");
    let mut connections: Vec<TcpStream> = (0..count).map(connect).collect();
    await_count(&running.stats()[0].connections_accepted, count);
    client.send("block");
    blocked.wait();
    let message = format!("{command} SIP/2.0\r\nContent-Length: 0\r\n\r\n");
    for connection in &mut connections {
        connection.write_all(message.as_bytes()).expect("send");
    }
    blocked.release();
    connections
}

#[test]
fn datagrams_have_their_turn_while_connections_are_ready() {
    // Several times the number of descriptors that an event loop reports at a time.
    const CONNECTIONS: u64 = 300;
    // A ring reports datagrams in one round, reads them in the next and sends the answers in the one after that.
    const ROUNDS: u64 = 4;
    let (running, blocked) = start(options());
    let client = Client::of(running.listeners()[0].address);
    let _connections = all_ready((&running, &blocked), &client, CONNECTIONS, "block");
    blocked.wait();
    client.send("hello");
    for round in 1..=ROUNDS {
        // Each connection takes longer than a turn.
        std::thread::sleep(LONG);
        blocked.release();
        if round < ROUNDS {
            blocked.wait();
        }
    }
    assert_eq!(client.receive(), "hello");
    for _ in ROUNDS..CONNECTIONS {
        blocked.wait();
        blocked.release();
    }
    running.stop();
}

#[test]
fn what_waits_has_its_turn_after_every_eight_connections() {
    const CONNECTIONS: u64 = 20;
    let (running, blocked) = start(Options {
        overload: Some(OverloadSettings::default()),
        ..options()
    });
    let client = Client::of(running.listeners()[0].address);
    let ready = (&running, &blocked);
    let _connections = all_ready(ready, &client, CONNECTIONS, "urgent block");
    // The first message is served at once. By then, the others have waited too long.
    blocked.wait();
    std::thread::sleep(LONG);
    blocked.release();
    blocked.wait();
    let received = running.stats()[0].stream_messages_received.value();
    assert!(received <= 1 + 8, "{received} read before one was served");
    for _ in 2..CONNECTIONS {
        blocked.release();
        blocked.wait();
    }
    blocked.release();
    running.stop();
}
