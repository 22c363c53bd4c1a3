//! What a gateway does with each request, without a socket.

use super::calls::Calls;
use super::{Behaviour, Counts};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const AT: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 50)),
    5060,
);

struct Bench {
    calls: Calls,
    behaviour: Behaviour,
    now: Instant,
}

impl Bench {
    fn new(behaviour: Behaviour) -> Self {
        Self {
            calls: Calls::new(AT),
            behaviour,
            now: Instant::now(),
        }
    }

    /// The responses to a request of the call `call-1`.
    fn sent(&mut self, method: &str, branch: &str, cseq: u32) -> Vec<String> {
        let request = format!(
            "{method} sip:4930123@192.0.2.50 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{branch}\r\n\
             From: <sip:alice@example.org>;tag=a\r\nTo: <sip:4930123@example.org>\r\nCall-ID: call-1\r\n\
             CSeq: {cseq} {method}\r\nContact: <sip:alice@192.0.2.2>\r\nContent-Length: 0\r\n\r\n"
        );
        let mut sent = Vec::new();
        let mut send = |bytes: &[u8], _| sent.push(String::from_utf8_lossy(bytes).into_owned());
        let from = ([192, 0, 2, 1], 5060).into();
        let (now, behaviour) = (self.now, self.behaviour);
        self.calls
            .receive(now, request.as_bytes(), from, behaviour, &mut send);
        sent
    }

    /// The status codes of these responses.
    fn statuses(&mut self, method: &str, branch: &str, cseq: u32) -> Vec<String> {
        let sent = self.sent(method, branch, cseq);
        sent.iter().map(|it| it[8..11].to_owned()).collect()
    }

    /// What it sends in this time without a request.
    fn wait(&mut self, time: Duration) -> Vec<String> {
        self.now += time;
        let mut sent = Vec::new();
        let mut send = |bytes: &[u8], _| sent.push(String::from_utf8_lossy(bytes).into_owned());
        self.calls.expire(self.now, &mut send);
        sent
    }

    fn counts(&self) -> Counts {
        self.calls.counts
    }
}

#[test]
fn a_call_is_answered_acknowledged_and_ended_once() {
    let mut bench = Bench::new(Behaviour::Answering);
    let answers = bench.sent("INVITE", "1", 1);
    assert!(answers[0].starts_with("SIP/2.0 180 "), "{answers:?}");
    let answer = &answers[1];
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(
        answer.contains("Contact: <sip:gateway@192.0.2.50:5060>"),
        "{answer}"
    );
    assert_eq!(bench.counts().live, 1);
    assert!(bench.statuses("ACK", "2", 1).is_empty());
    assert_eq!(bench.wait(Duration::from_secs(10)), [""; 0]);
    assert_eq!(bench.statuses("BYE", "3", 2), ["200"]);
    assert_eq!(bench.statuses("BYE", "3", 2), ["200"], "a retransmission");
    let expected = Counts {
        calls: 1,
        answered: 1,
        acknowledged: 1,
        ended: 1,
        retransmissions_received: 1,
        ..Counts::default()
    };
    assert_eq!(bench.counts(), expected);
}

#[test]
fn the_200_is_repeated_until_the_ack_and_without_one_the_call_ends() {
    let mut bench = Bench::new(Behaviour::Answering);
    let answer = &bench.sent("INVITE", "1", 1)[1..];
    for pause in [500, 1_000, 2_000, 4_000] {
        assert_eq!(bench.wait(Duration::from_millis(pause - 1)), [""; 0]);
        assert_eq!(bench.wait(Duration::from_millis(1)), *answer);
    }
    assert_eq!(bench.sent("INVITE", "1", 1), *answer, "a retransmission");
    bench.wait(Duration::from_secs(40));
    let counts = bench.counts();
    assert_eq!(
        (counts.unacknowledged, counts.ended, counts.live),
        (1, 1, 0)
    );
    assert_eq!(counts.calls, 1);
}

#[test]
fn a_call_that_arrives_twice_gets_482_and_one_with_new_credentials_begins_anew() {
    let mut bench = Bench::new(Behaviour::Answering);
    bench.sent("INVITE", "1", 1);
    assert_eq!(bench.statuses("INVITE", "2", 1), ["482"]);
    assert_eq!(bench.statuses("INVITE", "3", 2), ["180", "200"]);
    let counts = bench.counts();
    assert_eq!((counts.merged, counts.replaced), (1, 1));
    assert_eq!((counts.calls, counts.live), (2, 1));
}

#[test]
fn a_gateway_misbehaves_as_told() {
    let mut bench = Bench::new(Behaviour::Trying);
    assert_eq!(bench.statuses("INVITE", "1", 1), ["100"]);
    assert_eq!(bench.statuses("CANCEL", "1", 1), ["200", "487"]);
    assert_eq!(bench.counts().cancelled, 1);

    let mut bench = Bench::new(Behaviour::Refusing(503));
    assert_eq!(bench.statuses("INVITE", "1", 1), ["503"]);
    assert_eq!(bench.statuses("OPTIONS", "2", 1), ["200"]);
    assert_eq!(bench.statuses("BYE", "3", 2), ["481"]);

    let mut bench = Bench::new(Behaviour::FailingProbes(503));
    assert_eq!(bench.statuses("OPTIONS", "1", 1), ["503"]);
    assert_eq!(bench.statuses("INVITE", "2", 1), ["180", "200"]);

    let mut bench = Bench::new(Behaviour::Agreeing);
    for method in ["BYE", "CANCEL", "ACK", "OPTIONS", "MESSAGE"] {
        assert_eq!(bench.statuses(method, "1", 1), ["200"], "{method}");
    }

    let mut bench = Bench::new(Behaviour::Silent);
    for method in ["INVITE", "OPTIONS"] {
        assert!(bench.statuses(method, "1", 1).is_empty(), "{method}");
    }
    assert_eq!(bench.counts().ignored, 2);
}
