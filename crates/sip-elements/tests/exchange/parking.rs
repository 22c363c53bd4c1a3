//! Requests that wait for the control plane.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status, stored,
};
use sip_elements::ControlMessage;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Node, Protocol};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn an_uncached_subscriber_is_asked_for_and_the_request_goes_on() {
    let mut bench = Bench::new(settings());
    let challenge = only(bench.receive(ALICE, &register("alice", ALICE, 1, "")));
    let credentials = answer_challenge(&challenge, "alice", "REGISTER", "sip:example.org");
    let message = register(
        "alice",
        ALICE,
        2,
        &format!("Authorization: {credentials}\n"),
    );
    assert_eq!(bench.receive(ALICE, &message), vec![], "parked");
    assert_eq!(bench.exchange.parked(), 1);
    assert_eq!(
        bench.receive(ALICE, &message),
        vec![],
        "its retransmission asks nothing again"
    );
    let question = bench.question().expect("whose credentials");
    assert!(bench.question().is_none());
    assert_eq!(status(&only(bench.answer(question))), 200);
    assert_eq!(bench.exchange.parked(), 0);
}

#[test]
fn a_shorter_deadline_holds_for_requests_that_come_after_it() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings.clone());
    let invite = |branch| {
        let (callee, caller) = ("sip:bob@example.org", "sip:alice@example.org");
        request("INVITE", callee, caller, branch, "")
    };
    assert_eq!(status(&only(bench.receive(ALICE, &invite("old")))), 100);
    settings.question_deadline = Duration::from_secs(1);
    let reload = ControlMessage::Settings(Arc::new(settings));
    bench.exchange.control(bench.now, reload, &mut bench.output);
    assert_eq!(status(&only(bench.receive(ALICE, &invite("new")))), 100);
    let refused = only(bench.wait(Duration::from_secs(1)));
    assert_eq!(status(&refused), 500);
    assert!(refused.contains("branch=z9hG4bKnew"), "{refused}");
    let later = bench.wait(Duration::from_secs(4));
    assert!(
        later
            .iter()
            .any(|(_, sent)| sent.contains("SIP/2.0 500") && sent.contains("branch=z9hG4bKold")),
        "{later:#?}"
    );
}

#[test]
fn an_invite_that_waited_gets_100_once() {
    let mut bench = Bench::new(settings());
    bench
        .shared
        .credentials
        .insert(b"bob", b"example.org", Some(stored("bob")), bench.now);
    bench.register("bob", BOB);
    let invite = |branch, extra: &str| {
        request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            branch,
            extra,
        )
    };
    let challenge = only(bench.receive(ALICE, &invite("i1", "")));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let proven = invite("i2", &format!("Proxy-Authorization: {credentials}\n"));
    assert_eq!(status(&only(bench.receive(ALICE, &proven))), 100);
    let question = bench.question().expect("whose credentials");
    let forwarded = only(bench.answer(question));
    assert!(forwarded.starts_with("INVITE "), "{forwarded}");
    let again = only(bench.receive(ALICE, &proven));
    assert_eq!(status(&again), 100, "its retransmission gets it again");
}

/// The transaction keeps no copy of a 100 that it sent over a connection.
#[test]
fn an_invite_over_tcp_that_waited_gets_100_once() {
    let mut settings = settings();
    let tcp = Listener {
        protocol: Protocol::Tcp,
        ..settings.listeners[0].clone()
    };
    settings.listeners.push(tcp);
    let mut bench = Bench::new(settings);
    bench
        .shared
        .credentials
        .insert(b"bob", b"example.org", Some(stored("bob")), bench.now);
    bench.register("bob", BOB);
    let flow = Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(0, 7),
        remote: ALICE.parse().expect("an address"),
    };
    let bob = "sip:bob@example.org";
    let invite =
        |branch, extra: &str| request("INVITE", bob, "sip:alice@example.org", branch, extra);
    let challenge = bench.receive_on(flow, &invite("i1", ""));
    let credentials = answer_challenge(&challenge[0].1, "alice", "INVITE", bob);
    let proven = invite("i2", &format!("Proxy-Authorization: {credentials}\n"));
    let trying = bench.receive_on(flow, &proven);
    assert_eq!((trying.len(), status(&trying[0].1)), (1, 100));
    let question = bench.question().expect("whose credentials");
    let forwarded = only(bench.answer(question));
    assert!(forwarded.starts_with("INVITE "), "{forwarded}");
}

#[test]
fn a_request_that_waited_for_its_callee_is_not_authenticated_again() {
    let mut bench = Bench::new(settings());
    let alice = |credentials| (&b"alice"[..], &b"example.org"[..], credentials);
    let know = |bench: &Bench, (user, domain, credentials)| {
        let now = bench.now;
        bench
            .shared
            .credentials
            .insert(user, domain, credentials, now);
    };
    know(&bench, alice(Some(stored("alice"))));
    let bob = "sip:bob@example.org";
    let invite =
        |branch, extra: &str| request("INVITE", bob, "sip:alice@example.org", branch, extra);
    let challenge = only(bench.receive(ALICE, &invite("i1", "")));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", bob);
    let proven = invite("i2", &format!("Proxy-Authorization: {credentials}\n"));
    assert_eq!(status(&only(bench.receive(ALICE, &proven))), 100);
    let question = bench.question().expect("whether there is a bob");
    know(&bench, alice(None));
    assert_eq!(status(&only(bench.answer(question))), 480);
}

#[test]
fn a_question_without_answer_ends_in_500_and_its_late_answer_is_ignored() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 100);
    let question = bench.question().expect("question");
    assert_eq!(status(&only(bench.wait(Duration::from_secs(5)))), 500);
    assert_eq!(bench.answer(question), vec![]);
}

#[test]
fn a_parked_invite_can_be_cancelled() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "i1",
            "",
        ),
    );
    let question = bench.question().expect("question");
    let cancel = request(
        "CANCEL",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(
        bench
            .receive("192.0.2.66:5060", &cancel)
            .iter()
            .map(|(_, sent)| status(sent))
            .collect::<Vec<_>>(),
        [481],
        "not from somebody else"
    );
    let statuses: Vec<u16> = bench
        .receive(ALICE, &cancel)
        .iter()
        .map(|(_, sent)| status(sent))
        .collect();
    assert_eq!(statuses, [487, 200]);
    assert_eq!(bench.answer(question), vec![]);
}

#[test]
fn parked_requests_are_bounded() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings);
    for number in 0..10 {
        let invite = request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            &format!("i{number}"),
            "",
        );
        assert_eq!(status(&only(bench.receive(ALICE, &invite))), 100);
    }
    let refused = only(bench.receive(
        ALICE,
        &request(
            "INVITE",
            "sip:bob@example.org",
            "sip:alice@example.org",
            "last",
            "",
        ),
    ));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After: 7\r\n"), "{refused}");
}
