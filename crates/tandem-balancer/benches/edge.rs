//! What an edge spends on the messages of W5 and W5c, without the kernel: an OPTIONS with its response, and a call (INVITE-180-200, ACK, BYE-200) with
//! Record-Route. Also counts allocations: the path of a message has none.
//!
//! Instructions: `valgrind --tool=callgrind --toggle-collect='*Line*relay*' BENCH --bench --sample-count 1 --sample-size 1000 call`, where BENCH is the
//! program that `cargo bench -p tandem-balancer --bench edge --no-run` names. Divide by 1,000.

use divan::{AllocProfiler, Bencher};
use sip_message::{HeaderName, KeyHasher, Message};
use sip_transport::{
    Flow, Input, Listener, ListenerId, Node as _, Output, Protocol, Received, Time,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tandem_balancer::{
    Edge, EdgeMetrics, EdgeOptions, Member, Members, Question, Settings, Shared, Unanswered,
};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const NODES: u8 = 3;
/// Requests that are prepared, so that writing them does not count.
const PREPARED: u64 = 1_000;

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 20, sample_size = 1_000)]
fn options(bencher: Bencher<'_, '_>) {
    let mut line = Line::new();
    let steps = line.prepare(Line::options);
    line.measure(bencher, &steps);
}

#[divan::bench(sample_count = 20, sample_size = 1_000)]
fn call(bencher: Bencher<'_, '_>) {
    let mut line = Line::new();
    let steps = line.prepare(Line::call);
    line.measure(bencher, &steps);
}

/// A message, and the flow that it arrives on.
type Step = (Flow, Vec<u8>);

/// An edge between phones and nodes.
struct Line {
    edge: Edge,
    output: Output<Question>,
    now: Time,
}

impl Line {
    fn new() -> Self {
        let settings = Settings::new(vec![Listener {
            protocol: Protocol::Udp,
            address: address(1, 5060),
            prefix_length: 8,
            advertised: address(1, 5060).to_string(),
            behind_balancer: false,
        }]);
        let member = |number: u8| Member {
            identity: format!("node-{number}"),
            number: u32::from(number),
            address: address(100 + number, 5060),
            has_tcp: false,
            is_draining: false,
        };
        let members = Members::new((1..=NODES).map(member).collect(), &settings, 1, None);
        let now = Time::from_unix_seconds(1_000_000);
        let edge = Edge::new(EdgeOptions {
            worker: 0,
            shared: Arc::new(Shared {
                hasher: KeyHasher::new((7, 8)),
                unanswered: Unanswered::new(1 << 20),
            }),
            settings: Arc::new(settings),
            members: Arc::new(members.expect("a set")),
            metrics: Arc::new(EdgeMetrics::default()),
            now,
        });
        let mut line = Self {
            edge,
            output: Output::default(),
            now,
        };
        line.answer_probes();
        line
    }

    fn answer_probes(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        self.edge.expire(self.now, &mut self.output);
        let probes: Vec<Step> = self.sent();
        assert_eq!(probes.len(), usize::from(NODES));
        for (flow, probe) in probes {
            self.receive(flow, &answer(&probe, 200));
        }
    }

    /// What the edge sent, each with its destination. Clears the output.
    fn sent(&mut self) -> Vec<Step> {
        let output = &self.output;
        let sent = output.outgoing().iter();
        let sent = sent.map(|sent| (sent.flow, output.written(sent.range.clone()).to_vec()));
        let sent = sent.collect();
        self.output.clear();
        sent
    }

    /// Receives a message, and returns the one that it causes.
    fn one(&mut self, (flow, bytes): &Step) -> Step {
        self.receive(*flow, bytes);
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{}", String::from_utf8_lossy(bytes));
        sent.remove(0)
    }

    fn prepare(&mut self, unit: impl Fn(&mut Self, u64) -> Vec<Step>) -> Vec<Vec<Step>> {
        (0..PREPARED).map(|number| unit(self, number)).collect()
    }

    fn options(&mut self, number: u64) -> Vec<Step> {
        let options = (phone(number), request("OPTIONS", number, "", ""));
        let (node, copy) = self.one(&options);
        vec![options, (node, answer(&copy, 200))]
    }

    fn call(&mut self, number: u64) -> Vec<Step> {
        let invite = (phone(number), request("INVITE", number, "", SDP));
        let (node, copy) = self.one(&invite);
        let mut steps = vec![invite];
        steps.extend([180, 200].map(|status| (node, answer(&copy, status))));
        let recorded = Message::parse(&copy).expect("a request");
        let recorded = recorded.header(HeaderName::RecordRoute);
        let recorded = String::from_utf8_lossy(recorded.expect("a value")).into_owned();
        let route = format!("Route: {recorded}\r\n");
        for method in ["ACK", "BYE"] {
            steps.push((phone(number), request(method, number, &route, "")));
        }
        let (node, copy) = self.one(&steps[4]);
        steps.push((node, answer(&copy, 200)));
        steps
    }

    fn measure(&mut self, bencher: Bencher<'_, '_>, units: &[Vec<Step>]) {
        let mut next = units.iter().cycle();
        bencher.bench_local(|| {
            for (flow, message) in next.next().into_iter().flatten() {
                self.relay(*flow, message);
                assert_eq!(self.output.outgoing().len(), 1);
                self.output.clear();
            }
        });
    }

    /// What counts.
    #[inline(never)]
    fn relay(&mut self, flow: Flow, message: &[u8]) {
        self.receive(flow, message);
    }

    fn receive(&mut self, flow: Flow, message: &[u8]) {
        let received = Received::new(self.now, flow, message);
        self.edge
            .handle(self.now, Input::Received(received), &mut self.output);
    }
}

fn address(last: u8, port: u16) -> SocketAddr {
    ([10, 0, 0, last], port).into()
}

/// Each phone has an address of its own.
fn phone(number: u64) -> Flow {
    let [.., high, low] = number.to_be_bytes();
    Flow::to(ListenerId(0), ([10, 1, high, low], 15_090).into())
}

fn request(method: &str, number: u64, routes: &str, body: &str) -> Vec<u8> {
    let from = phone(number).remote;
    let callee = if routes.is_empty() { "" } else { ";tag=callee" };
    let kind = if body.is_empty() {
        ""
    } else {
        "Content-Type: application/sdp\r\n"
    };
    format!(
        "{method} sip:49300000001@tandem.localhost SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{number:032x}{method};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:49300000002@tandem.localhost>;tag={number:016x}\r\nCall-ID: {number:016x}@lab\r\nCSeq: 1 {method}\r\n\
         {routes}To: <sip:49300000001@tandem.localhost>{callee}\r\nContact: <sip:49300000002@{from}>\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len(),
    )
    .into_bytes()
}

fn answer(request: &[u8], status: u16) -> Vec<u8> {
    let request = Message::parse(request).expect("a request");
    let mut text = format!("SIP/2.0 {status} Status\r\n");
    for header in request.headers() {
        let tag = match header.name {
            HeaderName::To if !header.value.ends_with(b"tag=callee") => ";tag=callee",
            HeaderName::To
            | HeaderName::Via
            | HeaderName::From
            | HeaderName::CallId
            | HeaderName::CSeq
            | HeaderName::RecordRoute => "",
            _ => continue,
        };
        let (name, value) = (header.name_bytes, header.value);
        let line = [name, b": ", value, tag.as_bytes(), b"\r\n"].concat();
        text.push_str(&String::from_utf8_lossy(&line));
    }
    let body = if status == 200 && request.method() == sip_message::Method::Invite {
        SDP
    } else {
        ""
    };
    let length = body.len();
    format!(
        "{text}Contact: <sip:49300000001@10.0.0.101:5060>\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

const SDP: &str = "v=0\r\no=phone 2890844526 2890844526 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 49170 RTP/AVP 0 8 101\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n\
    a=rtpmap:101 telephone-event/8000\r\na=sendrecv\r\n";
