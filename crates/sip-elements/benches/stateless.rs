//! What a call costs that is forwarded without a transaction, and the same call with one: INVITE-100-180-200 from a trusted peer, with the
//! rule, and without Record-Route. The ACK and the BYE do not pass through the server.
//!
//! Instructions: `valgrind --tool=callgrind --toggle-collect='*::relay_call' BENCH --bench --sample-count 1 --sample-size 1000 without_state`, where
//! BENCH is the program that `cargo bench -p sip-elements --bench stateless --no-run` names. Divide by the calls that the program prints.

use divan::Bencher;
use phones::{NOW, Server, server};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::routing::NextHop;
use sip_elements::{Exchange, ExchangeOptions, Foreign, Question, Record};
use sip_message::digest::Algorithm;
use sip_routing::Policy;
use sip_routing::rule::{KnownNames, RuleDescription, RuleSet};
use sip_transport::{Flow, Listener, ListenerId, Node, Output, Protocol, Time};
use std::sync::Arc;
use std::time::Duration;

#[expect(dead_code, reason = "other benchmarks use more of it")]
mod phones;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CALLER: ([u8; 4], u16) = ([10, 0, 0, 1], 5062);
const CALLEE: ([u8; 4], u16) = ([10, 0, 0, 9], 5060);

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 20, sample_size = 1_000)]
fn without_state(bencher: Bencher<'_, '_>) {
    let rule = RuleDescription {
        name: "on".into(),
        stateless: Some("sip:10.0.0.9".into()),
        ..RuleDescription::default()
    };
    measure(bencher, rule);
}

#[divan::bench(sample_count = 20, sample_size = 1_000)]
fn with_transactions(bencher: Bencher<'_, '_>) {
    let rule = RuleDescription {
        name: "on".into(),
        local: true,
        ..RuleDescription::default()
    };
    measure(bencher, rule);
}

fn measure(bencher: Bencher<'_, '_>, rule: RuleDescription) {
    let mut line = Line::new(rule);
    for _ in 0..40_000 {
        line.call();
    }
    bencher.bench_local(|| line.call());
}

/// A server between a caller and a callee.
struct Line {
    exchange: Exchange,
    output: Output<Question, Record>,
    now: Time,
    calls: u64,
}

impl Line {
    fn new(rule: RuleDescription) -> Self {
        let Server {
            shared,
            mut settings,
        } = server(Algorithm::Md5);
        settings.listeners = vec![Listener {
            protocol: Protocol::Udp,
            address: ([10, 0, 0, 2], 5060).into(),
            prefix_length: 8,
            advertised: "10.0.0.2:5060".to_owned(),
            behind_balancer: false,
        }];
        settings.proxy.trusted_peers = ["10.0.0.1/32".parse().expect("a network")]
            .into_iter()
            .collect();
        settings.proxy.foreign = Foreign::Subscribers;
        settings.proxy.outbound = Some(NextHop::Address(CALLEE.into()));
        settings.proxy.record_route = false;
        let known = KnownNames {
            groups: &[],
            prefixes: &[],
            limits: &[],
            listeners: &settings.listeners,
            networks: &[],
        };
        settings.policy = Arc::new(Policy {
            rules: RuleSet::new(&[rule], &known, None).expect("a rule"),
            ..Policy::default()
        });
        Self {
            exchange: Exchange::new(ExchangeOptions {
                worker: 0,
                workers: 1,
                shared: Arc::new(shared),
                settings: Arc::new(settings),
                metrics: Arc::new(WorkerMetrics::default()),
                seed: [7; 32],
                now: NOW,
            }),
            output: Output::default(),
            now: NOW,
            calls: 0,
        }
    }

    /// A call, a millisecond after the one before. What its phones write is not in the figures of callgrind.
    fn call(&mut self) {
        self.calls += 1;
        let invite = invite(self.calls);
        self.relay_call(CALLER, &invite);
        let copy = self.output.outgoing().last().expect("a copy").range.clone();
        let copy = String::from_utf8_lossy(self.output.written(copy)).into_owned();
        self.output.clear();
        for status in ["100 Trying", "180 Ringing", "200 OK"] {
            let response = reply(&copy, status);
            self.relay_call(CALLEE, response.as_bytes());
            self.output.clear();
        }
        self.now = self.now + Duration::from_millis(1);
        if self
            .exchange
            .next_deadline()
            .is_some_and(|at| at <= self.now)
        {
            self.exchange.expire(self.now, &mut self.output);
            self.output.clear();
        }
    }

    #[inline(never)]
    fn relay_call(&mut self, from: ([u8; 4], u16), message: &[u8]) {
        let flow = Flow::to(ListenerId(0), from.into());
        self.exchange
            .receive(self.now, flow, message, &mut self.output);
    }
}

fn invite(number: u64) -> Vec<u8> {
    format!(
        "INVITE sip:+4930123@carrier.example SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1:5062;branch=z9hG4bK-{number:016x};rport\r\n\
         Max-Forwards: 70\r\nFrom: \"Alice\" <sip:alice@peer.example>;tag={number:016x}\r\nTo: <sip:+4930123@carrier.example>\r\n\
         Call-ID: {number:016x}@10.0.0.1\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@10.0.0.1:5062>\r\nUser-Agent: bench/1.0\r\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, UPDATE\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{SDP}",
        SDP.len(),
    )
    .into_bytes()
}

fn reply(request: &str, status: &str) -> String {
    let is_kept = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        ["Via", "From", "To", "Call-ID", "CSeq"].contains(&name)
    };
    let kept: Vec<&str> = request.split("\r\n").filter(is_kept).collect();
    let kept = kept
        .join("\r\n")
        .replace("example>\r\nCall", "example>;tag=b\r\nCall");
    format!("SIP/2.0 {status}\r\n{kept}\r\nContact: <sip:b@10.0.0.9>\r\nContent-Length: 0\r\n\r\n")
}

const SDP: &str = "v=0\r\no=alice 2890844526 2890844526 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n\
    m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";
