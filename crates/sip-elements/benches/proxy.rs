//! What a proxied call costs in all protocol layers: parser, transactions, proxy. One call is INVITE-100-180-200-ACK-BYE-200,
//! six messages in and seven out, with Record-Route, at 1,000 calls a second of virtual time, so that as many transactions
//! linger as would.

use divan::Bencher;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::proxy::{Inbound, Proxy};
use sip_elements::routing::{Target, is_loop};
use sip_elements::{Foreign, Owner, Question, Record, Settings, Shared, WorkerParts};
use sip_message::{KeyHasher, Message, Method};
use sip_transaction::{Event, Kind, Limits, RequestMatch, Transactions};
use sip_transport::{Flow, Listener, ListenerId, Output, Protocol, Time};
use std::time::Duration;

fn main() {
    divan::main();
}

const ALICE: &str = "127.0.0.1:6000";
const BOB: &str = "127.0.0.1:7000";
const SDP: &str = "v=0\r\no=alice 2890844526 2890844526 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";

/// A whole call, phones included: building their messages is in the figure (see `phones_alone`).
#[divan::bench(sample_count = 200, sample_size = 100)]
fn a_call(bencher: Bencher) {
    measure_calls(bencher, settings());
}

/// The same with a record of each call, and with the states that a database keeps.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn a_call_with_record_and_state(bencher: Bencher) {
    let mut settings = settings();
    settings.dialogs.records = true;
    settings.dialogs.persist = true;
    measure_calls(bencher, settings);
}

fn measure_calls(bencher: Bencher<'_, '_>, settings: Settings) {
    let mut worker = Worker::new(settings);
    let mut phones = Phones::default();
    for _ in 0..40_000 {
        worker.call(&mut phones);
    }
    bencher.bench_local(|| worker.call(&mut phones));
}

/// What of that is the phones.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn phones_alone(bencher: Bencher) {
    let mut phones = Phones::default();
    phones.invite(1);
    let forwarded = String::from_utf8_lossy(&phones.message)
        .replacen("Via:", "Record-Route: <sip:127.0.0.1:5060;lr;ck=0123456789abcdef>\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK00000000000000000000000000000000;rport\r\nVia:", 1)
        .into_bytes();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        phones.invite(number);
        for status in [b"180 Ringing".as_slice(), b"200 OK", b"200 OK"] {
            phones.reply(&forwarded, status);
        }
        phones.in_dialog("ACK", number, &forwarded);
        phones.in_dialog("BYE", number, &forwarded);
        divan::black_box(phones.message.len())
    });
}

/// The first message of a call: an INVITE with its body comes in, 100 and the copy go out.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn forward_an_invite(bencher: Bencher) {
    let mut worker = Worker::new(settings());
    let mut phones = Phones::default();
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        phones.invite(number);
        worker.receive(ALICE, &phones.message);
        worker.output.clear();
        worker.pass();
    });
}

/// Writes what the two phones say.
#[derive(Default)]
struct Phones {
    message: Vec<u8>,
    calls: u64,
}

impl Phones {
    fn invite(&mut self, number: u64) {
        self.request("INVITE", number, "sip:bob@example.org", "", &[]);
    }

    fn request(&mut self, method: &str, number: u64, uri: &str, to_tag: &str, route: &[u8]) {
        let id = hex(number);
        let body = if method == "INVITE" { SDP } else { "" };
        self.message.clear();
        for part in [
            method.as_bytes(),
            b" ",
            uri.as_bytes(),
            b" SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:6000;branch=z9hG4bK-",
            &id,
            method.as_bytes(),
            b";rport\r\n",
            route,
            b"Max-Forwards: 70\r\nFrom: \"Alice\" <sip:alice@example.org>;tag=",
            &id,
            b"\r\nTo: <sip:bob@example.org>",
            to_tag.as_bytes(),
            b"\r\nCall-ID: ",
            &id,
            b"@127.0.0.1\r\nCSeq: ",
            if method == "BYE" { b"2 " } else { b"1 " },
            method.as_bytes(),
            b"\r\nContact: <sip:alice@127.0.0.1:6000>\r\nUser-Agent: bench/1.0\r\n\
              Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, UPDATE\r\nContent-Type: application/sdp\r\nContent-Length: ",
            if body.is_empty() { b"0" } else { b"236" },
            b"\r\n\r\n",
            body.as_bytes(),
        ] {
            self.message.extend_from_slice(part);
        }
        assert_eq!(SDP.len(), 236);
    }

    fn reply(&mut self, request: &[u8], status: &[u8]) {
        self.message.clear();
        self.message.extend_from_slice(b"SIP/2.0 ");
        self.message.extend_from_slice(status);
        self.message.extend_from_slice(b"\r\n");
        for line in request.split_inclusive(|octet| *octet == b'\n').skip(1) {
            match line {
                [b'\r', ..] => break,
                [b'V' | b'R' | b'F', ..] | [b'C', b'a' | b'S', ..] => {
                    self.message.extend_from_slice(line);
                }
                [b'T', b'o', rest @ .., b'\r', b'\n'] => {
                    self.message.extend_from_slice(b"To");
                    self.message.extend_from_slice(rest);
                    if !rest.ends_with(b"tag=b") {
                        self.message.extend_from_slice(b";tag=b");
                    }
                    self.message.extend_from_slice(b"\r\n");
                }
                _ => {}
            }
        }
        self.message
            .extend_from_slice(b"Contact: <sip:bob@127.0.0.1:7000>\r\nContent-Length: 0\r\n\r\n");
    }

    fn in_dialog(&mut self, method: &str, number: u64, forwarded: &[u8]) {
        let recorded = forwarded
            .split_inclusive(|octet| *octet == b'\n')
            .find(|line| line.starts_with(b"Record-"));
        let route = recorded
            .and_then(|line| line.strip_prefix(b"Record-"))
            .expect("a Record-Route");
        self.request(method, number, "sip:bob@127.0.0.1:7000", ";tag=b", route);
    }
}

fn hex(number: u64) -> [u8; 16] {
    std::array::from_fn(|place| b"0123456789abcdef"[(number >> (60 - 4 * place) & 15) as usize])
}

struct Worker {
    now: Time,
    settings: Settings,
    shared: Shared,
    metrics: WorkerMetrics,
    random: ChaCha8Rng,
    transactions: Transactions<Owner>,
    proxy: Proxy,
    output: Output<Question, Record>,
    events: Vec<Event<Owner>>,
    sent: Vec<u8>,
}

impl Worker {
    fn new(settings: Settings) -> Self {
        let now = Time::from_unix_seconds(1_800_000_000);
        let hasher = KeyHasher::new((3, 4));
        let limits = Limits {
            servers: 1_000_000,
            clients: 1_000_000,
            bytes: usize::MAX,
            amplification: 3,
        };
        Self {
            now,
            shared: Shared {
                locations: Locations::new(LocationLimits {
                    max_bindings: 10,
                    max_pending_changes: 10,
                }),
                credentials: CredentialCache::new(10, 60, 60),
                nonces: Nonces::new((1, 2), 16),
                services: sip_elements::services::Services::default(),
                bans: sip_elements::bans::Bans::default(),
                dead_targets: sip_elements::DeadTargets::default(),
                edges: sip_elements::Edges::default(),
                hasher,
            },
            metrics: WorkerMetrics::default(),
            random: ChaCha8Rng::from_seed([7; 32]),
            transactions: Transactions::new(now, settings.timers, limits, hasher, 1),
            proxy: Proxy::new(now),
            output: Output::default(),
            events: Vec::new(),
            sent: Vec::new(),
            settings,
        }
    }

    fn call(&mut self, phones: &mut Phones) {
        phones.calls += 1;
        let number = phones.calls;
        phones.invite(number);
        self.receive(ALICE, &phones.message);
        let invite = self.take_sent(2);
        phones.reply(&invite, b"180 Ringing");
        self.receive(BOB, &phones.message);
        self.output.clear();
        phones.reply(&invite, b"200 OK");
        self.receive(BOB, &phones.message);
        let answered = self.take_sent(1);
        phones.in_dialog("ACK", number, &answered);
        self.receive(ALICE, &phones.message);
        self.output.clear();
        phones.in_dialog("BYE", number, &answered);
        self.receive(ALICE, &phones.message);
        self.sent = invite;
        let bye = self.take_sent(1);
        phones.reply(&bye, b"200 OK");
        self.receive(BOB, &phones.message);
        self.sent = bye;
        assert_eq!(self.output.outgoing().len(), 1);
        self.output.clear();
        drop(self.output.drain_records());
        assert_eq!(self.proxy.dialog_stats().confirmed, 0);
        self.pass();
    }

    fn take_sent(&mut self, expected: usize) -> Vec<u8> {
        assert_eq!(self.output.outgoing().len(), expected);
        let mut sent = std::mem::take(&mut self.sent);
        sent.clear();
        if let Some(last) = self.output.outgoing().last() {
            sent.extend_from_slice(self.output.written(last.range.clone()));
        }
        self.output.clear();
        sent
    }

    /// Another millisecond: what is due happens.
    fn pass(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        if self
            .transactions
            .next_deadline()
            .is_some_and(|deadline| deadline <= self.now)
        {
            self.transactions
                .expire(self.now, &mut self.output, &mut self.events);
            self.events.clear();
            self.output.clear();
        }
    }

    fn receive(&mut self, from: &str, bytes: &[u8]) {
        let remote = if from == ALICE {
            ([127, 0, 0, 1], 6000)
        } else {
            ([127, 0, 0, 1], 7000)
        };
        let flow = Flow::to(ListenerId(0), remote.into());
        let message = Message::parse(bytes).expect("a message");
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
        if message.is_request() {
            receive_request(&mut self.proxy, &mut parts, &message, flow);
        } else {
            let matched =
                parts
                    .transactions
                    .receive_response(parts.now, flow, &message, parts.output);
            if let Some(event) = matched.told() {
                self.proxy
                    .receive_response(&mut parts, event, &message, flow.remote.ip());
            }
        }
    }
}

fn receive_request(
    proxy: &mut Proxy,
    parts: &mut WorkerParts<'_>,
    request: &Message<'_>,
    flow: Flow,
) {
    let key = parts
        .shared
        .hasher
        .server_transaction(request)
        .expect("a key");
    if parts.transactions.receive_request(
        parts.now,
        key,
        request.method(),
        request.bytes().len(),
        parts.output,
    ) == RequestMatch::Absorbed
    {
        return;
    }
    assert!(!is_loop(request, parts.view()));
    let routing = proxy.preprocess(request, parts);
    let target = Target {
        uri: b"sip:bob@127.0.0.1:7000"[..].into(),
        q: 1000,
        route: Box::default(),
        next_hop: None,
        listener: None,
        flow: None,
        is_owned: false,
        instance: 0,
    };
    let inbound = Inbound::new(request, flow);
    if request.method() == Method::Ack {
        return proxy.forward_ack(parts, inbound, &routing, Some(target));
    }
    let kind = if request.method() == Method::Invite {
        Kind::Invite
    } else {
        Kind::NonInvite
    };
    let server = parts
        .transactions
        .create_server(key, kind, flow, false)
        .expect("room");
    proxy.forward(parts, inbound, server, &routing, vec![target]);
}

fn settings() -> Settings {
    let listeners = vec![Listener {
        protocol: Protocol::Udp,
        address: ([127, 0, 0, 1], 5060).into(),
        prefix_length: 8,
        advertised: "127.0.0.1:5060".to_owned(),
        behind_balancer: false,
    }];
    let mut settings = Settings::new(&["example.org".to_owned()], listeners);
    settings.proxy.foreign = Foreign::Relay;
    settings
}
