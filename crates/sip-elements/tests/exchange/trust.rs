//! Which senders the server trusts: subscribers prove their identity, trusted peers are believed, and nothing is known
//! about other senders.

use crate::bench::{
    ALICE, BOB, Bench, answer_challenge, only, register, request, settings, status,
};
use sip_elements::routing::NextHop;
use sip_elements::{ChallengedMethods, Foreign, Settings, Strangers};
use sip_message::Method;
use sip_transport::Networks;

const BOB_URI: &str = "sip:bob@example.org";
const STRANGER: &str = "198.51.100.66:5060";
const PEER: &str = "203.0.113.7:5060";

/// Every method that a new request can have, and one that no RFC defines.
const METHODS: [&str; 12] = [
    "INVITE",
    "MESSAGE",
    "OPTIONS",
    "SUBSCRIBE",
    "NOTIFY",
    "REFER",
    "PUBLISH",
    "INFO",
    "UPDATE",
    "PRACK",
    "BYE",
    "REBOOT",
];

fn networks(text: &str) -> Networks {
    std::iter::once(text.parse().expect("a network")).collect()
}

fn trusting_peer(mut settings: Settings) -> Settings {
    settings.proxy.trusted_peers = networks("203.0.113.0/24");
    settings
}

fn with_bob(settings: Settings) -> Bench {
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench
}

/// Sends a request to bob. Returns the statuses that the sender got, and the messages that bob got.
fn send(bench: &mut Bench, from: &str, message: &str) -> (Vec<u16>, Vec<String>) {
    let (to_bob, back): (Vec<_>, Vec<_>) = bench
        .receive(from, message)
        .into_iter()
        .partition(|(to, _)| to.to_string() == BOB);
    let back = back.iter().map(|(_, message)| status(message)).collect();
    (
        back,
        to_bob.into_iter().map(|(_, message)| message).collect(),
    )
}

fn refusals(bench: &Bench, reason: sip_elements::metrics::Refused) -> u64 {
    bench.metrics.refusals[reason as usize].value()
}

#[test]
fn every_method_in_the_name_of_a_subscriber_is_challenged() {
    let mut bench = with_bob(settings());
    for method in METHODS {
        for from in [
            "sip:alice@example.org",
            "sips:alice@example.org",
            "sip:alice@192.0.2.1",
            "sip:alice@192.0.2.1:9",
            "sip:alice@[::ffff:192.0.2.1]:9",
        ] {
            let branch = format!("{method}{}", from.len());
            let event = "Event: check-sync;reboot=true\n";
            let message = request(method, BOB_URI, from, &branch, event);
            let (back, to_bob) = send(&mut bench, STRANGER, &message);
            assert_eq!((back, to_bob), (vec![407], vec![]), "{method} from {from}");
        }
    }
}

#[test]
fn a_stranger_sends_only_what_cannot_act_on_a_phone() {
    let mut bench = with_bob(settings());
    let from = "sip:alice@evil.example";
    for method in METHODS {
        let extra = "Event: check-sync;reboot=true\n";
        let message = request(method, BOB_URI, from, method, extra);
        let (back, to_bob) = send(&mut bench, STRANGER, &message);
        if ["INVITE", "MESSAGE"].contains(&method) {
            assert_eq!(to_bob.len(), 1, "{method}");
        } else {
            assert_eq!((back, to_bob), (vec![403], vec![]), "{method}");
        }
    }
    let refused = refusals(&bench, sip_elements::metrics::Refused::StrangerMethod);
    assert_eq!(refused, METHODS.len() as u64 - 2);
}

#[test]
fn strangers_can_be_refused_altogether_and_trusted_peers_are_none() {
    let mut settings = trusting_peer(settings());
    settings.proxy.strangers = Strangers::Refuse;
    let mut bench = with_bob(settings);
    for method in METHODS {
        let message = request(method, BOB_URI, "sip:x@evil.example", method, "");
        let (back, to_bob) = send(&mut bench, STRANGER, &message);
        assert_eq!((back, to_bob), (vec![403], vec![]), "{method}");
        for from in ["sip:+4930@carrier.example", "sip:alice@example.org"] {
            let branch = format!("p{method}{}", from.len());
            let message = request(method, BOB_URI, from, &branch, "");
            let (_, to_bob) = send(&mut bench, PEER, &message);
            assert_eq!(to_bob.len(), 1, "{method} from the peer as {from}");
        }
    }
}

#[test]
fn a_from_of_ours_without_a_user_proves_nothing_and_is_refused() {
    let mut bench = with_bob(settings());
    for from in ["sip:example.org", "sip:192.0.2.1:7"] {
        let message = request("MESSAGE", BOB_URI, from, from, "");
        let (back, to_bob) = send(&mut bench, STRANGER, &message);
        assert_eq!((back, to_bob), (vec![403], vec![]), "{from}");
    }
}

#[test]
fn a_stranger_cannot_tell_an_unknown_subscriber_from_one_who_is_offline() {
    let mut bench = Bench::new(settings()).with_subscribers();
    let mut answers = Vec::new();
    for user in ["bob", "eve"] {
        let uri = format!("sip:{user}@example.org");
        for method in ["INVITE", "MESSAGE"] {
            let branch = format!("{method}{user}");
            let message = request(method, &uri, "sip:x@elsewhere.example", &branch, "");
            let answer = only(bench.receive(STRANGER, &message));
            assert_eq!(status(&answer), 480, "{method} {user}");
            answers.push((method, answer.len()));
            assert!(bench.question().is_none(), "the store is not asked: {user}");
        }
    }
    assert_eq!(answers[..2], answers[2..], "as many bytes");
}

#[test]
fn only_a_trusted_peer_asserts_identities() {
    const ASSERTED: &str = "P-Asserted-Identity: <sip:chief@example.org>\nP-Preferred-Identity: <sip:chief@example.org>\n\
                            Remote-Party-ID: <sip:chief@example.org>;party=calling\nDiversion: <sip:chief@example.org>\n";
    let named = |message: &str| message.matches("chief").count();
    let mut bench = with_bob(trusting_peer(settings()));
    let invite = |branch: &str, extra: &str| {
        request("INVITE", BOB_URI, "sip:x@elsewhere.example", branch, extra)
    };
    let (_, to_bob) = send(&mut bench, STRANGER, &invite("s1", ASSERTED));
    assert_eq!(named(&to_bob[0]), 0, "{}", to_bob[0]);
    let (_, to_bob) = send(&mut bench, PEER, &invite("p1", ASSERTED));
    assert_eq!(named(&to_bob[0]), 4, "{}", to_bob[0]);
    // RFC 3325 section 7: a caller that asks for privacy is not named outside the trusted networks.
    let private = format!("{ASSERTED}Privacy: critical;id\n");
    let (_, to_bob) = send(&mut bench, PEER, &invite("p2", &private));
    assert_eq!(named(&to_bob[0]), 1, "{}", to_bob[0]);
    assert!(!to_bob[0].contains("P-Asserted-Identity"), "{}", to_bob[0]);
    // A subscriber, too, may assert its identity in From only.
    let message = request("MESSAGE", BOB_URI, "sip:alice@example.org", "m1", ASSERTED);
    let challenge = only(bench.receive(ALICE, &message));
    let credentials = answer_challenge(&challenge, "alice", "MESSAGE", BOB_URI);
    let extra = format!("{ASSERTED}Proxy-Authorization: {credentials}\n");
    let message = request("MESSAGE", BOB_URI, "sip:alice@example.org", "m2", &extra);
    let (_, to_bob) = send(&mut bench, ALICE, &message);
    assert_eq!(named(&to_bob[0]), 0, "{}", to_bob[0]);
}

/// Sends a request from alice, with credentials if it is challenged. Returns where it went, or the last status.
fn prove_and_send(bench: &mut Bench, method: &str, uri: &str, extra: &str) -> Result<String, u16> {
    let from = "sip:alice@example.org";
    let branch = format!("{method}{}{}", uri.len(), extra.len());
    let first = bench.receive(ALICE, &request(method, uri, from, &branch, extra));
    let (to, answer) = first.last().expect("an answer").clone();
    if to.to_string() != ALICE {
        return Ok(format!("{to} without a challenge"));
    }
    if status(&answer) != 407 {
        return Err(status(&answer));
    }
    let credentials = answer_challenge(&answer, "alice", method, uri);
    let extra = format!("{extra}Proxy-Authorization: {credentials}\n");
    let message = request(method, uri, from, &format!("{branch}c"), &extra);
    let (to, answer) = bench.receive(ALICE, &message).pop().expect("an answer");
    if to.to_string() == ALICE {
        return Err(status(&answer));
    }
    Ok(to.to_string())
}

#[test]
fn a_route_of_a_subscriber_leads_nowhere_but_to_us() {
    let mut settings = trusting_peer(settings());
    settings.proxy.outbound = Some(NextHop::Address("198.51.100.9:5060".parse().expect("one")));
    let mut bench = with_bob(settings);
    let past = "Route: <sip:192.0.2.1;lr>, <sip:victim.example;lr>\n";
    for uri in [BOB_URI, "sip:x@elsewhere.example"] {
        for method in ["INVITE", "MESSAGE"] {
            assert_eq!(prove_and_send(&mut bench, method, uri, past), Err(403));
        }
    }
    assert_eq!(refusals(&bench, sip_elements::metrics::Refused::Route), 4);
    let message = request("MESSAGE", BOB_URI, "sip:alice@example.org", "p", past);
    let (to, _) = bench.receive(PEER, &message).pop().expect("it goes on");
    assert_eq!(
        to.to_string(),
        "198.51.100.9:5060",
        "a trusted peer's Route"
    );
}

#[test]
fn subscribers_reach_other_domains_once_they_have_proven_who_they_are() {
    let victim = "sip:someone@198.51.100.20";
    let challenged = [
        ChallengedMethods::All,
        ChallengedMethods::Listed(vec![Method::Register, Method::Invite]),
    ];
    for challenge in challenged {
        let mut settings = trusting_peer(settings());
        settings.challenge = challenge;
        settings.proxy.foreign = Foreign::Subscribers;
        let mut bench = with_bob(settings);
        for method in ["INVITE", "MESSAGE"] {
            let went = prove_and_send(&mut bench, method, victim, "");
            assert_eq!(went, Ok("198.51.100.20:5060".into()), "{method}");
            let from = "sip:x@elsewhere.example";
            let message = request(method, victim, from, &format!("s{method}"), "");
            assert_eq!(status(&only(bench.receive(STRANGER, &message))), 403);
            let message = request(method, victim, from, &format!("p{method}"), "");
            let (to, _) = bench.receive(PEER, &message).pop().expect("it goes on");
            assert_eq!(to.to_string(), "198.51.100.20:5060");
        }
    }
}

#[test]
fn without_relaying_credentials_are_asked_for_only_where_they_help() {
    let mut settings = settings();
    settings.challenge = ChallengedMethods::Listed(vec![Method::Register]);
    let victim = "sip:someone@198.51.100.20";
    let mut bench = with_bob(settings.clone());
    assert_eq!(prove_and_send(&mut bench, "MESSAGE", victim, ""), Err(403));
    settings.proxy.outbound = Some(NextHop::Address("198.51.100.9:5060".parse().expect("one")));
    let mut bench = with_bob(settings);
    let went = prove_and_send(&mut bench, "MESSAGE", victim, "");
    assert_eq!(went, Ok("198.51.100.9:5060".into()));
}

#[test]
fn a_path_is_accepted_from_edge_proxies_alone() {
    let mut settings = trusting_peer(settings());
    settings.proxy.edge_proxies = networks("192.0.2.20/32");
    let mut bench = Bench::new(settings).with_subscribers();
    let path = "Path: <sip:198.51.100.99;lr>\n";
    for (user, at, expected) in [("alice", ALICE, 403), ("bob", BOB, 200)] {
        let challenge = only(bench.receive(at, &register(user, at, 1, path)));
        assert_eq!(status(&challenge), 401);
        let credentials = answer_challenge(&challenge, user, "REGISTER", "sip:example.org");
        let extra = format!("{path}Authorization: {credentials}\n");
        let answer = only(bench.receive(at, &register(user, at, 2, &extra)));
        assert_eq!(status(&answer), expected, "{answer}");
    }
    assert_eq!(refusals(&bench, sip_elements::metrics::Refused::Path), 1);
}

#[test]
fn a_trusted_peer_does_not_register_subscribers() {
    let mut bench = Bench::new(trusting_peer(settings())).with_subscribers();
    let message = register("alice", PEER, 1, "");
    assert_eq!(status(&only(bench.receive(PEER, &message))), 401);
}

/// Returns where an INVITE to bob is forwarded to after bob has registered this Contact from [`BOB`].
fn led_to(settings: Settings, contact: &str) -> Vec<String> {
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register_contact("bob", BOB, contact);
    let message = request("INVITE", BOB_URI, "sip:x@elsewhere.example", "led", "");
    let sent = bench.receive(STRANGER, &message).into_iter();
    let invites = sent.filter(|(_, text)| text.starts_with("INVITE"));
    invites.map(|(to, _)| to.to_string()).collect()
}

#[test]
fn a_contact_with_maddr_is_reached_where_its_register_came_from() {
    for follow in [false, true] {
        for maddr in ["203.0.113.7", "127.0.0.1", "192.0.2.1", "victim.example"] {
            let mut settings = settings();
            settings.registrar.follow_contact = follow;
            let contact = format!("sip:bob@192.0.2.20:5061;maddr={maddr}");
            assert_eq!(led_to(settings, &contact), [BOB], "{maddr} {follow}");
        }
    }
}

#[test]
fn a_followed_contact_leads_neither_to_this_host_nor_to_us() {
    for (at, expected) in [
        ("127.0.0.1:8080", &[][..]),
        ("192.0.2.1:5060", &[]),
        ("203.0.113.7:5060", &["203.0.113.7:5060"]),
    ] {
        let mut settings = settings();
        settings.registrar.follow_contact = true;
        assert_eq!(led_to(settings, &format!("sip:bob@{at}")), expected);
    }
}
