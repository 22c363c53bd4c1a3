//! Requests that an edge of the fleet forwarded: policy is about the client, and responses go to the edge.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status,
};
use sip_elements::bans::Source;
use sip_elements::location::Binding;
use sip_elements::metrics::DropReason;
use sip_elements::{ControlMessage, Settings};
use sip_message::{KeyHasher, Message};
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use sip_transport::edge_probe::ProbeBranch;
use sip_transport::{ConnectionId, Flow, Input, ListenerId, Node, Received, Undelivered};
use std::time::Duration;

const EDGE: &str = "192.0.2.100:5060";
const FLEET: KeyHasher = KeyHasher::new((11, 12));

fn in_fleet() -> Settings {
    Settings {
        fleet: Some(FLEET),
        ..settings()
    }
}

/// The message as an edge with this secret forwards it for the client at `from`.
fn through_edge(message: &str, from: &str, secret: &KeyHasher) -> String {
    let client = Flow::to(ListenerId(3), from.parse().expect("an address"));
    let bytes = message.replace('\n', "\r\n");
    let parsed = Message::parse(bytes.as_bytes()).expect("a request");
    let via = parsed.top_via().expect("a Via");
    let mut branch = Vec::new();
    EdgeBranch::new(secret, &parsed, &via, Upstream::Client(client)).write(&mut branch);
    let branch = String::from_utf8(branch).expect("text");
    let via = format!("Via: SIP/2.0/UDP {EDGE};branch={branch}\nVia:");
    message.replacen("Via:", &via, 1)
}

fn challenge(bench: &mut Bench, at: &str) -> String {
    only(bench.receive(
        EDGE,
        &through_edge(&register("alice", at, 1, ""), at, &FLEET),
    ))
}

fn with_credentials(challenge: &str, at: &str) -> String {
    let proof = answer_challenge(challenge, "alice", "REGISTER", "sip:example.org");
    let lines = format!("Authorization: {proof}\n");
    through_edge(&register("alice", at, 2, &lines), at, &FLEET)
}

#[test]
fn a_nonce_belongs_to_the_client_and_not_to_the_edge() {
    let mut bench = Bench::new(in_fleet()).with_subscribers();
    let challenged = challenge(&mut bench, ALICE);
    let stolen = with_credentials(&challenged, BOB);
    assert_eq!(status(&only(bench.receive(EDGE, &stolen))), 401);
    let own = with_credentials(&challenged, ALICE);
    assert_eq!(status(&only(bench.receive(EDGE, &own))), 200);
    // Another edge, or none: the client is the same.
    let challenged = only(bench.receive(ALICE, &register("alice", ALICE, 3, "")));
    let own = with_credentials(&challenged, ALICE);
    assert_eq!(status(&only(bench.receive("192.0.2.101:5060", &own))), 200);
}

#[test]
fn a_node_that_takes_over_accepts_a_nonce_of_another_node() {
    for (settings, expected) in [(in_fleet(), 200), (settings(), 401)] {
        let mut first = Bench::new(settings.clone()).with_subscribers();
        let challenged = only(first.receive(ALICE, &register("alice", ALICE, 1, "")));
        let proof = answer_challenge(&challenged, "alice", "REGISTER", "sip:example.org");
        let lines = format!("Authorization: {proof}\n");
        // It has just started, and has issued no nonce.
        let mut second = Bench::new(settings).with_subscribers();
        let response = only(second.receive(ALICE, &register("alice", ALICE, 2, &lines)));
        assert_eq!(status(&response), expected);
    }
}

#[test]
fn responses_go_to_the_edge() {
    let mut bench = Bench::new(in_fleet());
    let text = through_edge(&register("alice", ALICE, 1, ""), ALICE, &FLEET);
    let sent = bench.receive(EDGE, &text);
    assert_eq!(sent[0].0.to_string(), EDGE);
}

#[test]
fn a_ban_hits_one_client_of_an_edge() {
    let mut bench = Bench::new(in_fleet());
    let until = bench.now + Duration::from_secs(60);
    let address: std::net::SocketAddr = ALICE.parse().expect("an address");
    bench.shared.bans.ban(Source::of(address.ip()), until);
    let of = |from: &str| through_edge(&register("alice", from, 1, ""), from, &FLEET);
    assert_eq!(bench.receive(EDGE, &of(ALICE)), []);
    assert_eq!(bench.metrics.drops[DropReason::Banned as usize].value(), 1);
    assert_eq!(status(&only(bench.receive(EDGE, &of(BOB)))), 401);
}

#[test]
fn guessing_bans_the_client_and_not_the_edge() {
    let mut settings = in_fleet();
    settings.bans.failures = 5;
    let mut bench = Bench::new(settings);
    for number in 0..5 {
        let user = format!("user{number}");
        let credentials = &bench.shared.credentials;
        credentials.insert(user.as_bytes(), b"example.org", None, bench.now);
        let first = through_edge(&register(&user, ALICE, 1, ""), ALICE, &FLEET);
        let challenged = only(bench.receive(EDGE, &first));
        let guess = answer_challenge(&challenged, &user, "REGISTER", "sip:example.org");
        let lines = format!("Authorization: {guess}\n");
        let guess = through_edge(&register(&user, ALICE, 2, &lines), ALICE, &FLEET);
        assert_eq!(status(&only(bench.receive(EDGE, &guess))), 401);
    }
    let is_banned = |address: &str| {
        let address: std::net::SocketAddr = address.parse().expect("an address");
        bench.shared.bans.is_banned(address.ip(), bench.now)
    };
    assert!(is_banned(ALICE));
    assert!(!is_banned(EDGE));
}

#[test]
fn trust_follows_the_client_and_needs_the_secret_of_the_fleet() {
    let mut settings = in_fleet();
    settings.proxy.trusted_peers =
        std::iter::once("192.0.2.10/32".parse().expect("a network")).collect();
    let mut bench = Bench::new(settings).with_subscribers();
    let call = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "b1",
        "",
    );
    let sent = |bench: &mut Bench, secret: &KeyHasher, from: &str| {
        status(&bench.receive(EDGE, &through_edge(&call, from, secret))[0].1)
    };
    // A subscriber must prove who it is. A trusted peer need not: bob is not registered.
    assert_eq!(sent(&mut bench, &FLEET, BOB), 407);
    assert_eq!(sent(&mut bench, &KeyHasher::new((1, 1)), ALICE), 407);
    assert_eq!(sent(&mut bench, &FLEET, ALICE), 480);
}

#[test]
fn a_path_is_accepted_from_an_edge_of_the_fleet() {
    let mut bench = Bench::new(in_fleet()).with_subscribers();
    let path = format!("Path: <sip:{EDGE};lr>\n");
    let with_path = |text: &str| text.replacen("To:", &format!("{path}To:"), 1);
    let challenged = challenge(&mut bench, ALICE);
    let own = with_path(&with_credentials(&challenged, ALICE));
    assert_eq!(status(&only(bench.receive(EDGE, &own))), 200);

    let mut alone = Bench::new(settings()).with_subscribers();
    let challenged = only(alone.receive(ALICE, &register("alice", ALICE, 1, "")));
    let proof = answer_challenge(&challenged, "alice", "REGISTER", "sip:example.org");
    let foreign = register(
        "alice",
        ALICE,
        2,
        &format!("{path}Authorization: {proof}\n"),
    );
    assert_eq!(status(&only(alone.receive(ALICE, &foreign))), 403);
}

#[test]
fn a_draining_node_takes_what_an_edge_still_sends_and_answers_its_probes_with_503() {
    let mut bench = Bench::new(in_fleet()).with_subscribers();
    bench
        .exchange
        .control(bench.now, ControlMessage::Drain(true), &mut bench.output);
    let call = request(
        "INVITE",
        "sip:bob@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    let of_edge = through_edge(&call, ALICE, &FLEET);
    assert_eq!(status(&only(bench.receive(EDGE, &of_edge))), 407);
    let forged = through_edge(&call, BOB, &KeyHasher::new((1, 2)));
    assert_eq!(status(&only(bench.receive(BOB, &forged))), 503);
    let probe = request("OPTIONS", "sip:192.0.2.1", "sip:edge@192.0.2.100", "o1", "");
    assert_eq!(status(&only(bench.receive(EDGE, &probe))), 503);
}

/// A probe of the edge at `address`. It says that the node has seen the edge at `seen`.
fn probe(secret: &KeyHasher, address: &str, seen: &str, number: u32) -> String {
    let call_id = format!("probe-{address}-{number}");
    let seen = Some(seen.parse().expect("an address"));
    let mut branch = Vec::new();
    ProbeBranch::new(secret, call_id.as_bytes(), 7, seen).write(&mut branch);
    let branch = String::from_utf8(branch).expect("text");
    format!(
        "OPTIONS sip:192.0.2.1 SIP/2.0\nVia: SIP/2.0/UDP {address};branch={branch};rport\nMax-Forwards: 1\n\
         From: <sip:{address}>;tag=1\nTo: <sip:192.0.2.1>\nCall-ID: {call_id}\nCSeq: 1 OPTIONS\n\n"
    )
}

#[test]
fn responses_for_an_edge_that_is_gone_go_through_another_one_that_has_proved_itself() {
    const OTHER: &str = "192.0.2.101:5060";
    const STRANGER: &str = "192.0.2.99:5060";
    let mut bench = Bench::new(in_fleet()).with_subscribers();
    let bad = KeyHasher::new((1, 2));
    // Where the response to a request through the first edge goes after these probes.
    let answered_at = |bench: &mut Bench, probes: &[(&str, &str, &KeyHasher)], number| {
        for (from, seen, secret) in probes {
            only(bench.receive(from, &probe(secret, from, seen, number)));
        }
        let challenged = through_edge(&register("alice", ALICE, number, ""), ALICE, &FLEET);
        let [(address, _)] = &bench.receive(EDGE, &challenged)[..] else {
            panic!("not one response")
        };
        address.to_string()
    };
    let first = [(EDGE, EDGE, &FLEET)];
    assert_eq!(answered_at(&mut bench, &first, 1), EDGE);
    bench.now = bench.now + Duration::from_secs(3);
    // Copies of probes, and probes without the secret, prove nothing.
    let forged = [(STRANGER, OTHER, &FLEET), (STRANGER, STRANGER, &bad)];
    assert_eq!(answered_at(&mut bench, &forged, 2), EDGE);
    let other = [(OTHER, OTHER, &FLEET)];
    assert_eq!(answered_at(&mut bench, &other, 3), OTHER);
    assert_eq!(answered_at(&mut bench, &first, 4), EDGE);
}

/// Receives a message that has waited in the buffer of the socket. Returns how many are sent.
fn receive_late(bench: &mut Bench, message: &str, waited: Duration) -> usize {
    let flow = Flow::to(ListenerId(0), EDGE.parse().expect("an address"));
    let message = message.replace('\n', "\r\n");
    let arrived = bench.now;
    bench.now = arrived + waited;
    let received = Received::new(arrived, flow, message.as_bytes());
    let input = Input::Received(received);
    bench.exchange.handle(bench.now, input, &mut bench.output);
    bench.sent().len()
}

#[test]
fn a_request_that_has_waited_is_left_to_its_repetition() {
    let mut bench = Bench::new(in_fleet());
    let millis = Duration::from_millis;
    let register = |cseq| register("alice", ALICE, cseq, "");
    let of = |cseq| through_edge(&register(cseq), ALICE, &FLEET);
    assert_eq!(receive_late(&mut bench, &of(1), millis(499)), 1);
    assert_eq!(receive_late(&mut bench, &of(2), millis(500)), 0);
    assert_eq!(bench.metrics.drops[DropReason::Waited as usize].value(), 1);
    // Without an edge, no other node gets the repetition.
    assert_eq!(receive_late(&mut bench, &register(3), millis(500)), 1);
}

/// A node with a phone that registered through an edge. Alice may call without a password.
fn with_phone_behind_edge(settings: Settings) -> Bench {
    let mut settings = settings;
    settings.challenge.clear();
    let bench = Bench::new(settings);
    let binding = Binding {
        contact: b"sip:bob@192.0.2.20:5060",
        q: 1_000,
        expires_at: u32::try_from(bench.now.unix_seconds()).expect("seconds") + 3_600,
        call_id: b"r",
        cseq: 1,
        path: b"<sip:192.0.2.100:5060;lr;e=p00000000>",
        instance: b"",
        user_agent: b"",
        source: EDGE.parse().expect("an address"),
        listener: ListenerId(0),
        connection: ConnectionId::NONE,
    };
    let locations = &bench.shared.locations;
    locations.restore(b"bob@example.org", &binding);
    bench
}

/// An INVITE for the phone behind the edge comes back as an ICMP error. Returns the answer to the caller, and whether the INVITE is repeated.
fn undelivered(bench: &mut Bench, call_id: &str) -> (Vec<u16>, bool) {
    let to = "sip:bob@example.org";
    let call = request("INVITE", to, "sip:alice@example.org", call_id, "");
    let sent = bench.receive(ALICE, &call);
    let [_, (to, invite)] = &*sent else {
        panic!("{sent:#?}")
    };
    assert_eq!(to.to_string(), EDGE);
    let returned = Undelivered {
        flow: Flow::to(ListenerId(0), *to),
        bytes: invite.as_bytes(),
        handed_over: false,
    };
    let input = Input::Undeliverable(returned);
    bench.exchange.handle(bench.now, input, &mut bench.output);
    let answers = bench.sent().iter().map(|(_, it)| status(it)).collect();
    let again = bench.wait(Duration::from_millis(600));
    (answers, again.iter().any(|(_, it)| it == invite))
}

#[test]
fn an_invite_is_repeated_while_the_edge_of_its_phone_restarts() {
    let mut alone = with_phone_behind_edge(settings());
    assert_eq!(undelivered(&mut alone, "alone"), (vec![500], false));

    let mut bench = with_phone_behind_edge(in_fleet());
    assert_eq!(undelivered(&mut bench, "unheard"), (vec![], true));
    let probe = |bench: &mut Bench, number| {
        only(bench.receive(EDGE, &probe(&FLEET, EDGE, EDGE, number)));
    };
    probe(&mut bench, 1);
    bench.now = bench.now + Duration::from_secs(9);
    assert_eq!(undelivered(&mut bench, "restarts"), (vec![], true));
    bench.now = bench.now + Duration::from_secs(1);
    assert_eq!(undelivered(&mut bench, "ended"), (vec![500], false));
    probe(&mut bench, 2);
    assert_eq!(undelivered(&mut bench, "returned"), (vec![], true));
}
