//! Measures the CPU time of transactions: both sides of an INVITE and of another request, and the timer wheel.
//!
//! All messages are written beforehand, and only the branches change. The result is therefore the cost of the transaction layer with its
//! copies, not of writing messages. Responses are parsed, as a server must do; this part is also measured on its own.

use divan::{Bencher, black_box};
use sip_message::{
    HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter, TransactionKey,
};
use sip_transaction::{
    ClientOptions, Event, Kind, Limits, TimerSettings, TimerWheel, Transactions,
};
use sip_transport::{Flow, ListenerId, Output, Time};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const START: Time = Time::from_unix_seconds(1_763_600_000);
const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 5060);
const FLOW: Flow = Flow::to(ListenerId(0), PEER);
const CALL_ID: &[u8] = b"3848276298220188511@client.example.org";
const SDP: &[u8] = b"v=0\r\no=alice 53655765 2353687637 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
    m=audio 3456 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\na=sendrecv\r\n";

fn main() {
    divan::main();
}

/// A message and the position of the branch in it.
struct Template {
    bytes: Vec<u8>,
    branch: std::ops::Range<usize>,
}

impl Template {
    fn new(bytes: Vec<u8>) -> Self {
        let start = bytes
            .windows(7)
            .position(|window| window == b"z9hG4bK")
            .expect("a branch");
        Self {
            bytes,
            branch: start..start + 55,
        }
    }

    fn request(method: Method<'_>, body: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let writer = RequestWriter::begin(&mut bytes, method, b"sip:bob@198.51.100.7:5060;transport=udp")
            .header(
                HeaderName::Via,
                b"SIP/2.0/UDP 203.0.113.5:5060;branch=z9hG4bK000000000000000000000000000000000000000000000000;rport",
            )
            .header(
                HeaderName::Via,
                b"SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK-524287-1---7d0b3e1f;rport=5060;received=192.0.2.1",
            )
            .header(HeaderName::MaxForwards, b"69")
            .header(HeaderName::RecordRoute, b"<sip:203.0.113.5:5060;lr;t=8b3f0d5c9e2a4711>")
            .header(HeaderName::From, b"\"Alice\" <sip:alice@example.org>;tag=9fxced76sl")
            .header(HeaderName::To, b"<sip:bob@example.org>")
            .header(HeaderName::CallId, CALL_ID)
            .header(HeaderName::Contact, b"<sip:alice@192.0.2.1:5060;transport=udp>")
            .header_with(HeaderName::CSeq, |value| {
                value.extend_from_slice(b"2 ");
                value.extend_from_slice(method.as_bytes());
            });
        if body.is_empty() {
            writer.finish();
        } else {
            writer.finish_with_body(b"application/sdp", body);
        }
        Self::new(bytes)
    }

    fn response(request: &Self, status: u16, body: &[u8]) -> Self {
        let request = Message::parse(&request.bytes).expect("a message");
        let mut bytes = Vec::new();
        let writer = ResponseWriter::begin(&mut bytes, &request, PEER, status, "", Some(b"314159"))
            .header(
                HeaderName::Contact,
                b"<sip:bob@198.51.100.7:5060;transport=udp>",
            );
        if body.is_empty() {
            writer.finish();
        } else {
            writer.finish_with_body(b"application/sdp", body);
        }
        Self::new(bytes)
    }

    fn set_branch(&mut self, branch: &[u8]) {
        self.bytes[self.branch.clone()].copy_from_slice(branch);
    }
}

/// One worker under load: calls begin at a steady rate, so the tables and the wheel are realistically full.
struct Worker {
    all: Transactions<u64>,
    now: Time,
    output: Output<()>,
    events: Vec<Event<u64>>,
    branch: Vec<u8>,
    serial: u64,
}

impl Worker {
    fn new() -> Self {
        let limits = Limits {
            servers: 10_000_000,
            clients: 10_000_000,
            bytes: usize::MAX,
            amplification: 3,
        };
        Self {
            all: Transactions::new(
                START,
                TimerSettings::default(),
                limits,
                KeyHasher::new((1, 2)),
                1,
            ),
            now: START,
            output: Output::default(),
            events: Vec::new(),
            branch: Vec::new(),
            serial: 0,
        }
    }

    fn key(&mut self) -> TransactionKey {
        self.serial += 1;
        TransactionKey(
            u128::from(self.serial).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
        )
    }

    /// Receives a request and forwards it, then relays its responses: both transactions.
    fn relay(
        &mut self,
        kind: Kind,
        method: Method<'_>,
        request: &Template,
        responses: &mut [(u16, Template)],
    ) {
        let (now, key) = (self.now, self.key());
        black_box(
            self.all
                .receive_request(now, key, method, 600, &mut self.output),
        );
        let server = self
            .all
            .create_server(key, kind, FLOW, false)
            .expect("room");
        let client = self.all.reserve_client(2).expect("room");
        let branch = &mut self.branch;
        branch.clear();
        self.all.branch(client, CALL_ID, 3).write(branch);
        let options = ClientOptions::new(kind, FLOW, false);
        self.all
            .start_client(now, client, &options, &mut self.output, |into| {
                let (before, behind) = (
                    &request.bytes[..request.branch.start],
                    &request.bytes[request.branch.end..],
                );
                into.extend_from_slice(before);
                into.extend_from_slice(branch);
                into.extend_from_slice(behind);
            });
        for (status, response) in responses {
            response.set_branch(branch);
            let message = Message::parse(&response.bytes).expect("a message");
            let matched = self
                .all
                .receive_response(now, FLOW, &message, &mut self.output);
            black_box(matched.told().expect("ours"));
            let write = |into: &mut Vec<u8>| into.extend_from_slice(&response.bytes);
            black_box(
                self.all
                    .respond(now, server, *status, &mut self.output, write),
            );
        }
        self.output.clear();
    }

    /// Advances the time as at 10,000 calls per second, and handles what is due.
    fn go_on(&mut self) {
        self.now = self.now + Duration::from_micros(100);
        self.all
            .expire(self.now, &mut self.output, &mut self.events);
        self.output.clear();
    }
}

struct Call {
    invite: Template,
    of_invite: [(u16, Template); 3],
    bye: Template,
    of_bye: [(u16, Template); 1],
}

impl Call {
    fn new() -> Self {
        let invite = Template::request(Method::Invite, SDP);
        let bye = Template::request(Method::Bye, b"");
        let of_invite = [(100, &b""[..]), (180, b""), (200, SDP)]
            .map(|(status, body)| (status, Template::response(&invite, status, body)));
        let of_bye = [(200, Template::response(&bye, 200, b""))];
        Self {
            invite,
            of_invite,
            bye,
            of_bye,
        }
    }

    fn invite(&mut self, worker: &mut Worker) {
        worker.relay(
            Kind::Invite,
            Method::Invite,
            &self.invite,
            &mut self.of_invite,
        );
    }

    fn bye(&mut self, worker: &mut Worker) {
        worker.relay(Kind::NonInvite, Method::Bye, &self.bye, &mut self.of_bye);
    }
}

/// INVITE, 100, 180 and 200 through a server and a client transaction, with the timers that fire later.
#[divan::bench(sample_count = 50, sample_size = 10_000)]
fn invite_100_180_200(bencher: Bencher<'_, '_>) {
    let (mut worker, mut call) = (Worker::new(), Call::new());
    bencher.bench_local(|| {
        call.invite(&mut worker);
        worker.go_on();
    });
}

/// A request with one response, through a server and a client transaction.
#[divan::bench(sample_count = 50, sample_size = 10_000)]
fn bye_200(bencher: Bencher<'_, '_>) {
    let (mut worker, mut call) = (Worker::new(), Call::new());
    bencher.bench_local(|| {
        call.bye(&mut worker);
        worker.go_on();
    });
}

/// Both, while 32 seconds of 10,000 calls per second linger in the tables: cache misses of 1.3 million transactions.
#[divan::bench(sample_count = 20, sample_size = 20_000)]
fn call_under_load(bencher: Bencher<'_, '_>) {
    let (mut worker, mut call) = (Worker::new(), Call::new());
    for _ in 0..400_000 {
        call.invite(&mut worker);
        call.bye(&mut worker);
        worker.go_on();
    }
    bencher.bench_local(|| {
        call.invite(&mut worker);
        call.bye(&mut worker);
        worker.go_on();
    });
}

/// The part of both that is not the transaction layer: parsing the four responses.
#[divan::bench(sample_count = 50, sample_size = 10_000)]
fn parsing_in_it(bencher: Bencher<'_, '_>) {
    let call = Call::new();
    bencher.bench_local(|| {
        for (_, response) in call.of_invite.iter().chain(&call.of_bye) {
            black_box(Message::parse(black_box(&response.bytes)).expect("a message"));
        }
    });
}

/// Arms and cancels a timer among 300,000 others.
#[divan::bench(sample_count = 50, sample_size = 10_000)]
fn wheel_arm_and_cancel(bencher: Bencher<'_, '_>) {
    let mut wheel = full_wheel();
    let mut now = START;
    bencher.bench_local(|| {
        now = now + Duration::from_micros(10);
        let id = wheel.arm(black_box(now + Duration::from_millis(500)), 1);
        wheel.cancel(black_box(id));
    });
}

/// Arms a timer among 300,000 others, moves it, and lets it fire 32 seconds later.
#[divan::bench(sample_count = 50, sample_size = 10_000)]
fn wheel_arm_move_and_fire(bencher: Bencher<'_, '_>) {
    let mut wheel = full_wheel();
    let mut now = START;
    bencher.bench_local(|| {
        now = now + Duration::from_micros(100);
        let id = wheel.arm(black_box(now + Duration::from_millis(500)), 1);
        wheel.rearm(id, now + Duration::from_secs(32), 2);
        while let Some(value) = wheel.pop_due(now) {
            black_box(value);
        }
    });
}

fn full_wheel() -> TimerWheel<u64> {
    let mut wheel = TimerWheel::new(START);
    for n in 0..320_000 {
        wheel.arm(START + Duration::from_micros(n * 100), n);
    }
    wheel
}
