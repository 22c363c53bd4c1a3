//! Which sender may use which identity.

use crate::bench::{ALICE, Bench, answer_challenge, only, register, request, settings, status};
use sip_message::{HeaderName, Message};

#[test]
fn the_ack_of_a_stateless_challenge_is_swallowed() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    let parsed = Message::parse(challenge.as_bytes()).expect("response");
    let to = String::from_utf8_lossy(parsed.header(HeaderName::To).expect("To")).into_owned();
    let ack = request(
        "ACK",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    )
    .replace("To: <sip:bob@example.org>", &format!("To: {to}"));
    assert_eq!(bench.receive(ALICE, &ack), vec![]);
    assert_eq!(
        bench.exchange.transaction_stats().servers_created,
        0,
        "no state for a challenge"
    );
}

#[test]
fn no_subscriber_speaks_for_another() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:bob@example.org",
        "i1",
        "",
    );
    let challenge = only(bench.receive(ALICE, &invite));
    let credentials = answer_challenge(&challenge, "alice", "INVITE", "sip:bob@example.org");
    let extra = format!("Proxy-Authorization: {credentials}\n");
    let invite = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:bob@example.org",
        "i2",
        &extra,
    );
    assert_eq!(status(&only(bench.receive(ALICE, &invite))), 403);
}

#[test]
fn a_third_party_cannot_register() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let message = register("alice", ALICE, 1, "").replace("From: <sip:alice@", "From: <sip:bob@");
    assert_eq!(status(&only(bench.receive(ALICE, &message))), 403);
}

#[test]
fn a_register_for_another_domain_is_not_ours_to_answer() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let message = register("alice", ALICE, 1, "")
        .replace("REGISTER sip:example.org", "REGISTER sip:elsewhere.example");
    let challenge = only(bench.receive(ALICE, &message));
    assert_eq!(status(&challenge), 407, "{challenge}");
    let strange = message
        .replace("sip:alice@example.org", "sip:x@elsewhere.example")
        .replace("rralice1", "other");
    assert_eq!(status(&only(bench.receive(ALICE, &strange))), 403);
}
