//! Feeds a sequence of messages into a complete node. Nothing panics, all counts are consistent, and no table exceeds its
//! bound.
//!
//! Input: records of a control byte, a length (two bytes), and a message of that length. The control byte selects the
//! sender. It also decides whether time passes before the message, and whether the control plane answers.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_elements::auth::{CredentialCache, Nonces};
use sip_elements::location::{LocationLimits, Locations};
use sip_elements::metrics::WorkerMetrics;
use sip_elements::trace::{Selection, TraceId, TraceOrder};
use sip_elements::{
    ControlMessage, DeadTargets, Description, Exchange, ExchangeOptions, Foreign, NameServersFailed, NotDescribed, Question, Record, SessionDescriptions, Settings,
    Shared,
};
use sip_message::{KeyHasher, Message};
use sip_transport::selection::Candidate;
use sip_transport::stun::is_stun;
use sip_transport::{Flow, Listener, ListenerId, Node, Output, Protocol, Time};
use std::sync::Arc;
use std::time::Duration;

/// Every table is small, so that the fuzzer reaches the bounds.
const PLACES: usize = 8;

fuzz_target!(|bytes: &[u8]| {
    let Some((&options, mut rest)) = bytes.split_first() else {
        return;
    };
    let listeners = vec![Listener {
        protocol: Protocol::Udp,
        address: ([192, 0, 2, 1], 5060).into(),
        prefix_length: 24,
        advertised: "192.0.2.1:5060".into(),
        behind_balancer: false,
    }];
    let mut settings = Settings::new(&["example.com".into()], listeners);
    if options & 1 == 0 {
        settings.challenge.clear();
    }
    if options & 2 != 0 {
        settings.proxy.foreign = Foreign::Relay;
    }
    if options & 16 != 0 {
        settings.proxy.session_descriptions = SessionDescriptions::Ask;
    }
    settings.limits.server_transactions = PLACES;
    settings.limits.client_transactions = PLACES;
    settings.limits.response_contexts = PLACES;
    settings.limits.parked_requests = PLACES;
    let shared = Arc::new(Shared {
        locations: Locations::new(LocationLimits {
            max_bindings: PLACES,
            max_pending_changes: PLACES,
        }),
        credentials: CredentialCache::new(PLACES, 3600, 60),
        nonces: Nonces::new((1, 2), PLACES),
        bans: sip_elements::bans::Bans::default(),
        dead_targets: DeadTargets::default(),
        edges: sip_elements::Edges::default(),
        services: sip_elements::services::Services::default(),
        hasher: KeyHasher::new((3, 4)),
    });
    let mut now = Time::from_unix_seconds(1_800_000_000);
    let mut node = Exchange::new(ExchangeOptions {
        worker: 0,
        workers: 1,
        shared: Arc::clone(&shared),
        settings: Arc::new(settings),
        metrics: Arc::new(WorkerMetrics::default()),
        seed: [7; 32],
        now,
    });
    let mut output = Output::default();
    let trace = TraceOrder {
        number: 1,
        traces: Selection::user("alice").map(|user| (TraceId::of_serial(0), user)).into_iter().collect(),
        everything: true,
    };
    node.control(now, ControlMessage::Trace(Arc::new(trace)), &mut output);
    let mut questions = Vec::new();
    while let [control, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (message, next) = after.split_at(length);
        rest = next;
        let flow = Flow::to(
            ListenerId(0),
            ([192, 0, 2, 10 + (control & 3)], 5060).into(),
        );
        node.receive(now, flow, message, &mut output);
        check(&node, &output);
        questions.extend(output.drain_questions());
        // A peer may send back what it received.
        let echo: Vec<Vec<u8>> = output
            .outgoing()
            .iter()
            .map(|outgoing| output.written(outgoing.range.clone()).to_vec())
            .collect();
        output.clear();
        if control & 4 != 0 {
            for message in echo.iter().take(2) {
                node.receive(now, flow, message, &mut output);
            }
        }
        if control & 8 != 0 {
            for question in questions.drain(..) {
                node.control(now, answer(question, control & 16 != 0), &mut output);
            }
        }
        if control & 32 != 0 {
            now = now + Duration::from_millis(500);
            node.expire(now, &mut output);
        }
        check(&node, &output);
        output.clear();
    }
    // Time passes until everything has ended.
    for _ in 0..1000 {
        let Some(deadline) = node.next_deadline() else {
            break;
        };
        now = now.max(deadline) + Duration::from_millis(10);
        node.expire(now, &mut output);
        check(&node, &output);
        output.clear();
    }
    let transactions = node.transaction_stats();
    assert_eq!(
        (transactions.servers_live, transactions.clients_live),
        (0, 0),
        "a transaction never ends"
    );
    assert_eq!(
        (node.proxy_stats().live, node.parked()),
        (0, 0),
        "a context never ends"
    );
    assert_eq!((node.held_bytes(), node.held_sources()), ((0, 0), 0));
});

fn answer(question: Question, known: bool) -> ControlMessage {
    match question {
        Question::Credentials { ticket, .. } => ControlMessage::Credentials {
            ticket,
            result: Ok(None),
        },
        Question::Resolve { ticket, .. } => {
            let candidate = |last| Candidate {
                protocol: Protocol::Udp,
                address: ([192, 0, 2, last], 5060).into(),
            };
            let result = if known {
                Ok(vec![candidate(99), candidate(98)])
            } else {
                Err(NameServersFailed)
            };
            ControlMessage::Resolved { ticket, result }
        }
        Question::Describe { ticket, .. } => ControlMessage::Described {
            ticket,
            result: if known {
                Ok(Description::Replace((*b"v=0\r\n").into()))
            } else {
                Err(NotDescribed)
            },
        },
    }
}

fn check(node: &Exchange, output: &Output<Question, Record>) {
    let transactions = node.transaction_stats();
    assert_eq!(
        transactions.servers_created,
        transactions.servers_ended + transactions.servers_live
    );
    assert_eq!(
        transactions.clients_created,
        transactions.clients_ended + transactions.clients_live
    );
    // Requests inside dialogs may use half as much again.
    let most = PLACES + PLACES / 2;
    assert!(transactions.servers_live <= most as u64 && transactions.clients_live <= most as u64);
    let (believed, counted) = node.held_bytes();
    assert_eq!(believed, counted, "bytes held");
    let contexts = node.proxy_stats();
    assert_eq!(contexts.created, contexts.ended + contexts.live);
    assert!(contexts.live <= most as u64 && node.parked() <= most);
    for outgoing in output.outgoing() {
        let message = output.written(outgoing.range.clone());
        if is_stun(message) {
            continue;
        }
        let parsed = Message::parse(message).expect("what we send can be parsed");
        assert!(
            !parsed.is_request() || parsed.validate().is_ok(),
            "an invalid request was sent on"
        );
    }
}
