//! Outbound registrations at gateways: what is sent, when it is repeated, and how it ends.

use crate::bench::settings;
use crate::routed::{Declared, GW_A, Routed, gateway, response, routed_with};
use sip_elements::bans::Notice;
use sip_elements::{
    ControlMessage, Exchange, ExchangeOptions, Record, RegistrationChange, Settings,
};
use sip_message::digest::Credential;
use sip_message::{Credentials, HeaderName, Message};
use sip_routing::gateway::{
    Descriptions, RegistrationDescription, RegistrationState, RegistrationView,
};
use sip_transport::{Flow, ListenerId, Node, Output};
use std::sync::Arc;
use std::time::Duration;

const CHALLENGE: &str =
    "401 Unauthorized\nWWW-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";

fn declared(address: &str, password: &str) -> Declared {
    let mut a = gateway("a", &format!("sip:{GW_A}"));
    a.credential = Some(Credential {
        realm: None,
        username: "trunk".into(),
        password: password.into(),
    });
    let expires = Duration::from_secs(3_600);
    a.registration = RegistrationDescription::new(address, Some("line-1"), expires);
    Declared {
        gateways: Descriptions {
            gateways: vec![a],
            groups: Vec::new(),
        },
        ..Declared::default()
    }
}

/// A node that registers at the gateway `a`.
fn registering() -> Routed {
    routed_with(settings(), declared("sip:4930@carrier.example", "s3cret"))
}

/// Passes this many seconds. Returns the REGISTERs that were sent, with where they went. Retransmissions are left out.
fn pass(node: &mut Routed, seconds: u64) -> Vec<(String, String)> {
    let mut sent: Vec<(String, String)> = Vec::new();
    for _ in 0..seconds * 10 {
        for (to, text) in node.bench.wait(Duration::from_millis(100)) {
            let message = (to.to_string(), text);
            if message.1.starts_with("REGISTER ") && sent.last() != Some(&message) {
                sent.push(message);
            }
        }
    }
    sent
}

fn first(node: &mut Routed) -> (String, String) {
    let mut sent = pass(node, 1);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

fn next(sent: Vec<(String, String)>) -> (String, String) {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.into_iter().next().expect("a REGISTER")
}

fn granted(seconds: u32) -> String {
    format!("200 OK\nContact: <sip:line-1@192.0.2.1:5060>;expires={seconds}\nX-End: 1")
}

/// The registrar answers. Its bindings stand before the Contact that every answer of the bench has.
fn reply(
    node: &mut Routed,
    (from, request): &(String, String),
    status: &str,
) -> Vec<(String, String)> {
    let answer = response(request, "200 OK").replace("Contact: <sip:gw@192.0.2.50:5060>\n", "");
    let sent = node.bench.receive(from, &answer.replace("200 OK", status));
    sent.into_iter()
        .map(|(to, text)| (to.to_string(), text))
        .collect()
}

fn view(node: &Routed) -> RegistrationView<'_> {
    let view = node.gateway("a").registration_view(node.bench.now);
    view.expect("a registration")
}

fn header(message: &str, name: HeaderName) -> String {
    let message = Message::parse(message.as_bytes()).expect("a message");
    String::from_utf8_lossy(message.header(name).unwrap_or_default()).into_owned()
}

fn changes(node: &mut Routed) -> Vec<RegistrationChange> {
    let records = node.bench.output.drain_records();
    let changes = records.filter_map(|record| match record {
        Record::Notice(Notice::Registration(notice)) => Some(notice.change),
        _ => None,
    });
    changes.collect()
}

/// Registers, with a challenge. Returns the REGISTER that was accepted.
fn register(node: &mut Routed, seconds: u32) -> (String, String) {
    let asked = first(node);
    let again = next(reply(node, &asked, CHALLENGE));
    assert_eq!(reply(node, &again, &granted(seconds)), []);
    again
}

#[test]
fn a_registration_names_the_address_of_record_and_our_listener() {
    let mut node = registering();
    let (to, asked) = first(&mut node);
    assert_eq!(to, GW_A);
    assert!(
        asked.starts_with(
            "REGISTER sip:carrier.example SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK"
        ),
        "{asked}"
    );
    for line in [
        "From: <sip:4930@carrier.example>;tag=",
        "To: <sip:4930@carrier.example>\r\n",
        "CSeq: 1 REGISTER\r\n",
        "Contact: <sip:line-1@192.0.2.1:5060>\r\n",
        "Expires: 3600\r\n",
        "Max-Forwards: 70\r\n",
    ] {
        assert!(asked.contains(line), "{line} is missing in {asked}");
    }
    assert!(!asked.contains("Authorization"), "{asked}");
    assert_eq!(view(&node).state, RegistrationState::Unregistered);
}

#[test]
fn a_challenge_is_answered_and_the_granted_lifetime_decides_when_to_refresh() {
    let mut node = registering();
    let asked = first(&mut node);
    let again = next(reply(&mut node, &asked, CHALLENGE));
    assert_eq!(header(&again.1, HeaderName::CSeq), "2 REGISTER");
    let value = header(&again.1, HeaderName::Authorization);
    let found = Credentials::parse(value.as_bytes()).expect("digest");
    assert_eq!(
        (found.username, found.uri, found.nc),
        (&b"trunk"[..], &b"sip:carrier.example"[..], Some(1))
    );
    assert_eq!(reply(&mut node, &again, &granted(120)), []);
    let seen = view(&node);
    assert_eq!(
        (seen.state, seen.status, seen.succeeded),
        (RegistrationState::Registered, Some(200), 1)
    );
    assert_eq!(
        seen.expires_at.map(|at| at - node.bench.now),
        Some(Duration::from_secs(120))
    );
    let logged = RegistrationChange::Registered(Duration::from_secs(120));
    assert_eq!(changes(&mut node), [logged]);

    assert_eq!(pass(&mut node, 59), []);
    let refresh = next(pass(&mut node, 2));
    assert_eq!(
        header(&refresh.1, HeaderName::CallId),
        header(&asked.1, HeaderName::CallId)
    );
    assert_eq!(header(&refresh.1, HeaderName::CSeq), "3 REGISTER");
    assert!(
        header(&refresh.1, HeaderName::Authorization).contains("nc=00000002"),
        "{}",
        refresh.1
    );
    assert_eq!(reply(&mut node, &refresh, &granted(120)), []);
    assert_eq!(changes(&mut node), [], "a refresh is no change");
    assert_eq!(view(&node).succeeded, 2);
}

#[test]
fn a_stale_nonce_does_not_end_a_registration() {
    let mut node = registering();
    register(&mut node, 120);
    let refresh = next(pass(&mut node, 61));
    let again = next(reply(&mut node, &refresh, &CHALLENGE.replace("n1", "n2")));
    assert!(again.1.contains("nonce=\"n2\""), "{}", again.1);
    assert_eq!(reply(&mut node, &again, &granted(120)), []);
    assert_eq!((view(&node).succeeded, view(&node).failed), (2, 0));
}

#[test]
fn a_lifetime_that_is_too_short_is_raised() {
    let mut node = registering();
    let asked = first(&mut node);
    let brief = "423 Interval Too Brief\nMin-Expires: 7200";
    let again = next(reply(&mut node, &asked, brief));
    assert_eq!(header(&again.1, HeaderName::Expires), "7200");
    assert_eq!(
        reply(&mut node, &again, "423 Interval Too Brief\nMin-Expires: 60"),
        []
    );
    assert_eq!(view(&node).status, Some(423));
}

#[test]
fn a_registrar_that_does_not_accept_us_is_asked_again_after_growing_waits() {
    let mut node = registering();
    let mut asked = first(&mut node);
    for waits in [15..=31, 30..=61, 60..=121] {
        let again = next(reply(&mut node, &asked, CHALLENGE));
        assert_eq!(
            reply(&mut node, &again, &CHALLENGE.replace("n1", "n2")),
            [],
            "the password is wrong"
        );
        assert_eq!(view(&node).state, RegistrationState::Failed);
        let [
            RegistrationChange::Failed {
                status: Some(401),
                again_in,
            },
        ] = changes(&mut node)[..]
        else {
            panic!("not logged")
        };
        assert!(waits.contains(&again_in.as_secs()), "{again_in:?}");
        assert_eq!(pass(&mut node, again_in.as_secs() - 1), []);
        asked = next(pass(&mut node, 3));
        assert!(!asked.1.contains("Authorization"), "{}", asked.1);
    }
    let again = next(reply(&mut node, &asked, CHALLENGE));
    reply(&mut node, &again, &granted(60));
    assert_eq!(view(&node).state, RegistrationState::Registered);
    assert_eq!(changes(&mut node).len(), 1);
}

#[test]
fn a_silent_registrar_is_given_up_and_found_when_it_is_back() {
    let mut node = registering();
    let asked = first(&mut node);
    let repeated = pass(&mut node, 30);
    assert!(repeated.iter().all(|it| *it == asked), "{repeated:#?}");
    assert_eq!(view(&node).failed, 0);
    pass(&mut node, 3);
    assert_eq!((view(&node).failed, view(&node).status), (1, None));
    let asked = next(pass(&mut node, 31));
    assert_eq!(reply(&mut node, &asked, &granted(60)), []);
    assert_eq!(view(&node).state, RegistrationState::Registered);
    // Silence again: the binding expires.
    pass(&mut node, 63);
    assert_eq!(view(&node).state, RegistrationState::Failed);
    let stats = node.bench.exchange.transaction_stats();
    assert!(stats.clients_live <= 1, "{stats:?}");
}

#[test]
fn a_registrar_that_cannot_be_reached_has_failed_at_once() {
    let mut node = registering();
    let (to, asked) = first(&mut node);
    let flow = Flow::to(ListenerId(0), to.parse().expect("an address"));
    node.bench.undeliverable(flow, asked.as_bytes());
    assert_eq!(view(&node).failed, 1);
    let retry = "503 Service Unavailable\nRetry-After: 200";
    let asked = next(pass(&mut node, 31));
    assert_eq!(reply(&mut node, &asked, retry), []);
    assert_eq!(pass(&mut node, 198), [], "as the registrar says");
    assert_eq!(pass(&mut node, 3).len(), 1);
}

#[test]
fn a_drain_removes_the_binding_and_its_end_registers_again() {
    let mut node = registering();
    let registered = register(&mut node, 600);
    let order = |node: &mut Routed, on| {
        let now = node.bench.now;
        node.bench
            .exchange
            .control(now, ControlMessage::Drain(on), &mut node.bench.output);
        node.bench.sent()
    };
    let (to, leaving) = order(&mut node, true).pop().expect("a REGISTER");
    assert_eq!(header(&leaving, HeaderName::Expires), "0");
    assert_eq!(
        header(&leaving, HeaderName::Contact),
        "<sip:line-1@192.0.2.1:5060>"
    );
    assert_eq!(
        header(&leaving, HeaderName::CallId),
        header(&registered.1, HeaderName::CallId)
    );
    assert_eq!(view(&node).state, RegistrationState::Unregistered);
    assert_eq!(node.bench.metrics.registrations_leaving.value(), 1);
    // The registrar may want new credentials.
    let again = next(reply(
        &mut node,
        &(to.to_string(), leaving),
        &CHALLENGE.replace("n1", "n2"),
    ));
    assert_eq!(header(&again.1, HeaderName::Expires), "0");
    assert_eq!(reply(&mut node, &again, "200 OK"), []);
    assert_eq!(node.bench.metrics.registrations_leaving.value(), 0);
    assert_eq!(pass(&mut node, 60), []);
    order(&mut node, false);
    let back = first(&mut node);
    assert_eq!(header(&back.1, HeaderName::Expires), "3600");
}

#[test]
fn a_registrar_that_stays_silent_delays_a_shutdown_for_five_seconds_at_most() {
    let mut node = registering();
    register(&mut node, 600);
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, ControlMessage::Drain(true), &mut node.bench.output);
    pass(&mut node, 4);
    assert_eq!(node.bench.metrics.registrations_leaving.value(), 1);
    pass(&mut node, 2);
    assert_eq!(node.bench.metrics.registrations_leaving.value(), 0);
}

fn reload(node: &mut Routed, declared: Declared) {
    let mut fresh = settings();
    fresh.policy = declared.policy(&fresh);
    node.policy = Arc::clone(&fresh.policy);
    let now = node.bench.now;
    let fresh = ControlMessage::Settings(Arc::new(fresh));
    node.bench
        .exchange
        .control(now, fresh, &mut node.bench.output);
}

#[test]
fn a_reload_keeps_a_registration_replaces_it_or_ends_it() {
    let mut node = registering();
    let registered = register(&mut node, 600);
    reload(&mut node, declared("sip:4930@carrier.example", "s3cret"));
    assert_eq!(pass(&mut node, 10), [], "nothing has changed");
    reload(&mut node, declared("sip:4930@carrier.example", "other"));
    let replaced = next(pass(&mut node, 2));
    assert_eq!(header(&replaced.1, HeaderName::Expires), "3600");
    assert_ne!(
        header(&replaced.1, HeaderName::CallId),
        header(&registered.1, HeaderName::CallId)
    );
    assert_eq!(reply(&mut node, &replaced, &granted(600)), []);
    reload(&mut node, Declared::default());
    let ended = next(pass(&mut node, 1));
    assert_eq!(header(&ended.1, HeaderName::Expires), "0");
    assert_eq!(
        header(&ended.1, HeaderName::CallId),
        header(&replaced.1, HeaderName::CallId)
    );
    reply(&mut node, &ended, "200 OK");
    assert_eq!(pass(&mut node, 60), []);
}

#[test]
fn one_worker_registers_for_all() {
    let node = registering();
    let mut settings: Settings = settings();
    settings.policy = Arc::clone(&node.policy);
    for worker in 0..3 {
        let mut exchange = Exchange::new(ExchangeOptions {
            worker,
            workers: 3,
            shared: Arc::clone(&node.bench.shared),
            settings: Arc::new(settings.clone()),
            metrics: Arc::clone(&node.bench.metrics),
            seed: [9; 32],
            now: node.bench.now,
        });
        let mut output = Output::default();
        for step in 0..20 {
            let now = node.bench.now + Duration::from_millis(step * 100);
            exchange.expire(now, &mut output);
        }
        let texts = output
            .outgoing()
            .iter()
            .map(|it| output.written(it.range.clone()));
        let home = texts.filter_map(|text| Message::parse(text).ok());
        let homes: Vec<u16> = home
            .map(|it| sip_elements::home_of(it.call_id().unwrap_or_default(), 3))
            .collect();
        assert_eq!(homes.is_empty(), worker > 0, "worker {worker}");
        assert!(homes.iter().all(|home| *home == 0), "{homes:?}");
    }
}
