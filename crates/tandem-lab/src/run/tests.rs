//! Phones without sockets: the test is the server.

use super::arrivals::{Arrivals, Rate, Spacing};
use super::figures::{Figures, Kind};
use super::messages::{CALLEE, HASHER, Port, respond};
use super::options::PhoneOrder;
use super::phones::{Order, Phones, Plan, Source, Told};
use super::shared::{Division, Shared};
use super::timetable::Due;
use super::{CallShape, Subscribers};
use sip_message::{HeaderName, Message};
use sip_transaction::{Limits, TimerSettings, Transactions};
use sip_transport::{Flow, Input, Listener, ListenerId, Node, Output, Protocol, Time, Undelivered};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const SERVER: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    5060,
);

struct Bench {
    phones: Phones,
    output: Output<Box<Told>>,
    now: Time,
}

impl Bench {
    fn new(phones: u32) -> Self {
        Self::with(phones, false)
    }

    fn with(phones: u32, ignore_icmp: bool) -> Self {
        let listener = Listener {
            protocol: Protocol::Udp,
            address: ([127, 0, 0, 1], 40_000).into(),
            prefix_length: 8,
            advertised: "127.0.0.1:40000".into(),
            behind_balancer: false,
        };
        let plan = Plan {
            asks_phones: false,
            server: Some(SERVER),
            subscribers: Subscribers {
                first: 0,
                count: phones,
                user: "user{}".parse().expect("a pattern"),
                password: "password{}".parse().expect("a pattern"),
                domain: "example.org".into(),
            },
            call: CallShape::default(),
            reuse_nonces: true,
            expires: 3_600,
            most: 100,
            order: PhoneOrder::default(),
            ignore_icmp,
        };
        let now = Time::default();
        let limits = Limits {
            servers: 0,
            clients: 100,
            bytes: usize::MAX,
            amplification: 3,
        };
        let transactions = Transactions::new(now, TimerSettings::default(), limits, *HASHER, 0);
        let division = Division {
            first: 0,
            count: phones,
            threads: 1,
        };
        let ports: Arc<[Port]> = Arc::new([Port::new(&listener, ListenerId(0))]);
        let shared = Arc::new(Shared::new(division, vec![ports]));
        Self {
            phones: Phones::new(plan, (&shared, 0), transactions, (0, now)),
            output: Output::default(),
            now,
        }
    }

    fn order(&mut self, order: Order) {
        self.phones.control(self.now, order, &mut self.output);
    }

    /// Messages sent since the last call, and their flows.
    fn sent(&mut self) -> Vec<(Flow, Vec<u8>)> {
        let sent = self.output.outgoing().iter();
        let sent = sent.map(|sent| {
            let bytes = self.output.written(sent.range.clone());
            (sent.flow, bytes.to_vec())
        });
        let sent = sent.collect();
        self.output.clear();
        sent
    }

    /// Responds to everything with 200, and to REGISTER with these contacts beside the phone's own.
    fn answer_all(&mut self, others: &[&str]) {
        for (flow, request) in self.sent() {
            let request = Message::parse(&request).expect("a request");
            let mut response = Vec::new();
            respond(&request, (200, CALLEE), SERVER, |_| {}, &mut response);
            let own = request.header(HeaderName::Contact).unwrap_or_default();
            let contacts = others.iter().map(|other| format!("<{other}>"));
            let contacts = contacts.chain([String::from_utf8_lossy(own).into_owned()]);
            let contacts = contacts.collect::<Vec<_>>().join(", ");
            let head = String::from_utf8(response).expect("text");
            let response = head.replacen("\r\n", &format!("\r\nContact: {contacts}\r\n"), 1);
            self.phones
                .receive(self.now, flow, response.as_bytes(), &mut self.output);
        }
    }

    fn told(&mut self) -> (Figures, usize) {
        self.order(Order::Tell);
        let told = self.output.drain_questions().next_back().expect("told");
        (told.figures, told.in_progress)
    }
}

fn expires(request: &[u8]) -> String {
    let request = Message::parse(request).expect("a request");
    let value = request.header(HeaderName::Expires).expect("Expires");
    String::from_utf8_lossy(value).into_owned()
}

#[test]
fn a_request_that_comes_back_as_an_icmp_error_fails_at_once() {
    let mut bench = Bench::new(2);
    bench.order(Order::Populate(1));
    let (flow, request) = bench.sent().pop().expect("a REGISTER");
    let undelivered = Undelivered {
        flow,
        bytes: &request,
        handed_over: false,
    };
    let input = Input::Undeliverable(undelivered);
    bench.phones.handle(bench.now, input, &mut bench.output);
    let (figures, in_progress) = bench.told();
    assert_eq!(figures.ends(Kind::Register).failed, 1);
    let reason = ("registrations", "unreachable".to_owned());
    assert_eq!(figures.failures.get(&reason), Some(&1), "{figures:?}");
    assert_eq!(in_progress, 1, "the next phone has its turn");
}

#[test]
fn a_request_whose_icmp_error_is_ignored_is_sent_again() {
    let mut bench = Bench::with(2, true);
    bench.order(Order::Populate(1));
    let (flow, request) = bench.sent().pop().expect("a REGISTER");
    let undelivered = Undelivered {
        flow,
        bytes: &request,
        handed_over: false,
    };
    let input = Input::Undeliverable(undelivered);
    bench.phones.handle(bench.now, input, &mut bench.output);
    bench.now = bench.now + Duration::from_millis(500);
    bench.phones.expire(bench.now, &mut bench.output);
    let again = bench.sent();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, request);
    bench.answer_all(&[]);
    let (figures, _) = bench.told();
    assert_eq!(figures.ends(Kind::Register).failed, 0);
}

#[test]
fn phones_that_are_registered_deregister_and_no_others() {
    let mut bench = Bench::new(3);
    bench.order(Order::Populate(2));
    let first = bench.sent();
    assert_eq!(first.len(), 2);
    assert_eq!(expires(&first[0].1), "3600");
    // The first message is lost; the second and third get a response.
    let mut response = Vec::new();
    let request = Message::parse(&first[1].1).expect("a request");
    respond(&request, (200, CALLEE), SERVER, |_| {}, &mut response);
    bench
        .phones
        .receive(bench.now, first[1].0, &response, &mut bench.output);
    bench.answer_all(&[]);
    bench.order(Order::Leave);
    let last = bench.sent();
    let users: Vec<String> = last
        .iter()
        .map(|(_, request)| {
            assert_eq!(expires(request), "0");
            let request = Message::parse(request).expect("a request");
            String::from_utf8_lossy(request.header(HeaderName::To).expect("To")).into_owned()
        })
        .collect();
    assert_eq!(
        users,
        ["<sip:user1@example.org>", "<sip:user2@example.org>"]
    );
}

#[test]
fn contacts_that_are_not_a_phones_own_are_counted_once() {
    let mut bench = Bench::new(2);
    bench.order(Order::Populate(2));
    bench.answer_all(&["sip:user0@127.0.0.1:39999"]);
    assert_eq!(bench.told().0.shared_registrations, 2);
    bench.order(Order::Populate(2));
    bench.answer_all(&["sip:user0@127.0.0.1:39999"]);
    assert_eq!(bench.told().0.shared_registrations, 0, "told before");

    let mut bench = Bench::new(2);
    bench.order(Order::Populate(2));
    bench.answer_all(&[]);
    let (figures, in_progress) = bench.told();
    assert_eq!((figures.shared_registrations, in_progress), (0, 0));
}

#[test]
fn a_cancel_that_crosses_the_200_is_answered_with_200() {
    let mut bench = Bench::new(1);
    let request = |method: &str, call: &str| {
        format!(
            "{method} sip:user0@127.0.0.1:40000 SIP/2.0\r\n\
             Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{call}\r\n\
             From: <sip:caller@example.org>;tag=1\r\nTo: <sip:user0@example.org>\r\n\
             Call-ID: {call}\r\nCSeq: 1 {method}\r\nContact: <sip:caller@192.0.2.1>\r\nContent-Length: 0\r\n\r\n"
        )
    };
    let flow = Flow::to(ListenerId(0), SERVER);
    let mut statuses = |message: String| {
        let (now, bytes) = (bench.now, message.as_bytes());
        bench.phones.receive(now, flow, bytes, &mut bench.output);
        let sent = bench.sent().into_iter();
        let status = |bytes: &[u8]| Some(Message::parse(bytes).ok()?.status());
        sent.filter_map(|(_, bytes)| status(&bytes))
            .collect::<Vec<u16>>()
    };
    assert_eq!(statuses(request("INVITE", "known")), [180, 200]);
    assert_eq!(statuses(request("CANCEL", "known")), [200]);
    assert_eq!(statuses(request("CANCEL", "unknown")), [481]);
}

#[test]
fn a_unit_that_ends_well_counts_as_goodput_only_within_ten_seconds() {
    for (seconds, in_time) in [(9, 1), (12, 0)] {
        let mut bench = Bench::new(1);
        let arrivals = Arrivals::new(Rate::Constant(1.0), Spacing::Regular, 0);
        let source = Source {
            kind: Kind::Register,
            arrivals: Due::Paced(Box::new(arrivals)),
        };
        bench.order(Order::Begin(vec![source], Duration::from_secs(1)));
        bench.now = bench.now + Duration::from_secs(1);
        bench.order(Order::Break);
        bench.now = bench.now + Duration::from_secs(seconds);
        bench.answer_all(&[]);
        let (figures, _) = bench.told();
        assert_eq!(figures.ends(Kind::Register).succeeded, 1);
        let cohorts = figures.cohorts.values();
        let counts = cohorts.map(|cohort| (cohort.attempted, cohort.succeeded));
        assert_eq!(counts.collect::<Vec<_>>(), [(1, in_time)], "{seconds} s");
    }
}
