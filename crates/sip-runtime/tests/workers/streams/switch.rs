//! The node of these tests, whose commands are in the bodies of messages.

use crate::workers::script::{ANYWHERE, PATIENCE, await_count, workers};
use sip_message::Message;
use sip_runtime::{CloseReason, Options, Running, Runtime, StreamOptions};
use sip_transport::{Flow, Input, Listener, Node, Output, Protocol, Received, Time};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A message with this body, as sent over a stream.
pub fn framed(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("MESSAGE sip:switch SIP/2.0\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A node that executes the command in each message:
///
/// - `who`: answers `worker N`;
/// - `opened`: answers who opened the connection, `by us` or `by the peer`;
/// - `to N …`: hands the message over to worker N, which answers `worker N: …`;
/// - `dial ADDRESS …`: sends `…` to that address;
/// - `dial ADDRESS/NAME …`: the same, and the peer must prove that name;
/// - `alias PORT`: registers that port as an alias of the connection, and echoes the message;
/// - `beside …`: answers over the same connection, but to the port next to the peer's;
/// - `watch …`: echoes the message, and asks the question `ended` when the connection ends;
/// - `prove …`: echoes the message, and marks the peer as proven, even if another worker handed the message over;
/// - `close …`: echoes the message, and closes the connection;
/// - `sleep MS …`: blocks its worker for that long, then answers `…`;
/// - `large N`: answers with N bytes;
/// - anything else: echoes the message.
///
/// It asks a question for each undeliverable message: its text after `undeliverable: `.
#[derive(Debug)]
pub struct Switch(u16, Vec<Flow>);

impl Switch {
    /// The switch of a worker.
    const fn new(worker: u16) -> Self {
        Self(worker, Vec::new())
    }

    fn obey(&mut self, now: Time, flow: Flow, bytes: &[u8], output: &mut Output<String>) {
        let message = Message::parse(bytes).expect("framed");
        let text = std::str::from_utf8(message.body()).expect("text");
        let words: Vec<&str> = text.splitn(3, ' ').collect();
        let mut say = |flow, text: &str| {
            output.send(flow, |into| into.extend(framed(text)));
        };
        match words.as_slice() {
            ["who"] => say(flow, &format!("worker {}", self.0)),
            ["to", worker, _] => {
                output.hand_over(worker.parse().expect("a worker"), now, flow, bytes);
            }
            ["dial", to, text] => {
                let (address, name) = to.split_once('/').unwrap_or((to, ""));
                let remote = address.parse().expect("an address");
                let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
                output.send_to(Flow::to(flow.listener, remote), name, |into| {
                    into.extend(framed(text));
                });
            }
            ["alias", port] => {
                say(flow, text);
                output.alias(flow.connection, port.parse().expect("a port"));
            }
            ["watch", _] => {
                self.1.push(flow);
                say(flow, text);
            }
            ["prove", _] => {
                say(flow, text);
                output.proven(flow.connection);
            }
            ["close", _] => {
                say(flow, text);
                output.close(flow.connection);
            }
            ["beside", text] => {
                let remote = SocketAddr::new(flow.remote.ip(), flow.remote.port() ^ 1);
                say(Flow { remote, ..flow }, text);
            }
            ["sleep", time, text] => {
                let time = time.parse().expect("milliseconds");
                std::thread::sleep(Duration::from_millis(time));
                say(flow, text);
            }
            ["large", length] => say(flow, &"x".repeat(length.parse().expect("a length"))),
            _ => say(flow, text),
        }
    }

    fn receive_one(&mut self, now: Time, received: &Received<'_>, output: &mut Output<String>) {
        let (flow, bytes) = (received.flow, received.bytes);
        if received.handed_over {
            self.receive_handed_over(flow, bytes, output);
        } else if bytes.ends_with(b"\r\n\r\nopened") {
            let whose = ["by the peer", "by us"][usize::from(received.over_our_connection)];
            output.send(flow, |into| into.extend(framed(whose)));
        } else if Message::parse(bytes).is_ok() {
            self.obey(now, flow, bytes, output);
        }
    }

    fn receive_handed_over(&self, flow: Flow, bytes: &[u8], output: &mut Output<String>) {
        let message = Message::parse(bytes).expect("framed");
        let text = std::str::from_utf8(message.body()).expect("text");
        let rest = text.splitn(3, ' ').nth(2).unwrap_or_default();
        let answer = format!("worker {}: {rest}", self.0);
        if rest.starts_with("prove") {
            output.proven(flow.connection);
        }
        output.send(flow, |into| into.extend(framed(&answer)));
    }
}

impl Node for Switch {
    type Question = String;
    type Record = std::convert::Infallible;
    type Control = ();

    fn handle(&mut self, now: Time, input: Input<'_, ()>, output: &mut Output<String>) {
        match input {
            Input::Received(received) => self.receive_one(now, &received, output),
            Input::Undeliverable(undelivered) => {
                let message = Message::parse(undelivered.bytes).expect("framed");
                let text = String::from_utf8_lossy(message.body());
                output.ask(format!("undeliverable: {text}"));
            }
            Input::ConnectionEnded(flow) => {
                if self.1.contains(&flow) {
                    output.ask("ended".to_owned());
                }
            }
            Input::Control(()) => {}
        }
    }

    fn expire(&mut self, _: Time, _: &mut Output<String>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Running switches and their questions.
pub struct Switches {
    pub running: Running<()>,
    questions: Receiver<String>,
}

impl Switches {
    pub fn start(address: &str, count: u16, streams: StreamOptions) -> Self {
        Self::listening(vec![listener(Protocol::Tcp, address)], count, streams)
    }

    pub fn speaking(protocol: Protocol, streams: StreamOptions) -> Self {
        Self::listening(vec![listener(protocol, ANYWHERE[0])], 1, streams)
    }

    /// Switches behind a load balancer that announces the peers (PROXY protocol).
    pub fn behind_balancer(address: &str, streams: StreamOptions) -> Self {
        let listener = Listener {
            behind_balancer: true,
            ..listener(Protocol::Tcp, address)
        };
        Self::listening(vec![listener], 1, streams)
    }

    pub fn listening(listeners: Vec<Listener>, count: u16, streams: StreamOptions) -> Self {
        let options = Options {
            event_loop: crate::EVENT_LOOP,
            streams,
            ..Options::default()
        };
        let (sender, questions) = channel();
        let running = Runtime::bind(listeners, workers(count), options)
            .expect("bind")
            .start(Switch::new, &move |_, question| {
                sender.send(question).map_err(|error| error.0)
            })
            .expect("start");
        Self { running, questions }
    }

    /// How many connections one worker closed for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.running.stats()[0].connections_closed[reason as usize].value()
    }

    pub fn await_closed(&self, reason: CloseReason, count: u64) {
        await_count(
            &self.running.stats()[0].connections_closed[reason as usize],
            count,
        );
    }

    /// How many messages one worker has received.
    pub fn messages_received(&self) -> u64 {
        self.running.stats()[0].stream_messages_received.value()
    }

    pub fn address(&self) -> SocketAddr {
        self.running.listeners()[0].address
    }

    /// The next question of any worker.
    pub fn question(&self) -> String {
        self.questions.recv_timeout(PATIENCE).expect("a question")
    }
}

pub fn listener(protocol: Protocol, address: &str) -> Listener {
    Listener {
        protocol,
        address: address.parse().expect("an address"),
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    }
}

/// Timeouts of one second, short enough for tests.
pub fn impatient() -> StreamOptions {
    let second = Duration::from_secs(1);
    StreamOptions {
        open_timeout: second,
        silent_timeout: second,
        message_timeout: second,
        write_timeout: second,
        idle_timeout: second,
        ..StreamOptions::default()
    }
}
