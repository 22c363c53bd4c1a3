//! Test harness: a small worker with transactions and a proxy, fed with datagrams. It does what the pipeline does
//! around them, with the targets that the test names.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::{DropReason, WorkerMetrics};
use sip_elements::proxy::{Inbound, Proxy};
use sip_elements::routing::{NextHop, Target, is_loop};
use sip_elements::{
    BranchId, DeadTargets, Foreign, NameServersFailed, Owner, Question, Record, Settings, Shared,
    WorkerParts,
};
use sip_message::{KeyHasher, Message, Method, ResponseWriter};
use sip_transaction::{Event, Kind, Limits, RequestMatch, ResponseMatch, Transactions};
use sip_transport::selection::{Candidate, Destination};
use sip_transport::{Flow, Listener, ListenerId, Output, Protocol, Time, response_flow};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

pub const HASHER: KeyHasher = KeyHasher::new((3, 4));
/// The peers. They share the network of the first listener.
pub const ALICE: &str = "192.0.2.10:5060";
pub const BOB: &str = "192.0.2.20:5060";
pub const CAROL: &str = "192.0.2.30:5060";
pub const DAVE: &str = "192.0.2.40:5060";
/// Our own address in that network.
pub const US: &str = "192.0.2.1:5060";

/// A message that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub to: SocketAddr,
    pub listener: u16,
    pub text: String,
}

impl Sent {
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// Values of a header field, one for each line.
    pub fn header(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name}: ");
        self.text
            .split("\r\n")
            .filter_map(|line| line.strip_prefix(prefix.as_str()))
            .collect()
    }

    /// Branch of the topmost Via.
    pub fn branch(&self) -> String {
        let via = self.header("Via")[0];
        via.split("branch=")
            .nth(1)
            .and_then(|rest| rest.split(';').next())
            .expect("a branch")
            .to_owned()
    }

    /// A response from the receiver of this message. Its To tag is made from the receiver's address.
    pub fn reply(&self, status: &str) -> String {
        self.reply_with(status, "")
    }

    /// Same as [`Self::reply`], with more header fields, each ending in CRLF.
    pub fn reply_with(&self, status: &str, headers: &str) -> String {
        let mut response = format!("SIP/2.0 {status}\r\n");
        for line in self.text.split("\r\n").take_while(|line| !line.is_empty()) {
            if ["Via: ", "Record-Route: ", "From: ", "Call-ID: ", "CSeq: "]
                .iter()
                .any(|name| line.starts_with(name))
            {
                response.push_str(line);
                response.push_str("\r\n");
            } else if let Some(to) = line.strip_prefix("To: ") {
                let tag = if to.contains("tag=") || status.starts_with("100") {
                    String::new()
                } else {
                    format!(
                        ";tag={}",
                        self.to.to_string().replace([':', '.', '[', ']'], "-")
                    )
                };
                response.extend(["To: ", to, &tag, "\r\n"]);
            }
        }
        response.push_str(headers);
        response.push_str("Content-Length: 0\r\n\r\n");
        response
    }
}

/// A request from Alice, with only her Via and without a body.
pub fn request(method: &str, uri: &str, headers: &str) -> String {
    request_in(method, uri, "", 1, headers)
}

/// Same as [`request`], with a tag in To and a `CSeq` number, as within a dialog.
pub fn request_in(method: &str, uri: &str, to_tag: &str, cseq: u32, headers: &str) -> String {
    let to_tag = if to_tag.is_empty() {
        String::new()
    } else {
        format!(";tag={to_tag}")
    };
    format!(
        "{method} {uri} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {ALICE};branch=z9hG4bKalice{method}{cseq};rport\r\n\
         Max-Forwards: 70\r\n\
         From: \"Alice\" <sip:alice@example.org>;tag=a1\r\n\
         To: <sip:bob@example.org>{to_tag}\r\n\
         Call-ID: call-1@alice\r\n\
         CSeq: {cseq} {method}\r\n\
         Contact: <sip:alice@{ALICE}>\r\n\
         {headers}\
         Content-Length: 0\r\n\r\n"
    )
}

pub fn invite() -> String {
    request("INVITE", "sip:bob@example.org", "")
}

/// The CANCEL of [`invite`].
pub fn cancel() -> String {
    request("CANCEL", "sip:bob@example.org", "").replace("aliceCANCEL1", "aliceINVITE1")
}

/// The ACK for a non-2xx response to [`invite`].
pub fn ack_of_refusal(response: &Sent) -> String {
    let to = response.header("To")[0];
    request("ACK", "sip:bob@example.org", "")
        .replace("aliceACK1", "aliceINVITE1")
        .replace("<sip:bob@example.org>\r\n", &format!("{to}\r\n"))
}

pub fn target(address: &str, q: u16) -> Target {
    target_uri(&format!("sip:bob@{address}"), q)
}

pub fn target_uri(uri: &str, q: u16) -> Target {
    Target {
        uri: uri.as_bytes().into(),
        q,
        route: Box::default(),
        next_hop: None,
        listener: None,
        flow: None,
        is_owned: false,
        instance: 0,
    }
}

pub fn with_path(mut target: Target, path: &str) -> Target {
    target.route = path.as_bytes().into();
    target
}

pub fn with_next_hop(mut target: Target, address: &str, listener: u16) -> Target {
    target.next_hop = Some(NextHop::Address(address.parse().expect("an address")));
    target.listener = Some(ListenerId(listener));
    target
}

pub fn over(protocol: Protocol, address: &str) -> Candidate {
    Candidate {
        protocol,
        address: address.parse().expect("an address"),
    }
}

pub fn udp(address: &str, prefix_length: u8) -> Listener {
    listener(Protocol::Udp, address, prefix_length)
}

pub fn listener(protocol: Protocol, address: &str, prefix_length: u8) -> Listener {
    let address: SocketAddr = address.parse().expect("an address");
    Listener {
        protocol,
        address,
        prefix_length,
        advertised: address.to_string(),
        behind_balancer: false,
    }
}

pub fn settings(listeners: Vec<Listener>) -> Settings {
    let mut settings = Settings::new(&["example.org".to_owned()], listeners);
    settings.proxy.foreign = Foreign::Relay;
    settings.proxy.timer_c = Duration::from_secs(181);
    settings.proxy.max_targets = 20;
    settings.limits.response_contexts = 1000;
    settings.limits.retry_after = 7;
    settings
}

/// One worker and the messages that it has sent.
pub struct Wire {
    pub now: Time,
    pub settings: Settings,
    pub metrics: WorkerMetrics,
    pub proxy: Proxy,
    pub transactions: Transactions<Owner>,
    pub targets: Vec<Target>,
    pub shared: Shared,
    random: ChaCha8Rng,
    output: Output<Question, Record>,
    sent: VecDeque<Sent>,
    questions: VecDeque<Question>,
}

impl Wire {
    pub fn new(targets: Vec<Target>) -> Self {
        Self::with(settings(vec![udp(US, 24)]), targets)
    }

    pub fn with(settings: Settings, targets: Vec<Target>) -> Self {
        let now = Time::from_unix_seconds(1_800_000_000);
        let limits = Limits {
            servers: settings.limits.server_transactions,
            clients: settings.limits.client_transactions,
            bytes: settings.limits.held_bytes,
            amplification: settings.limits.amplification,
        };
        Self {
            now,
            metrics: WorkerMetrics::default(),
            proxy: Proxy::new(now),
            transactions: Transactions::new(now, settings.timers, limits, HASHER, 0x1234_5678),
            targets,
            shared: Shared {
                locations: Locations::new(LocationLimits {
                    max_bindings: 10,
                    max_pending_changes: 10,
                }),
                credentials: CredentialCache::new(10, 60, 60),
                nonces: Nonces::new((1, 2), 16),
                services: sip_elements::services::Services::default(),
                bans: sip_elements::bans::Bans::default(),
                dead_targets: DeadTargets::default(),
                edges: sip_elements::Edges::default(),
                hasher: HASHER,
            },
            random: ChaCha8Rng::from_seed([7; 32]),
            output: Output::default(),
            sent: VecDeque::new(),
            questions: VecDeque::new(),
            settings,
        }
    }

    /// The same node after a restart: with the same secrets, but without its state.
    pub fn restarted(&self) -> Self {
        Self::with(self.settings.clone(), self.targets.clone())
    }

    fn act(&mut self, act: impl FnOnce(&mut Proxy, &mut WorkerParts<'_>)) {
        let mut parts = WorkerParts {
            now: self.now,
            arrived: self.now,
            output: &mut self.output,
            transactions: &mut self.transactions,
            settings: &self.settings,
            shared: &self.shared,
            metrics: &self.metrics,
            random: &mut self.random,
        };
        act(&mut self.proxy, &mut parts);
        for outgoing in self.output.outgoing() {
            let bytes = self.output.written(outgoing.range.clone());
            self.sent.push_back(Sent {
                to: outgoing.flow.remote,
                listener: outgoing.flow.listener.0,
                text: String::from_utf8(bytes.to_vec()).expect("text"),
            });
        }
        self.questions.extend(self.output.drain_questions());
        self.output.clear();
    }

    /// Receives a datagram at the first listener.
    pub fn receive(&mut self, from: &str, text: &str) {
        self.receive_at(0, from, text);
    }

    pub fn receive_at(&mut self, listener: u16, from: &str, text: &str) {
        let flow = Flow::to(ListenerId(listener), from.parse().expect("an address"));
        let message = Message::parse(text.as_bytes()).expect("a message");
        message.validate().expect("a valid message");
        let targets = self.targets.clone();
        self.act(|proxy, parts| {
            if message.is_request() {
                receive_request(proxy, parts, &message, flow, targets);
            } else {
                match parts
                    .transactions
                    .receive_response(parts.now, flow, &message, parts.output)
                {
                    ResponseMatch::Told(event) => {
                        proxy.receive_response(parts, event, &message, flow.remote.ip());
                    }
                    ResponseMatch::Absorbed => {
                        proxy.receive_absorbed(parts, &message, flow.remote.ip());
                    }
                    ResponseMatch::Stray => {
                        proxy.receive_stray(parts, &message, flow.remote.ip());
                    }
                    ResponseMatch::Forged => parts.metrics.dropped(DropReason::ForgedResponse),
                }
            }
        });
    }

    /// The control plane has resolved a name to servers that use UDP.
    pub fn resolved(&mut self, ticket: BranchId, addresses: &[&str]) {
        let candidates = addresses.iter().map(|address| over(Protocol::Udp, address));
        self.located(ticket, candidates.collect());
    }

    /// The control plane has located a destination at these candidates.
    pub fn located(&mut self, ticket: BranchId, candidates: Vec<Candidate>) {
        self.act(|proxy, parts| proxy.resolved(parts, ticket, Ok(candidates)));
    }

    /// The name servers have failed.
    pub fn not_located(&mut self, ticket: BranchId) {
        self.act(|proxy, parts| proxy.resolved(parts, ticket, Err(NameServersFailed)));
    }

    /// The network reports that a sent message was not delivered.
    pub fn undeliverable(&mut self, sent: &Sent) {
        self.act(|proxy, parts| {
            let bytes = sent.text.as_bytes();
            if let Some(client) = parts.transactions.client_that_sent(bytes) {
                proxy.client_unreachable(parts, client.id, client.owner);
            }
        });
    }

    /// Expects a question for a name. Returns its ticket, the name and the port.
    pub fn expect_question(&mut self) -> (BranchId, String, Option<u16>) {
        let (ticket, destination, _) = self.expect_destination();
        (ticket, destination.host.into(), destination.port)
    }

    /// Expects a question for a destination. Returns its ticket, the destination and the seed for the choice of
    /// servers.
    pub fn expect_destination(&mut self) -> (BranchId, Destination, u64) {
        match self.questions.pop_front() {
            Some(Question::Resolve {
                ticket,
                destination,
                seed,
            }) => (ticket, destination, seed),
            other => panic!("expected a question for a name, got {other:?}"),
        }
    }

    /// Advances the time. Everything that becomes due happens at its own time.
    pub fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        let mut events = Vec::new();
        loop {
            let next = [
                self.transactions.next_deadline(),
                self.proxy.next_deadline(),
            ]
            .into_iter()
            .flatten()
            .min();
            self.now = match next {
                Some(next) if next <= end => next.max(self.now),
                _ => end,
            };
            self.act(|proxy, parts| {
                parts
                    .transactions
                    .expire(parts.now, parts.output, &mut events);
                for event in events.drain(..) {
                    if let Event::ClientTimeout { id, owner } = event {
                        proxy.client_timeout(parts, id, owner);
                    }
                }
                proxy.expire(parts);
            });
            if self.now >= end {
                return;
            }
            // A deadline is a lower bound: the next one may be the same. The time must advance anyway.
            self.now = self.now + Duration::from_millis(1);
        }
    }

    /// Expects that the next message was sent to `to` and begins with `first_line`.
    #[track_caller]
    pub fn expect(&mut self, to: &str, first_line: &str) -> Sent {
        let Some(sent) = self.sent.pop_front() else {
            panic!("expected {first_line:?} to {to}, but nothing left");
        };
        assert!(
            sent.to == to.parse().expect("an address") && sent.first_line().starts_with(first_line),
            "expected {first_line:?} to {to}, got {:?} to {}",
            sent.first_line(),
            sent.to
        );
        Message::parse(sent.text.as_bytes())
            .expect("sound")
            .validate()
            .expect("what leaves is valid");
        sent
    }

    /// Expects that the next message cancels `invite`, and answers it with 200. Returns its Reason.
    #[track_caller]
    pub fn expect_cancel(&mut self, invite: &Sent) -> String {
        let to = invite.to.to_string();
        let uri = invite.first_line().split(' ').nth(1).unwrap_or_default();
        let cancel = self.expect(&to, &format!("CANCEL {uri} SIP/2.0"));
        assert_eq!(cancel.branch(), invite.branch());
        self.receive(&to, &cancel.reply("200 OK"));
        cancel.header("Reason").join("\r\n")
    }

    #[track_caller]
    pub fn expect_nothing(&mut self) {
        let first_lines: Vec<_> = self
            .sent
            .iter()
            .map(|sent| (sent.to, sent.first_line()))
            .collect();
        assert!(
            first_lines.is_empty(),
            "expected nothing, got {first_lines:?}"
        );
        assert!(
            self.questions.is_empty(),
            "expected no question, got {:?}",
            self.questions
        );
    }

    /// Removes and returns the sent messages, in order.
    pub fn take_sent(&mut self) -> Vec<Sent> {
        self.sent.drain(..).collect()
    }

    /// Removes the questions and returns their tickets.
    pub fn take_tickets(&mut self) -> Vec<BranchId> {
        let ticket = |question| match question {
            Question::Resolve { ticket, .. } => ticket,
            Question::Credentials { .. } | Question::Describe { .. } => {
                panic!("a proxy asks for names only")
            }
        };
        self.questions.drain(..).map(ticket).collect()
    }

    /// Drops the sent messages, for retransmissions that are not part of the test.
    pub fn ignore_sent(&mut self) {
        self.sent.clear();
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.metrics.drops[reason as usize].value()
    }

    /// Number of responses with this status that were sent.
    pub fn responses(&self, status: usize) -> u64 {
        self.metrics.responses_sent[status - 100].value()
    }

    #[track_caller]
    pub fn assert_counts(&self, live: u64) {
        let stats = self.proxy.stats();
        assert_eq!(stats.created, stats.ended + stats.live, "{stats:?}");
        assert_eq!(stats.live, live, "{stats:?}");
        assert_eq!(
            self.metrics.response_contexts_created.value(),
            stats.created
        );
        assert_eq!(self.metrics.response_contexts_ended.value(), stats.ended);
    }

    /// Checks that after a while no state is left.
    #[track_caller]
    pub fn finish(mut self) {
        self.expect_nothing();
        self.pass(Duration::from_secs(70));
        let finals: Vec<_> = self
            .sent
            .iter()
            .filter(|sent| !sent.first_line().starts_with("SIP/2.0"))
            .collect();
        assert!(
            finals.is_empty(),
            "a request left after the end: {finals:?}"
        );
        self.assert_counts(0);
        let stats = self.transactions.stats();
        assert_eq!(
            (stats.servers_live, stats.clients_live),
            (0, 0),
            "{stats:?}"
        );
        assert_eq!(self.proxy.next_deadline(), None, "a timer is left");
    }
}

/// A call from Alice that Bob has answered with this Contact, through proxies downstream that have added the
/// Record-Route lines in `below`. Returns our Record-Route values as Alice gets them, topmost first. Bob's tag is `b1`.
pub fn established(wire: &mut Wire, contact: &str, below: &str) -> Vec<String> {
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let [sent] = &wire.take_sent()[..] else {
        panic!("one INVITE")
    };
    let bob = sent.to.to_string();
    let reply = sent.reply_with("200 OK", &format!("Contact: <{contact}>\r\n"));
    let reply = reply.replace(
        &format!(";tag={}", bob.replace([':', '.', '[', ']'], "-")),
        ";tag=b1",
    );
    let reply = reply.replacen("Record-Route", &format!("{below}Record-Route"), 1);
    wire.receive_at(sent.listener, &bob, &reply);
    let answered = wire.expect(ALICE, "SIP/2.0 200 OK");
    let recorded = answered.header("Record-Route").into_iter();
    recorded
        .filter(|value| value.contains(";ck="))
        .map(str::to_owned)
        .collect()
}

/// Does what the pipeline does around the proxy.
fn receive_request(
    proxy: &mut Proxy,
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    flow: Flow,
    targets: Vec<Target>,
) {
    let hasher = parts.shared.hasher;
    let key = hasher.server_transaction(request).expect("a key");
    match parts.transactions.receive_request(
        parts.now,
        key,
        request.method(),
        request.bytes().len(),
        parts.output,
    ) {
        RequestMatch::Absorbed => return,
        RequestMatch::New if request.method() == Method::Cancel => {
            let invite = hasher.cancelled_transaction(request).expect("a key");
            let server = parts.transactions.find_server(invite).expect("the INVITE");
            return proxy.cancel(parts, server, request);
        }
        RequestMatch::New => {}
    }
    let inbound = Inbound::new(request, flow);
    let routing = proxy.preprocess(request, parts);
    if request.method() == Method::Ack {
        return proxy.forward_ack(parts, inbound, &routing, None);
    }
    if is_loop(request, parts.view()) {
        parts.output.send(flow, |into| {
            ResponseWriter::begin(into, request, flow.remote, 482, "", Some(b"us")).finish();
        });
        return;
    }
    let targets = if routing.in_our_dialog() {
        let uri = routing
            .request_uri
            .as_deref()
            .unwrap_or_else(|| request.request_uri());
        vec![Target {
            flow: routing.flow,
            ..target_uri(std::str::from_utf8(uri).expect("text"), 1000)
        }]
    } else {
        targets
    };
    let kind = if request.method() == Method::Invite {
        Kind::Invite
    } else {
        Kind::NonInvite
    };
    let back = request
        .top_via()
        .map_or(flow, |via| response_flow(flow, &via));
    let server = parts
        .transactions
        .create_server(key, kind, back, false)
        .expect("room");
    proxy.forward(parts, inbound, server, &routing, targets);
}
