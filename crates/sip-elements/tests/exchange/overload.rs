//! What a caller hears when his request is given up because too many come.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status,
};
use sip_transport::overload::Urgency;
use sip_transport::{Flow, ListenerId, Networks, Node, Received};
use std::net::SocketAddr;

const CALLEE: &str = "sip:bob@example.org";

impl Bench {
    /// A request that its worker gave up; what comes out.
    fn refuse(&mut self, from: &str, message: &str) -> Vec<(SocketAddr, String)> {
        let message = message.replace('\n', "\r\n");
        let message = Received {
            arrived: self.now,
            flow: flow(from),
            bytes: message.as_bytes(),
            handed_over: false,
            over_our_connection: false,
        };
        self.exchange.refuse(self.now, message, &mut self.output);
        self.sent()
    }
}

fn flow(from: &str) -> Flow {
    Flow::to(ListenerId(0), from.parse().expect("address"))
}

fn invite(branch: &str, extra: &str) -> String {
    request("INVITE", CALLEE, "sip:alice@example.org", branch, extra)
}

#[test]
fn a_new_request_gets_503_without_state_and_not_all_come_back_at_once() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let mut pauses = std::collections::BTreeSet::new();
    for place in 0..100 {
        let refused = only(bench.refuse(ALICE, &invite(&format!("r{place}"), "")));
        assert_eq!(status(&refused), 503);
        let (_, rest) = refused.split_once("Retry-After: ").expect("a pause");
        let seconds: u32 = rest
            .lines()
            .next()
            .expect("a line")
            .parse()
            .expect("seconds");
        assert!((7..=14).contains(&seconds), "{seconds}");
        pauses.insert(seconds);
    }
    assert!(pauses.len() > 4, "{pauses:?}");
    assert_eq!(bench.exchange.transaction_stats().servers_created, 0);
    let refused = only(bench.refuse(ALICE, &register("alice", ALICE, 1, "")));
    assert_eq!(status(&refused), 503);
}

#[test]
fn a_request_that_is_being_served_is_not_refused() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    let challenge = only(bench.receive(ALICE, &invite("s1", "")));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", CALLEE);
    let proof = format!("Proxy-Authorization: {credentials}\n");
    let proven = invite("s2", &proof);
    assert_eq!(bench.receive(ALICE, &proven).len(), 2);
    let again = only(bench.refuse(ALICE, &proven));
    assert_eq!(status(&again), 100, "the retransmission is absorbed");
}

#[test]
fn a_trusted_peer_counts_as_proven() {
    let mut settings = settings();
    settings.proxy.trusted_peers = Networks::new(["192.0.2.20/32".parse().expect("a network")]);
    let bench = Bench::new(settings);
    let bytes = invite("t1", "");
    let of = |from| bench.exchange.urgency(flow(from), bytes.as_bytes());
    assert_eq!((of(ALICE), of(BOB)), (Urgency::New, Urgency::Proven));
}
