//! An edge with two nodes, driven without sockets.

use sip_message::{HeaderName, KeyHasher, Message, NameAddr};
use sip_transport::{
    ConnectionId, Flow, Input, Listener, ListenerId, Node as _, Output, Protocol, Received, Time,
    Undelivered,
};
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{
    Control, Edge, EdgeMetrics, EdgeOptions, Member, Members, NodeState, Question, Settings,
    Shared, Unanswered,
};

/// A message that the edge sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub flow: Flow,
    pub text: String,
}

impl Sent {
    /// The values of a header field, over all its lines.
    pub fn values(&self, name: HeaderName) -> Vec<String> {
        let message = Message::parse(self.text.as_bytes()).expect("a message");
        let values = message.values(name);
        values
            .map(|value| String::from_utf8(value.to_vec()).expect("text"))
            .collect()
    }

    /// The URI in a header field value.
    pub fn uri(&self, name: HeaderName, place: usize) -> String {
        let value = self.values(name).swap_remove(place);
        let name_addr = NameAddr::parse(value.as_bytes()).expect("a URI in angle brackets");
        String::from_utf8(name_addr.uri_bytes.to_vec()).expect("text")
    }

    /// The response that the receiver of this request gives.
    pub fn answer(&self, status: u16, more: &str) -> String {
        let request = Message::parse(self.text.as_bytes()).expect("a request");
        let mut lines = format!("SIP/2.0 {status} Status\r\n");
        for header in request.headers() {
            let name = String::from_utf8_lossy(header.name_bytes).into_owned();
            let value = String::from_utf8_lossy(header.value).into_owned();
            let tag = match header.name {
                HeaderName::To if !value.contains("tag=") && status > 100 => ";tag=callee",
                HeaderName::To
                | HeaderName::Via
                | HeaderName::From
                | HeaderName::CallId
                | HeaderName::CSeq
                | HeaderName::RecordRoute => "",
                _ => continue,
            };
            lines = lines + &name + ": " + &value + tag + "\r\n";
        }
        format!("{lines}{more}Content-Length: 0\r\n\r\n")
    }
}

/// The edge, its clock, and what it sent last.
pub struct Bench {
    pub edge: Edge,
    pub metrics: Arc<EdgeMetrics>,
    pub members: Arc<Members>,
    pub now: Time,
    pub settings: Settings,
}

pub const SECRET: (u64, u64) = (7, 8);
pub const NODES: [&str; 2] = ["10.0.0.1:5060", "10.0.0.2:5060"];

pub fn listener(protocol: Protocol, address: &str) -> Listener {
    Listener {
        protocol,
        address: address.parse().expect("an address"),
        prefix_length: 24,
        advertised: address.to_owned(),
        behind_balancer: false,
    }
}

pub fn member(number: usize) -> Member {
    Member {
        identity: format!("node-{number}"),
        number: number as u32,
        address: NODES[number].parse().expect("an address"),
        has_tcp: true,
        is_draining: false,
    }
}

/// UDP and TCP for all, on one address.
pub fn one_sided() -> Settings {
    Settings::new(vec![
        listener(Protocol::Udp, "192.0.2.1:5060"),
        listener(Protocol::Tcp, "192.0.2.1:5060"),
    ])
}

/// A public side, and a side for nodes.
pub fn two_sided() -> Settings {
    let mut settings = one_sided();
    settings
        .listeners
        .push(listener(Protocol::Udp, "10.0.0.100:5060"));
    settings.for_nodes = vec![false, false, true];
    settings
}

impl Bench {
    pub fn new(settings: Settings) -> Self {
        let members = Members::new(vec![member(0), member(1)], &settings, 1, None);
        let members = Arc::new(members.expect("a set"));
        let metrics = Arc::new(EdgeMetrics::default());
        let now = Time::from_unix_seconds(1_000_000);
        let edge = Edge::new(EdgeOptions {
            worker: 0,
            shared: Arc::new(Shared {
                hasher: KeyHasher::new(SECRET),
                unanswered: Unanswered::new(1 << 20),
            }),
            settings: Arc::new(settings.clone()),
            members: Arc::clone(&members),
            metrics: Arc::clone(&metrics),
            now,
        });
        let mut bench = Self {
            edge,
            metrics,
            members,
            now,
            settings,
        };
        bench.answer_probes(&[0, 1]);
        bench
    }

    /// Lets time pass without answers to probes.
    pub fn pass(&mut self, time: Duration) -> Vec<Sent> {
        let until = self.now + time;
        let mut sent = Vec::new();
        while let Some(next) = self.edge.next_deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            let now = self.now;
            sent.extend(self.take(|edge, output| edge.expire(now, output)));
        }
        self.now = until;
        sent
    }

    /// Sends the probes that are due, and answers those of some nodes.
    pub fn answer_probes(&mut self, nodes: &[usize]) {
        let interval = self.settings.probe_interval;
        let probes = self.pass(interval);
        for probe in probes
            .iter()
            .filter(|sent| sent.text.starts_with("OPTIONS"))
        {
            let node = NODES
                .iter()
                .position(|node| probe.flow.remote.to_string() == **node);
            if node.is_some_and(|node| nodes.contains(&node)) {
                self.receive(probe.flow, &probe.answer(200, ""));
            }
        }
    }

    pub fn receive(&mut self, flow: Flow, text: &str) -> Vec<Sent> {
        let now = self.now;
        self.take(|edge, output| edge.receive(now, flow, text.as_bytes(), output))
    }

    /// Receives a message that causes exactly one.
    pub fn one(&mut self, flow: Flow, text: &str) -> Sent {
        let sent = self.receive(flow, text);
        assert_eq!(sent.len(), 1, "{text}\n{sent:#?}");
        sent.into_iter().next().expect("one")
    }

    pub fn undeliverable(&mut self, sent: &Sent) -> Vec<Sent> {
        let now = self.now;
        let message = Undelivered {
            flow: sent.flow,
            bytes: sent.text.as_bytes(),
            handed_over: false,
        };
        self.take(|edge, output| edge.handle(now, Input::Undeliverable(message), output))
    }

    pub fn control(&mut self, control: Control) -> Vec<Sent> {
        let now = self.now;
        self.take(|edge, output| edge.handle(now, Input::Control(control), output))
    }

    /// The questions that a message causes.
    pub fn questions(&mut self, flow: Flow, text: &str) -> Vec<Question> {
        let mut output = Output::default();
        let message = Received::new(self.now, flow, text.as_bytes());
        self.edge
            .handle(self.now, Input::Received(message), &mut output);
        assert!(output.outgoing().is_empty());
        output.drain_questions().collect()
    }

    fn take(&mut self, act: impl FnOnce(&mut Edge, &mut Output<Question>)) -> Vec<Sent> {
        let mut output = Output::default();
        act(&mut self.edge, &mut output);
        let bytes = output.bytes();
        let sent = output.outgoing().iter().map(|outgoing| Sent {
            flow: outgoing.flow,
            text: String::from_utf8(bytes[outgoing.range.clone()].to_vec()).expect("text"),
        });
        sent.collect()
    }

    pub fn states(&self) -> Vec<NodeState> {
        self.members
            .iter()
            .map(|(_, health)| health.state())
            .collect()
    }
}

/// Which node a flow leads to.
pub fn node_at(flow: Flow) -> usize {
    let at = NODES
        .iter()
        .position(|node| flow.remote.to_string() == **node);
    at.unwrap_or_else(|| panic!("{flow:?} leads to no node"))
}

pub fn udp(remote: &str) -> Flow {
    Flow::to(ListenerId(0), remote.parse().expect("an address"))
}

/// A UDP flow of a node to an edge with two sides.
pub fn udp_inside(remote: &str) -> Flow {
    Flow {
        listener: ListenerId(2),
        ..udp(remote)
    }
}

pub fn tcp(remote: &str, slot: u32) -> Flow {
    Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(0, slot),
        remote: remote.parse().expect("an address"),
    }
}

/// A request of a client at this address.
pub fn request(method: &str, transport: &str, from: &str, call_id: &str, more: &str) -> String {
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bK{call_id}{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>\r\nCall-ID: {call_id}\r\n\
         CSeq: 1 {method}\r\nContact: <sip:alice@{from}>\r\n{more}Content-Length: 0\r\n\r\n"
    )
}
