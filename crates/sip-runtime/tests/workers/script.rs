//! The node of these tests, whose datagrams contain its commands, and other shared test code.

use sip_runtime::{ControlPlane, Options, Running, Runtime};
use sip_transport::overload::Urgency;
use sip_transport::{Counter, Flow, Input, Listener, Node, Output, Protocol, Received, Time};
use std::convert::Infallible;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Longer than any operation takes on a working machine.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A node that executes the command in each datagram:
///
/// - `who`: answers `worker N`;
/// - `cpus`: answers with the CPUs that its thread may run on;
/// - `to N …`: hands the datagram over to worker N, which answers `worker N: …`;
/// - `to N block`: the same, but blocks worker N;
/// - `ask …`: asks the question `…`;
/// - `alarm MS`: MS milliseconds later, asks a question with the time the alarm was due and the
///   time it fired;
/// - `block`: blocks its worker until it is released;
/// - `restless`: from now on, always has a deadline that is due;
/// - `urgent COMMAND`: the command, as an urgent message;
/// - `work MICROSECONDS`: keeps its worker busy for that long, then echoes the datagram;
/// - `storm PORT`: sends the datagram to that port of the peer's address; it comes back if the port
///   is the node's own;
/// - anything else: echoes the datagram.
pub struct Script {
    worker: u16,
    alarms: Vec<Time>,
    is_restless: bool,
    block: Option<Box<dyn FnMut() + Send>>,
}

/// The questions of the scripted node.
#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    Text(String),
    Alarm { due: Time, told: Time },
}

/// The answers to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Sends these bytes.
    Send(Flow, Vec<u8>),
    /// Asks the question `worker N: …`.
    Ask(&'static str),
}

impl Script {
    pub fn new(worker: u16) -> Self {
        Self {
            worker,
            alarms: Vec::new(),
            is_restless: false,
            block: None,
        }
    }

    /// A node that calls `block` on the command `block`.
    pub fn blocking(worker: u16, block: impl FnMut() + Send + 'static) -> Self {
        Self {
            block: Some(Box::new(block)),
            ..Self::new(worker)
        }
    }

    /// A node that can be blocked, with the test's handle for it.
    pub fn blockable(worker: u16) -> (Self, Blocked) {
        let (blocking, blocked) = channel();
        let (release, released) = channel();
        let block = move || {
            blocking.send(()).expect("the test waits");
            released.recv().expect("the test releases");
        };
        (Self::blocking(worker, block), Blocked { blocked, release })
    }
}

/// The test's handle for a worker that can be blocked.
pub struct Blocked {
    blocked: Receiver<()>,
    release: Sender<()>,
}

impl Blocked {
    /// Waits until the worker is blocked.
    pub fn wait(&self) {
        self.blocked
            .recv_timeout(PATIENCE)
            .expect("the worker blocks");
    }

    /// Unblocks the worker.
    pub fn release(&self) {
        self.release.send(()).expect("the worker waits");
    }
}

impl Script {
    fn obey(&mut self, now: Time, flow: Flow, bytes: &[u8], output: &mut Output<Question>) {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let text = text.strip_prefix("urgent ").unwrap_or(text);
        let (command, rest) = text.split_once(' ').unwrap_or((text, ""));
        match command {
            "who" => say(output, flow, format!("worker {}", self.worker)),
            "cpus" => say(output, flow, allowed_cpus()),
            "to" => {
                let worker = rest
                    .split(' ')
                    .next()
                    .and_then(|worker| worker.parse().ok());
                output.hand_over(worker.expect("a worker"), now, flow, bytes);
            }
            "ask" => output.ask(Question::Text(rest.to_owned())),
            "alarm" => {
                self.alarms
                    .push(now + Duration::from_millis(rest.parse().expect("milliseconds")));
            }
            "restless" => self.is_restless = true,
            "storm" => {
                let port = rest.parse().expect("a port");
                let remote = SocketAddr::new(flow.remote.ip(), port);
                output.send(Flow { remote, ..flow }, |buffer| {
                    buffer.extend_from_slice(bytes);
                });
            }
            "work" => {
                let length = Duration::from_micros(rest.parse().expect("microseconds"));
                let begun = Instant::now();
                while begun.elapsed() < length {
                    std::hint::spin_loop();
                }
                output.send(flow, |buffer| buffer.extend_from_slice(bytes));
            }
            "block" => (self.block.as_mut().expect("blockable"))(),
            _ => {
                output.send(flow, |buffer| buffer.extend_from_slice(bytes));
            }
        }
    }

    fn receive_handed_over(&mut self, flow: Flow, bytes: &[u8], output: &mut Output<Question>) {
        let text = std::str::from_utf8(bytes).expect("text");
        let text = text.strip_prefix("urgent ").unwrap_or(text);
        match text.splitn(3, ' ').nth(2).unwrap_or_default() {
            "block" => (self.block.as_mut().expect("blockable"))(),
            rest => say(output, flow, format!("worker {}: {rest}", self.worker)),
        }
    }
}

impl Node for Script {
    type Question = Question;
    type Record = Infallible;
    type Control = Answer;

    fn handle(&mut self, now: Time, input: Input<'_, Answer>, output: &mut Output<Question>) {
        match input {
            Input::Received(message) if message.handed_over => {
                self.receive_handed_over(message.flow, message.bytes, output);
            }
            Input::Received(message) => self.obey(now, message.flow, message.bytes, output),
            Input::Control(Answer::Send(flow, bytes)) => {
                output.send(flow, |buffer| buffer.extend_from_slice(&bytes));
            }
            Input::Control(Answer::Ask(text)) => {
                output.ask(Question::Text(format!("worker {}: {text}", self.worker)));
            }
            Input::Undeliverable(_) | Input::ConnectionEnded(_) => {}
        }
    }

    /// Messages that start with `urgent` are urgent.
    fn urgency(&self, _: Flow, bytes: &[u8]) -> Urgency {
        if bytes.starts_with(b"urgent") {
            Urgency::First
        } else {
            Urgency::New
        }
    }

    fn refuse(&mut self, _: Time, message: Received<'_>, output: &mut Output<Question>) {
        let text = String::from_utf8_lossy(message.bytes);
        say(output, message.flow, format!("refused {text}"));
    }

    fn expire(&mut self, now: Time, output: &mut Output<Question>) {
        assert!(
            self.next_deadline().is_some_and(|deadline| deadline <= now),
            "something is due"
        );
        for due in self.alarms.extract_if(.., |due| *due <= now) {
            output.ask(Question::Alarm { due, told: now });
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.is_restless {
            Some(Time::default())
        } else {
            self.alarms.iter().min().copied()
        }
    }
}

fn say(output: &mut Output<Question>, flow: Flow, text: String) {
    output.send(flow, |buffer| buffer.extend(text.into_bytes()));
}

fn allowed_cpus() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("proc");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("the list").trim().to_owned()
}

/// The default options, with the event loop of this suite.
pub fn options() -> Options {
    Options {
        event_loop: crate::EVENT_LOOP,
        ..Options::default()
    }
}

/// Loopback addresses of both families, with a port that the kernel chooses.
pub const ANYWHERE: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

pub fn udp_listener(address: &str) -> Listener {
    Listener {
        protocol: Protocol::Udp,
        address: address.parse().expect("socket address"),
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    }
}

pub fn workers(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).expect("at least one")
}

/// Scripted workers with one listener. Their questions are discarded.
pub fn start(address: &str, count: u16, options: Options) -> Running<Answer> {
    start_asking(address, count, options, &|_, _| Ok(()))
}

/// Scripted workers with one listener.
pub fn start_asking(
    address: &str,
    count: u16,
    options: Options,
    questions: &impl ControlPlane<Question, Infallible>,
) -> Running<Answer> {
    Runtime::bind(vec![udp_listener(address)], workers(count), options)
        .expect("bind")
        .start(Script::new, questions)
        .expect("start")
}

/// The address of the only listener.
pub fn address_of<A>(running: &Running<A>) -> SocketAddr {
    running.listeners()[0].address
}

/// A peer of the only listener, with its own port.
pub struct Client(pub UdpSocket);

impl Client {
    pub fn of(server: SocketAddr) -> Self {
        let any = if server.is_ipv4() {
            ANYWHERE[0]
        } else {
            ANYWHERE[1]
        };
        let socket = UdpSocket::bind(any).expect("bind");
        socket.connect(server).expect("connect");
        socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
        Self(socket)
    }

    /// A client whose datagrams worker `worker` reads. The kernel chooses the worker by the
    /// client's port.
    pub fn read_by(server: SocketAddr, worker: u16) -> Self {
        let clients = std::iter::repeat_with(|| Self::of(server)).take(10_000);
        clients
            .into_iter()
            .find(|client| client.asks("who") == format!("worker {worker}"))
            .expect("every worker gets its share of the ports")
    }

    pub fn send(&self, text: &str) {
        self.0.send(text.as_bytes()).expect("send");
    }

    pub fn receive(&self) -> String {
        let mut buffer = [0; 2_000];
        let length = self.0.recv(&mut buffer).expect("an answer");
        String::from_utf8(buffer[..length].to_vec()).expect("text")
    }

    pub fn asks(&self, text: &str) -> String {
        self.send(text);
        self.receive()
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("address")
    }
}

/// Waits until `counter` reaches `value`.
pub fn await_count(counter: &Counter, value: u64) {
    let start = Instant::now();
    while counter.value() < value {
        assert!(start.elapsed() < PATIENCE, "{} of {value}", counter.value());
        std::thread::yield_now();
    }
}

/// Waits until a condition holds.
pub fn eventually(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never is so");
        std::thread::yield_now();
    }
}
