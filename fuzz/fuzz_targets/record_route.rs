//! An altered request inside a dialog. It is forwarded only with a proof that the server made for this dialog, and only
//! to a party of the dialog.
//!
//! Input: the position of the alteration (two bytes), how many bytes to remove (one), and the bytes to insert.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::{DeadTargets, Exchange, ExchangeOptions, Foreign, Settings, Shared};
use sip_message::{HeaderName, KeyHasher, Message};
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Node, Output, Protocol, Time};
use std::sync::Arc;

const CALLER: &str = "192.0.2.9:5060";
const CALLEE: &str = "192.0.2.20:5060";

fuzz_target!(|bytes: &[u8]| {
    let Some(([high, low, gone], instead)) = bytes.split_first_chunk() else {
        return;
    };
    let now = Time::from_unix_seconds(1_800_000_000);
    let mut node = node(now);
    let route = route_of_a_call(&mut node, now);
    let bye = format!(
        "BYE sip:bob@{CALLEE} SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK2\r\nMax-Forwards: 70\r\n\
         From: <sip:a@elsewhere.example>;tag=1\r\nTo: <sip:bob@example.com>;tag=2\r\nCall-ID: 1\r\nCSeq: 2 BYE\r\n\
         Route: {route}\r\nContent-Length: 0\r\n\r\n"
    );
    let place = usize::from(u16::from_be_bytes([*high, *low])) % (bye.len() + 1);
    let end = bye.len().min(place + usize::from(*gone));
    let altered = [&bye.as_bytes()[..place], instead, &bye.as_bytes()[end..]].concat();
    let forwarded = forwarded(&mut node, now, CALLER, &altered);
    if altered == bye.as_bytes() {
        assert_eq!(forwarded.len(), 1, "{bye}");
    }
    let proof = route
        .split_once("ck=")
        .map(|(_, proof)| proof.trim_end_matches('>'));
    let proof = proof.expect("a proof").as_bytes();
    for (to, request) in forwarded {
        assert!(to == CALLEE || to == CALLER, "{to} {request}");
        // A subscriber may be called without a proof, a contact may not.
        let mut windows = altered.windows(proof.len());
        let has_proof = windows.any(|window| window.eq_ignore_ascii_case(proof));
        let altered = Message::parse(&altered).ok();
        let uri = altered.as_ref().and_then(Message::uri);
        let is_for_contact = uri.is_some_and(|uri| uri.host_bytes == b"192.0.2.20");
        assert!(has_proof || !is_for_contact, "{request}");
    }
});

/// Makes a call from a stranger to bob. Returns the Route of the caller's requests.
fn route_of_a_call(node: &mut Exchange, now: Time) -> String {
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {CALLEE};branch=z9hG4bK0\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=0\r\nTo: <sip:bob@example.com>\r\nCall-ID: 0\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:bob@{CALLEE}>\r\nContent-Length: 0\r\n\r\n"
    );
    receive(node, now, CALLEE, register.as_bytes());
    let invite = format!(
        "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
         From: <sip:a@elsewhere.example>;tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: 1\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:a@{CALLER}>\r\nContent-Length: 0\r\n\r\n"
    );
    let forwarded = forwarded(node, now, CALLER, invite.as_bytes());
    let (_, invite) = forwarded.first().expect("a call");
    let lines = invite.lines().filter(|line| {
        ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    let echoed = lines.map(|line| format!("{line}\r\n")).collect::<String>();
    let answer = format!(
        "SIP/2.0 200 OK\r\n{echoed}To: <sip:bob@example.com>;tag=2\r\nContact: <sip:bob@{CALLEE}>\r\nContent-Length: 0\r\n\r\n"
    );
    let sent = receive(node, now, CALLEE, answer.as_bytes());
    let mut answers = sent
        .iter()
        .filter(|(to, bytes)| to == CALLER && bytes.starts_with("SIP/2.0 200"));
    let (_, answer) = answers.next_back().expect("an answer");
    let answer = Message::parse(answer.as_bytes()).expect("a response");
    let route = answer
        .values(HeaderName::RecordRoute)
        .next()
        .expect("our value");
    String::from_utf8_lossy(route).into_owned()
}

/// The forwarded requests and their destinations.
fn forwarded(node: &mut Exchange, now: Time, from: &str, bytes: &[u8]) -> Vec<(String, String)> {
    let mut sent = receive(node, now, from, bytes);
    sent.retain(|(_, bytes)| !bytes.starts_with("SIP/2.0"));
    sent
}

fn receive(node: &mut Exchange, now: Time, from: &str, bytes: &[u8]) -> Vec<(String, String)> {
    let flow = Flow {
        listener: ListenerId(0),
        connection: ConnectionId::NONE,
        remote: from.parse().expect("an address"),
    };
    let mut output = Output::default();
    node.receive(now, flow, bytes, &mut output);
    let sent = output.outgoing().iter().map(|outgoing| {
        let text = String::from_utf8_lossy(output.written(outgoing.range.clone())).into_owned();
        (outgoing.flow.remote.to_string(), text)
    });
    sent.collect()
}

/// A node that does not relay and does not authenticate.
fn node(now: Time) -> Exchange {
    let listeners = vec![Listener {
        protocol: Protocol::Udp,
        address: ([192, 0, 2, 1], 5060).into(),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
        behind_balancer: false,
    }];
    let mut settings = Settings::new(&["example.com".into()], listeners);
    settings.challenge.clear();
    settings.proxy.foreign = Foreign::Refuse;
    Exchange::new(ExchangeOptions {
        worker: 0,
        workers: 1,
        shared: Arc::new(Shared {
            locations: Locations::new(LocationLimits {
                max_bindings: 8,
                max_pending_changes: 8,
            }),
            credentials: CredentialCache::new(8, 3600, 60),
            nonces: Nonces::new((1, 2), 8),
            bans: sip_elements::bans::Bans::default(),
            dead_targets: DeadTargets::default(),
            edges: sip_elements::Edges::default(),
            services: sip_elements::services::Services::default(),
            hasher: KeyHasher::new((3, 4)),
        }),
        settings: Arc::new(settings),
        metrics: Arc::new(WorkerMetrics::default()),
        seed: [7; 32],
        now,
    })
}
