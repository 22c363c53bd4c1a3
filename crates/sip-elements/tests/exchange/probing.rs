//! Probes of gateways: what they look like, and what their outcomes do.

use crate::bench::settings;
use crate::routed::{Declared, GW_A, Routed, gateway, response, routed_with};
use sip_elements::{ControlMessage, Exchange, ExchangeOptions, Question, Settings, home_of};
use sip_routing::gateway::{Descriptions, State, Statistics};
use sip_transport::selection::Candidate;
use sip_transport::{Flow, ListenerId, Node, Output, Protocol};
use std::sync::Arc;
use std::time::Duration;

/// A node that probes the gateway `a` each second.
fn probing(uri: &str) -> Routed {
    let mut a = gateway("a", uri);
    a.health.probe = true;
    a.health.interval = Duration::from_secs(1);
    // Shorter than T1, so that no probe is sent twice.
    a.health.timeout = Duration::from_millis(400);
    a.health.misses = 2;
    a.health.answers = 2;
    let declared = Declared {
        gateways: Descriptions {
            gateways: vec![a],
            groups: Vec::new(),
        },
        ..Declared::default()
    };
    let mut node = routed_with(settings(), declared);
    assert_eq!(
        node.bench.wait(Duration::ZERO),
        [],
        "spread over the interval"
    );
    node
}

/// The next probe, and where it goes.
fn next_probe(node: &mut Routed) -> (String, String) {
    for _ in 0..300 {
        let sent = node.bench.wait(Duration::from_millis(10)).into_iter();
        let mut probes = sent.filter(|(_, text)| text.starts_with("OPTIONS "));
        if let Some((to, text)) = probes.next() {
            return (to.to_string(), text);
        }
    }
    panic!("no probe")
}

fn state(node: &Routed) -> State {
    node.gateway("a").state(node.bench.now)
}

fn statistics(node: &Routed) -> Statistics {
    node.gateway("a").view(node.bench.now).statistics
}

fn answer(node: &mut Routed, (from, probe): &(String, String), status: &str) {
    let sent = node.bench.receive(from, &response(probe, status));
    assert_eq!(sent, []);
}

#[test]
fn a_probe_is_plain_sip() {
    let mut node = probing(&format!("sip:{GW_A}"));
    let (to, probe) = next_probe(&mut node);
    assert_eq!(to, GW_A);
    assert!(probe.starts_with(&format!(
        "OPTIONS sip:{GW_A} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK"
    )));
    for line in [
        "Max-Forwards: 70\r\n",
        &format!("To: <sip:{GW_A}>\r\n"),
        "From: <sip:192.0.2.1:5060>;tag=",
        "CSeq: 1 OPTIONS\r\n",
        "Contact: <sip:192.0.2.1:5060>\r\n",
        "Accept: application/sdp\r\n",
        "Content-Length: 0\r\n\r\n",
    ] {
        assert!(probe.contains(line), "{line} is missing in {probe}");
    }
}

#[test]
fn answers_keep_a_gateway_active_and_silence_makes_it_inactive_until_it_answers_again() {
    let mut node = probing(&format!("sip:{GW_A}"));
    let probe = next_probe(&mut node);
    answer(&mut node, &probe, "100 Trying");
    assert_eq!(state(&node), State::Unprobed);
    answer(&mut node, &probe, "405 Method Not Allowed");
    assert_eq!(state(&node), State::Active);
    next_probe(&mut node);
    next_probe(&mut node);
    assert_eq!(state(&node), State::Active, "one miss");
    next_probe(&mut node);
    assert_eq!(state(&node), State::Inactive);
    for _ in 0..2 {
        assert_eq!(state(&node), State::Inactive);
        let probe = next_probe(&mut node);
        answer(&mut node, &probe, "200 OK");
    }
    assert_eq!(state(&node), State::Active);
    let counted = statistics(&node);
    assert_eq!((counted.probes_sent, counted.probes_answered), (6, 3));
}

#[test]
fn a_probe_that_comes_back_is_a_miss_at_once_and_503_is_one_too() {
    let mut node = probing(&format!("sip:{GW_A}"));
    let (to, probe) = next_probe(&mut node);
    let flow = Flow::to(ListenerId(0), to.parse().expect("an address"));
    node.bench.undeliverable(flow, probe.as_bytes());
    let second = next_probe(&mut node);
    answer(&mut node, &second, "503 Service Unavailable");
    assert_eq!(state(&node), State::Inactive);
    let stats = node.bench.exchange.transaction_stats();
    node.bench.wait(Duration::from_millis(1));
    assert!(stats.clients_live <= 1, "{stats:?}");
}

#[test]
fn the_name_of_a_gateway_is_resolved() {
    let mut node = probing("sip:gw.example.net");
    let mut question = None;
    for _ in 0..120 {
        node.bench.wait(Duration::from_millis(10));
        question = question.or_else(|| node.bench.question());
    }
    let Some(Question::Resolve {
        ticket,
        destination,
        ..
    }) = question
    else {
        panic!("no question")
    };
    assert_eq!(&*destination.host, "gw.example.net");
    // The first one was too late: its second is over.
    let mut question = None;
    while question.is_none() {
        node.bench.wait(Duration::from_millis(10));
        question = node.bench.question();
    }
    let late = ticket;
    let Some(Question::Resolve { ticket, .. }) = question else {
        panic!("no question")
    };
    let candidate = Candidate {
        protocol: Protocol::Udp,
        address: GW_A.parse().expect("an address"),
    };
    let mut sent = Vec::new();
    for ticket in [late, ticket, ticket] {
        let result = Ok(vec![candidate]);
        let resolved = ControlMessage::Resolved { ticket, result };
        let now = node.bench.now;
        node.bench
            .exchange
            .control(now, resolved, &mut node.bench.output);
        sent.extend(node.bench.sent());
    }
    let [(to, probe)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert_eq!(to.to_string(), GW_A);
    assert!(
        probe.starts_with("OPTIONS sip:gw.example.net SIP/2.0\r\n"),
        "{probe}"
    );
}

fn worker(node: &Routed, settings: &Settings, worker: u16) -> Exchange {
    Exchange::new(ExchangeOptions {
        worker,
        workers: 4,
        shared: Arc::clone(&node.bench.shared),
        settings: Arc::new(settings.clone()),
        metrics: Arc::clone(&node.bench.metrics),
        seed: [9; 32],
        now: node.bench.now,
    })
}

#[test]
fn one_worker_sends_the_probes_and_is_the_home_of_their_responses() {
    let node = probing(&format!("sip:{GW_A}"));
    let mut settings = settings();
    settings.policy = Arc::clone(&node.policy);
    for index in 0..4 {
        let mut exchange = worker(&node, &settings, index);
        let mut output = Output::default();
        let mut probes = 0;
        for step in 0..1_000 {
            let now = node.bench.now + Duration::from_millis(step * 10);
            exchange.expire(now, &mut output);
            for outgoing in output.outgoing() {
                let text =
                    String::from_utf8_lossy(output.written(outgoing.range.clone())).into_owned();
                let call_id = text.lines().find_map(|line| line.strip_prefix("Call-ID: "));
                assert_eq!(home_of(call_id.expect("a Call-ID").as_bytes(), 4), index);
                probes += 1;
            }
            output.clear();
        }
        assert_eq!(probes > 0, index == 0, "worker {index}");
        if index > 0 {
            assert_eq!(exchange.next_deadline(), None);
        }
    }
}

#[test]
fn a_reload_with_gateways_begins_to_probe_and_one_without_ends_it() {
    let node = probing(&format!("sip:{GW_A}"));
    let mut with = settings();
    with.policy = Arc::clone(&node.policy);
    let mut exchange = worker(&node, &settings(), 0);
    let mut output = Output::default();
    assert_eq!(exchange.next_deadline(), None);
    let now = node.bench.now;
    exchange.control(now, ControlMessage::Settings(Arc::new(with)), &mut output);
    assert_eq!(exchange.next_deadline(), Some(now));
    exchange.control(
        now,
        ControlMessage::Settings(Arc::new(settings())),
        &mut output,
    );
    assert_eq!(exchange.next_deadline(), None);
}
