//! Two transaction layers, a client's and a server's, over a network that can lose messages, under virtual time. The trace has one line for
//! each message and event, with its start in milliseconds:
//!
//! ```text
//! 0 -> INVITE          the client sends
//! 500 -> INVITE lost   the client sends, and the network loses
//! 505 new INVITE       the server's user receives a request
//! 505 <- 180           the server sends
//! 510 up 180           the client's user receives a response
//! 32000 timeout        the client's user gets a timeout
//! 32000 no ACK         the server's user learns that no ACK came
//! ```

use sip_message::{
    HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter, TransactionKey,
};
use sip_transaction::{
    Branch, ClientId, ClientOptions, Event, Kind, Limits, RequestMatch, ServerId, Stats,
    TimerSettings, Transactions,
};
use sip_transport::{Flow, ListenerId, Output, Time};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

pub const HASHER: KeyHasher = KeyHasher::new((1, 2));
pub const START: Time = Time::from_unix_seconds(1_763_600_000);
/// The delay of each message.
pub const LATENCY: Duration = Duration::from_millis(5);
pub const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5060);
pub const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 5060);
pub const TO_SERVER: Flow = Flow::to(ListenerId(0), SERVER);
pub const TO_CLIENT: Flow = Flow::to(ListenerId(0), CLIENT);
pub const ROOMY: Limits = Limits {
    servers: 1000,
    clients: 1000,
    bytes: 1 << 30,
    amplification: 3,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

struct InFlight {
    arrives: Time,
    direction: Direction,
    /// The flow that a response arrives on.
    from: Flow,
    bytes: Vec<u8>,
}

/// A request that was passed to the server's user.
pub struct Incoming {
    pub id: Option<ServerId>,
    pub method: String,
    pub bytes: Vec<u8>,
}

pub struct World {
    pub now: Time,
    pub reliable: bool,
    pub client: Transactions<u64>,
    pub server: Transactions<u64>,
    pub output: Output<()>,
    pub incoming: Vec<Incoming>,
    /// Which messages the network loses, by their line in the trace.
    pub lose: Box<dyn FnMut(&str) -> bool>,
    trace: Vec<String>,
    in_flight: Vec<InFlight>,
}

pub fn unreliable() -> World {
    World::new(false, ROOMY)
}

pub fn reliable() -> World {
    World::new(true, ROOMY)
}

impl World {
    pub fn new(reliable: bool, limits: Limits) -> Self {
        let transactions =
            |epoch| Transactions::new(START, TimerSettings::default(), limits, HASHER, epoch);
        Self {
            now: START,
            reliable,
            client: transactions(17),
            server: transactions(4_000_000_000),
            output: Output::default(),
            incoming: Vec::new(),
            lose: Box::new(|_| false),
            trace: Vec::new(),
            in_flight: Vec::new(),
        }
    }

    /// The client's user sends a request.
    pub fn request(&mut self, method: Method<'_>) -> ClientId {
        let id = self.client.reserve_client(7).expect("room");
        let kind = if method == Method::Invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        };
        let (now, reliable) = (self.now, self.reliable);
        let options = ClientOptions::new(kind, TO_SERVER, reliable);
        self.client
            .start_client(now, id, &options, &mut self.output, |into| {
                write_request(into, method, id);
            });
        self.flush(Direction::ToServer);
        id
    }

    pub fn cancel(&mut self, id: ClientId) {
        self.cancel_because(id, "");
    }

    /// Like [`World::cancel`], with a Reason.
    pub fn cancel_because(&mut self, id: ClientId, reason: &str) {
        self.client
            .cancel_client(self.now, id, reason.as_bytes(), &mut self.output);
        self.flush(Direction::ToServer);
    }

    /// The client's user goes on without a response.
    pub fn give_up(&mut self, id: ClientId) {
        self.client
            .give_up_client(self.now, id, b"", &mut self.output);
        self.flush(Direction::ToServer);
    }

    /// The server's user responds to the last request of that method. Returns whether the transaction sent the response.
    pub fn respond(&mut self, method: &str, status: u16) -> bool {
        let incoming = self
            .incoming
            .iter()
            .rfind(|incoming| incoming.method == method);
        let (id, bytes) = incoming
            .map(|incoming| (incoming.id, incoming.bytes.clone()))
            .expect("a request");
        let sent = self.server.respond(
            self.now,
            id.expect("a transaction"),
            status,
            &mut self.output,
            |into| {
                write_response(into, &bytes, status);
            },
        );
        self.flush(Direction::ToClient);
        sent.is_some()
    }

    /// The client's user sends the ACK of a 2xx with the branch of the INVITE, as some old clients do.
    pub fn ack_with_branch_of(&mut self, invite: ClientId) {
        let mut bytes = Vec::new();
        write_request(&mut bytes, Method::Ack, invite);
        self.put_in_flight(Direction::ToServer, bytes);
    }

    /// Delivers a datagram to the client that the server did not send, from the server's address.
    pub fn inject_response(&mut self, response: &[u8]) {
        self.inject_response_from(TO_SERVER, response);
    }

    /// Like [`World::inject_response`], on this flow.
    pub fn inject_response_from(&mut self, from: Flow, response: &[u8]) {
        self.deliver(&InFlight {
            arrives: self.now,
            direction: Direction::ToClient,
            from,
            bytes: response.to_vec(),
        });
    }

    /// Advances the time; messages arrive and timers fire in order.
    pub fn run(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(next) = self.next_happening().filter(|&next| next <= until) {
            self.now = next.max(self.now);
            while let Some(place) = self
                .in_flight
                .iter()
                .position(|message| message.arrives <= self.now)
            {
                let message = self.in_flight.remove(place);
                self.deliver(&message);
            }
            self.expire();
        }
        self.now = until;
        self.check_counts();
    }

    /// The trace since the last call.
    pub fn trace(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trace)
    }

    /// Whether both sides are as empty as at the start.
    pub fn is_at_rest(&self) -> bool {
        let live = |stats: Stats| stats.servers_live + stats.clients_live;
        live(self.client.stats()) + live(self.server.stats()) == 0
            && self.client.next_deadline().is_none()
            && self.server.next_deadline().is_none()
    }

    fn next_happening(&self) -> Option<Time> {
        let arrival = self.in_flight.iter().map(|message| message.arrives).min();
        [
            arrival,
            self.client.next_deadline(),
            self.server.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn expire(&mut self) {
        let mut events = Vec::new();
        self.client.expire(self.now, &mut self.output, &mut events);
        self.flush(Direction::ToServer);
        self.server.expire(self.now, &mut self.output, &mut events);
        self.flush(Direction::ToClient);
        for event in events {
            self.log(match event {
                Event::ClientTimeout { .. } => "timeout",
                Event::ServerUnacknowledged { .. } => "no ACK",
            });
        }
    }

    fn deliver(&mut self, message: &InFlight) {
        let parsed = Message::parse(&message.bytes).expect("a message");
        match message.direction {
            Direction::ToClient => {
                let matched =
                    self.client
                        .receive_response(self.now, message.from, &parsed, &mut self.output);
                if let Some(response) = matched.told() {
                    assert_eq!(response.owner, 7);
                    self.log(&format!("up {}", parsed.status()));
                }
                self.flush(Direction::ToServer);
            }
            Direction::ToServer => {
                self.deliver_request(&parsed);
                self.flush(Direction::ToClient);
            }
        }
        self.check_counts();
    }

    fn deliver_request(&mut self, request: &Message<'_>) {
        let (key, method) = (key(request), request.method());
        if self.server.receive_request(
            self.now,
            key,
            method,
            request.bytes().len(),
            &mut self.output,
        ) == RequestMatch::Absorbed
        {
            return;
        }
        self.log(&format!("new {}", label(request)));
        let kind = if method == Method::Invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        };
        let id = (method != Method::Ack)
            .then(|| {
                self.server
                    .create_server(key, kind, TO_CLIENT, self.reliable)
                    .ok()
            })
            .flatten();
        self.incoming.push(Incoming {
            id,
            method: label(request),
            bytes: request.bytes().to_vec(),
        });
    }

    fn flush(&mut self, direction: Direction) {
        let sent: Vec<Vec<u8>> = self
            .output
            .outgoing()
            .iter()
            .map(|one| self.output.written(one.range.clone()).to_vec())
            .collect();
        let remote = if direction == Direction::ToServer {
            SERVER
        } else {
            CLIENT
        };
        assert!(
            self.output
                .outgoing()
                .iter()
                .all(|one| one.flow.remote == remote)
        );
        self.output.clear();
        for bytes in sent {
            self.put_in_flight(direction, bytes);
        }
    }

    fn put_in_flight(&mut self, direction: Direction, bytes: Vec<u8>) {
        let arrow = if direction == Direction::ToServer {
            "->"
        } else {
            "<-"
        };
        let line = format!(
            "{arrow} {}",
            label(&Message::parse(&bytes).expect("a message"))
        );
        if (self.lose)(&line) {
            self.log(&format!("{line} lost"));
            return;
        }
        self.log(&line);
        self.in_flight.push(InFlight {
            arrives: self.now + LATENCY,
            direction,
            from: TO_SERVER,
            bytes,
        });
    }

    fn log(&mut self, line: &str) {
        self.trace
            .push(format!("{} {line}", (self.now - START).as_millis()));
    }

    fn check_counts(&self) {
        for stats in [self.client.stats(), self.server.stats()] {
            assert_eq!(
                stats.servers_created,
                stats.servers_ended + stats.servers_live
            );
            assert_eq!(
                stats.clients_created,
                stats.clients_ended + stats.clients_live
            );
        }
    }
}

pub fn key(request: &Message<'_>) -> TransactionKey {
    HASHER.server_transaction(request).expect("a key")
}

fn label(message: &Message<'_>) -> String {
    if message.is_request() {
        return String::from_utf8_lossy(message.method().as_bytes()).into_owned();
    }
    match message.method() {
        Method::Cancel => format!("{} of CANCEL", message.status()),
        _ => message.status().to_string(),
    }
}

pub fn write_request(into: &mut Vec<u8>, method: Method<'_>, id: ClientId) {
    RequestWriter::begin(into, method, b"sip:bob@192.0.2.2")
        .header_with(HeaderName::Via, |value| {
            value.extend_from_slice(b"SIP/2.0/UDP 192.0.2.1:5060;branch=");
            Branch::new(&HASHER, id, b"call@192.0.2.1", 0x1234_5678_9abc_def0).write(value);
        })
        .header(HeaderName::MaxForwards, b"70")
        .header(HeaderName::From, b"<sip:alice@example.org>;tag=a")
        .header(HeaderName::To, b"<sip:bob@example.org>")
        .header(HeaderName::CallId, b"call@192.0.2.1")
        .header_with(HeaderName::CSeq, |value| {
            value.extend_from_slice(b"1 ");
            value.extend_from_slice(method.as_bytes());
        })
        .finish();
}

pub fn write_response(into: &mut Vec<u8>, request: &[u8], status: u16) {
    let request = Message::parse(request).expect("a request");
    ResponseWriter::begin(into, &request, CLIENT, status, "", Some(b"b")).finish();
}
