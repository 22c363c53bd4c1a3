//! The response to a request that the worker sheds because of overload.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status,
};
use sip_elements::metrics::DropReason;
use sip_transport::overload::Urgency;
use sip_transport::{Flow, ListenerId, Networks, Node, Received};
use std::net::SocketAddr;
use std::time::Duration;

const CALLEE: &str = "sip:bob@example.org";

impl Bench {
    /// Receives a request that its worker sheds. Returns what the node sends.
    fn refuse(&mut self, from: &str, message: &str) -> Vec<(SocketAddr, String)> {
        let message = message.replace('\n', "\r\n");
        let message = Received::new(self.now, flow(from), message.as_bytes());
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

#[test]
fn what_is_given_up_is_not_judged_but_needs_what_an_answer_is_made_of() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let broken = invite("b1", "Contact: <sip:alice\n");
    let judged = only(bench.receive(ALICE, &broken));
    assert_eq!(status(&judged), 400);
    let refused = only(bench.refuse(ALICE, &broken));
    assert_eq!(status(&refused), 503);
    for line in ["Via: ", "From: ", "To: ", "Call-ID: ", "CSeq: "] {
        let lacking = invite("b2", "").replace(line, "X-Was: ");
        let answers = bench.refuse(ALICE, &lacking);
        assert!(
            answers.iter().all(|(_, it)| status(it) == 400),
            "{answers:?}"
        );
    }
}

const NOBODY: &str = "sip:nobody@example.org";

fn tag_of(refusal: &str) -> &str {
    let (_, tag) = refusal.split_once("\r\nTo: ").expect("To");
    let (_, tag) = tag.split_once(";tag=").expect("a tag of ours");
    tag.lines().next().unwrap_or_default()
}

/// Sends the ACK for an error response.
fn acknowledge(bench: &mut Bench, branch: &str, tag: &str, extra: &str) {
    let ack = request("ACK", NOBODY, "sip:alice@example.org", branch, extra);
    let to = format!("To: <{NOBODY}>");
    let ack = ack.replace(&to, &format!("{to};tag={tag}"));
    assert_eq!(bench.receive(ALICE, &ack), vec![]);
}

#[test]
fn the_ack_of_a_refusal_ends_before_it_is_judged() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let call =
        |branch, extra: &str| request("INVITE", NOBODY, "sip:alice@example.org", branch, extra);
    // Without state: the tag distinguishes this ACK from one for a response of another server.
    let challenge = only(bench.receive(ALICE, &call("n1", "")));
    assert_eq!(status(&challenge), 407);
    for (tag, strays) in [(tag_of(&challenge), 0), ("0123456789abcdef", 1)] {
        acknowledge(&mut bench, "n1", tag, "");
        assert_eq!(
            bench.metrics.drops[DropReason::StrayAck as usize].value(),
            strays
        );
    }
    // With state: after the ACK, the response is not retransmitted.
    let credentials = answer_challenge(&challenge, "alice", "INVITE", NOBODY);
    let proof = format!("Proxy-Authorization: {credentials}\n");
    let trying = only(bench.receive(ALICE, &call("n2", &proof)));
    assert_eq!(status(&trying), 100);
    let question = bench.question().expect("is there such a subscriber?");
    let refusal = only(bench.answer(question));
    assert_eq!(status(&refusal), 404);
    let again = only(bench.wait(Duration::from_millis(500)));
    assert_eq!(status(&again), 404);
    // The ACK counts, whatever else is wrong with it.
    acknowledge(&mut bench, "n2", tag_of(&refusal), "Route: <sip:a\n");
    assert_eq!(bench.wait(Duration::from_secs(2)), vec![]);
}
