//! Metrics: how long messages took from their arrival, and why challenges were sent.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status,
};
use sip_elements::metrics::{CHALLENGES, Latency, STAGES};
use sip_message::{Message, Method, ResponseWriter};
use sip_transport::{Counter, Flow, Input, ListenerId, Node, Received};
use std::time::Duration;

const WAITED: Duration = Duration::from_secs(2);

impl Bench {
    /// Receives a message that arrived two seconds ago. Returns what the node sends.
    fn receive_late(&mut self, from: &str, message: &str) -> Vec<(std::net::SocketAddr, String)> {
        let arrived = self.now;
        self.now = self.now + WAITED;
        let message = message.replace('\n', "\r\n");
        let flow = Flow::to(ListenerId(0), from.parse().expect("address"));
        let message = Received::new(arrived, flow, message.as_bytes());
        self.exchange
            .handle(self.now, Input::Received(message), &mut self.output);
        self.sent()
    }

    fn stage(&self, label: &str) -> Duration {
        let place = STAGES.iter().position(|known| *known == label);
        sum(&self.metrics.stages[place.expect("a stage")])
    }
}

const CALLEE: &str = "sip:bob@example.org";

fn invite(branch: &str, extra: &str) -> String {
    request("INVITE", CALLEE, "sip:alice@example.org", branch, extra)
}

/// The response of a phone.
fn reply(request: &str, status: u16) -> String {
    let request = Message::parse(request.as_bytes()).expect("a request");
    let mut response = Vec::new();
    let phone = BOB.parse().expect("address");
    ResponseWriter::begin(&mut response, &request, phone, status, "", Some(b"b1")).finish();
    String::from_utf8(response)
        .expect("text")
        .replace("\r\n", "\n")
}

fn sum(latency: &Latency) -> Duration {
    Duration::from_micros(latency.sum.value())
}

#[test]
fn the_clock_starts_when_a_message_arrives() {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    assert_eq!(sum(&bench.metrics.queueing), Duration::ZERO);

    let challenge = only(bench.receive_late(ALICE, &invite("c1", "")));
    assert_eq!(status(&challenge), 407);
    assert_eq!(bench.stage("invite_to_challenge"), WAITED);
    assert_eq!(sum(&bench.metrics.queueing), WAITED);
    let of_invite = sum(&bench.metrics.latency[Method::Invite.label_index()]);
    assert_eq!(of_invite, WAITED, "a stateless answer takes time, too");

    let credentials = answer_challenge(&challenge, "alice", "INVITE", CALLEE);
    let proof = format!("Proxy-Authorization: {credentials}\n");
    let sent = bench.receive_late(ALICE, &invite("c2", &proof));
    let [_, (_, forwarded)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert_eq!(bench.stage("invite_to_forwarded"), WAITED);

    let answer = reply(forwarded, 200);
    assert_eq!(bench.receive_late(BOB, &answer).len(), 1);
    assert_eq!(bench.stage("answer_to_forwarded"), WAITED);
    let of_invite = sum(&bench.metrics.latency[Method::Invite.label_index()]);
    assert_eq!(
        of_invite,
        WAITED * 3,
        "from the arrival to the final answer"
    );

    assert_eq!(bench.stage("register_to_final"), Duration::ZERO);
    let challenge = only(bench.receive_late(ALICE, &register("alice", ALICE, 1, "")));
    let credentials = answer_challenge(&challenge, "alice", "REGISTER", "sip:example.org");
    let proof = format!("Authorization: {credentials}\n");
    let response = only(bench.receive_late(ALICE, &register("alice", ALICE, 2, &proof)));
    assert_eq!(status(&response), 200);
    assert_eq!(bench.stage("register_to_final"), WAITED);
}

#[test]
fn failed_logins_are_counted_apart_from_first_challenges() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let challenge = only(bench.receive(ALICE, &register("alice", ALICE, 1, "")));
    // The password of another user.
    let wrong = answer_challenge(&challenge, "bob", "REGISTER", "sip:example.org")
        .replace("username=\"bob\"", "username=\"alice\"");
    let elsewhere = wrong.replace("example.org", "example.net");
    for (cseq, credentials) in [(2, wrong), (3, elsewhere)] {
        let extra = format!("Authorization: {credentials}\n");
        let mut sent = bench.receive(ALICE, &register("alice", ALICE, cseq, &extra));
        // The node asks the store whether the password has changed.
        if let Some(question) = bench.question() {
            sent = bench.answer(question);
        }
        assert_eq!(status(&only(sent)), 401);
    }
    let counts: Vec<(&str, u64)> = CHALLENGES
        .into_iter()
        .zip(bench.metrics.challenges.iter().map(Counter::value))
        .collect();
    assert_eq!(counts, [("first", 2), ("stale", 0), ("failed", 1)]);
    let of_register = &bench.metrics.responses_by_method[Method::Register.label_index()];
    assert_eq!(of_register[3].value(), 3, "4xx");
}
