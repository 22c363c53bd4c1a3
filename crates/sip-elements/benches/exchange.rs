//! What an exchange spends on a message from its bytes to the bytes of the answer: a registration that is challenged first (workload W2c),
//! and an INVITE that is given up in overload, with the ACK of its 503.
//!
//! Instructions are repeatable on a busy machine: `valgrind --tool=callgrind --toggle-collect='*refused_by*' BENCH --bench --sample-count 1
//! --sample-size 200 refused_in_overload`, where BENCH is the program that `cargo bench -p sip-elements --bench exchange --no-run` names.

use divan::Bencher;
use phones::{NOW, Phone, Register, Server, server};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{Exchange, ExchangeOptions, Question, Record};
use sip_message::digest::Algorithm;
use sip_transport::overload::Urgency;
use sip_transport::{Flow, ListenerId, Node, Output, Received};
use std::sync::Arc;

#[expect(dead_code, reason = "other benchmarks use more of it")]
mod phones;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PHONES: u32 = 1_000;

fn main() {
    divan::main();
}

/// A REGISTER without credentials, and one with them, each answered.
#[divan::bench(sample_count = 10, sample_size = 1_000)]
fn registered_with_challenge(bencher: Bencher<'_, '_>) {
    let (mut exchange, mut phones) = exchange_with_phones();
    let mut output = Output::default();
    let mut place = 0;
    for phone in &mut phones {
        let registers = registers_of(phone);
        register_with(&mut exchange, &registers, &mut output);
    }
    bencher
        .with_inputs(|| {
            place = (place + 271) % phones.len();
            registers_of(&mut phones[place])
        })
        .bench_local_refs(|registers| register_with(&mut exchange, registers, &mut output));
}

/// An INVITE that is read, looked at and refused, and the ACK of the refusal.
#[divan::bench(sample_count = 10, sample_size = 1_000)]
fn refused_in_overload(bencher: Bencher<'_, '_>) {
    let (mut exchange, _) = exchange_with_phones();
    let mut output = Output::default();
    let mut number = 0;
    let (mut answering, _) = exchange_with_phones();
    bencher
        .with_inputs(|| {
            number += 1;
            let invite = request("INVITE", number, "");
            let tag = to_tag_of_refusal(&mut answering, &invite);
            (invite, request("ACK", number, &tag))
        })
        .bench_local_refs(|(invite, ack)| refused_by(&mut exchange, invite, ack, &mut output));
}

#[inline(never)]
fn register_with(
    exchange: &mut Exchange,
    [bare, proven]: &[Register; 2],
    output: &mut Output<Question, Record>,
) {
    exchange.receive(NOW, bare.flow, &bare.bytes, output);
    exchange.receive(NOW, proven.flow, &proven.bytes, output);
    assert_eq!(output.outgoing().len(), 2);
    output.clear();
}

#[inline(never)]
fn refused_by(
    exchange: &mut Exchange,
    invite: &[u8],
    ack: &[u8],
    output: &mut Output<Question, Record>,
) {
    let flow = flow();
    assert_eq!(exchange.urgency(flow, invite), Urgency::New);
    exchange.refuse(NOW, Received::new(NOW, flow, invite), output);
    assert_eq!(output.outgoing().len(), 1);
    exchange.urgency(flow, ack);
    exchange.receive(NOW, flow, ack, output);
    assert_eq!(output.outgoing().len(), 1);
    output.clear();
}

fn flow() -> Flow {
    Flow::to(ListenerId(0), ([10, 0, 0, 1], 5062).into())
}

fn exchange_with_phones() -> (Exchange, Vec<Phone>) {
    let server = server(Algorithm::Md5);
    let phones = (0..PHONES).map(|number| Phone::new(&server, number));
    let phones = phones.collect();
    let Server { shared, settings } = server;
    let exchange = Exchange::new(ExchangeOptions {
        worker: 0,
        workers: 1,
        shared: Arc::new(shared),
        settings: Arc::new(settings),
        metrics: Arc::new(WorkerMetrics::default()),
        seed: [7; 32],
        now: NOW,
    });
    (exchange, phones)
}

/// A REGISTER as a phone begins, and with credentials.
fn registers_of(phone: &mut Phone) -> [Register; 2] {
    let proven = phone.next_register(Algorithm::Md5);
    let text = String::from_utf8_lossy(&proven.bytes);
    let lines = text.split_inclusive('\n');
    let bare: String = lines
        .filter(|line| !line.starts_with("Authorization"))
        .collect();
    let bare = Register {
        address: proven.address.clone(),
        flow: proven.flow,
        bytes: bare.into_bytes(),
    };
    [bare, proven]
}

fn to_tag_of_refusal(exchange: &mut Exchange, invite: &[u8]) -> String {
    let mut output = Output::default();
    exchange.refuse(NOW, Received::new(NOW, flow(), invite), &mut output);
    let response = sip_message::Message::parse(output.bytes()).expect("a response");
    assert_eq!(response.status(), 503);
    let tag = response.to().and_then(|to| to.tag()).unwrap_or_default();
    format!(";tag={}", String::from_utf8_lossy(tag))
}

fn request(method: &str, number: u32, to_tag: &str) -> Vec<u8> {
    let body = if method == "INVITE" { SDP } else { "" };
    let more = if method == "INVITE" {
        "Contact: <sip:alice@10.0.0.1:5062>\r\nUser-Agent: bench/1.0\r\n\
         Allow: INVITE, ACK, BYE, CANCEL, OPTIONS, UPDATE\r\nContent-Type: application/sdp\r\n"
    } else {
        ""
    };
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.0.1:5062;branch=z9hG4bK-{number:016x};rport\r\n\
         Max-Forwards: 70\r\nFrom: \"Alice\" <sip:alice@example.org>;tag={number:016x}\r\nTo: <sip:bob@example.org>{to_tag}\r\n\
         Call-ID: {number:016x}@10.0.0.1\r\nCSeq: 1 {method}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        body.len(),
    )
    .into_bytes()
}

const SDP: &str = "v=0\r\no=alice 2890844526 2890844526 IN IP4 10.0.0.1\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n\
    m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
    a=fmtp:101 0-15\r\na=ptime:20\r\na=sendrecv\r\n";
