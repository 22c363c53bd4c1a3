//! Rules that forward without a transaction (RFC 3261 section 16.11).

use crate::bench::{ALICE, only, recorded, request, settings, status};
use crate::routed::{
    AS_ALICE, Declared, GW_B, NUMBER, Routed, invite, response, routed_with, three_gateways,
};
use sip_elements::{ControlMessage, NameServersFailed, Question, Settings};
use sip_message::Message;
use sip_routing::gateway::GroupDescription;
use sip_routing::limit::{Declared as Bounds, Description, NamedLimit};
use sip_routing::rule::{Authentication, FieldDescription, RuleDescription};
use sip_transport::selection::Candidate;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Node, Protocol};
use std::collections::BTreeMap;
use std::time::Duration;

const SERVER: &str = "192.0.2.60:5060";
const CALLEE: &str = "198.51.100.7:5060";

/// Alice is a trusted peer, and calls to numbers go to another server.
fn peer() -> Settings {
    let mut settings = settings();
    settings.proxy.trusted_peers = ["192.0.2.10/32".parse().expect("a network")]
        .into_iter()
        .collect();
    settings
}

fn to(server: &str) -> RuleDescription {
    RuleDescription {
        name: "on".into(),
        method: Some(vec!["INVITE".into(), "OPTIONS".into()]),
        user: Some(vec!["+*".into()]),
        stateless: Some(server.into()),
        ..RuleDescription::default()
    }
}

fn forwarding(rule: RuleDescription) -> Routed {
    forwarding_with(peer(), rule)
}

fn forwarding_with(settings: Settings, rule: RuleDescription) -> Routed {
    let limits = Description {
        named: vec![NamedLimit {
            name: "slow".into(),
            bounds: Bounds {
                max_calls: Some(1),
                calls_per_second: Some(1.0),
                burst: Some(2),
            },
        }],
        ..Description::default()
    };
    routed_with(
        settings,
        Declared {
            limits,
            rules: vec![rule],
            ..Declared::default()
        },
    )
}

/// The only copy that the server gets.
fn copy(node: &mut Routed, from: &str, message: &str) -> String {
    let sent = node.bench.receive(from, message);
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert_eq!(sent[0].0.to_string(), SERVER, "{sent:#?}");
    sent[0].1.clone()
}

fn branch(message: &str) -> String {
    let message = Message::parse(message.as_bytes()).expect("a message");
    let branch = message.top_via().and_then(|via| via.branch());
    String::from_utf8_lossy(branch.expect("a branch")).into_owned()
}

fn holds_nothing(node: &Routed) -> bool {
    let transactions = node.bench.exchange.transaction_stats();
    let created = transactions.servers_created + transactions.clients_created;
    let contexts = node.bench.exchange.proxy_stats().created;
    let dialogs = node.bench.exchange.dialog_stats().created;
    created + contexts + dialogs == 0 && node.bench.exchange.held_bytes() == (0, 0)
}

#[test]
fn a_call_passes_without_any_state_and_its_messages_have_one_branch() {
    let mut node = forwarding(to("sip:192.0.2.60"));
    let first = copy(&mut node, ALICE, &invite("i1", ""));
    assert!(
        first.starts_with("INVITE sip:+4989123@example.org"),
        "{first}"
    );
    assert!(first.contains("Max-Forwards: 69\r\n"), "{first}");
    assert_eq!(recorded(&first), Vec::<String>::new());
    node.bench.now = node.bench.now + Duration::from_millis(500);
    assert_eq!(copy(&mut node, ALICE, &invite("i1", "")), first);
    for status in ["100 Trying", "180 Ringing", "486 Busy Here"] {
        for _ in 0..2 {
            let sent = node.bench.receive(CALLEE, &response(&first, status));
            let (to, relayed) = sent.first().expect("a response");
            assert_eq!((sent.len(), to.to_string()), (1, ALICE.to_owned()));
            assert!(
                relayed.starts_with(&format!("SIP/2.0 {status}\r\n")),
                "{relayed}"
            );
            assert_eq!(branch(relayed), "z9hG4bKi1");
        }
    }
    let in_invite = |method| request(method, NUMBER, AS_ALICE, "i1", "");
    let ack = in_invite("ACK").replace(
        &format!("To: <{NUMBER}>"),
        &format!("To: <{NUMBER}>;tag=b1"),
    );
    for message in [in_invite("CANCEL"), ack] {
        assert_eq!(branch(&copy(&mut node, ALICE, &message)), branch(&first));
    }
    let other = copy(&mut node, ALICE, &invite("i2", ""));
    assert_ne!(branch(&other), branch(&first));
    assert!(holds_nothing(&node));
    assert_eq!(node.bench.metrics.forwarded_statelessly.value(), 5);
}

#[test]
fn a_response_finds_its_way_after_a_restart_and_a_forged_one_does_not() {
    let mut node = forwarding(to("sip:192.0.2.60"));
    let sent = copy(&mut node, ALICE, &invite("i1", ""));
    let mut next = forwarding(to("sip:192.0.2.60"));
    let answer = response(&sent, "200 OK");
    let (to, relayed) = next.bench.receive(SERVER, &answer).remove(0);
    assert_eq!((to.to_string().as_str(), status(&relayed)), (ALICE, 200));
    for (written, other) in [
        ("Call-ID: call-1", "Call-ID: call-2"),
        ("z9hG4bKi1", "z9hG4bKi2"),
        ("c000020a", "c000020b"),
    ] {
        let forged = answer.replace(written, other);
        assert_ne!(forged, answer, "{written}");
        assert_eq!(next.bench.receive(SERVER, &forged), [], "{written}");
    }
}

#[test]
fn a_response_leaves_on_the_connection_of_its_request() {
    let mut settings = peer();
    settings.listeners.push(Listener {
        protocol: Protocol::Tcp,
        ..settings.listeners[0].clone()
    });
    let mut node = forwarding_with(settings, to("sip:192.0.2.60"));
    let flow = Flow {
        listener: ListenerId(1),
        connection: ConnectionId::new(3, 4),
        remote: "192.0.2.10:40000".parse().expect("an address"),
    };
    let sent = node
        .bench
        .receive_on(flow, &invite("i1", "").replace("/UDP", "/TCP"));
    let (_, sent) = sent.first().expect("a copy");
    let answer = response(sent, "200 OK").replace("Content-Length: 0\n", "");
    let udp = Flow::to(ListenerId(0), SERVER.parse().expect("an address"));
    let relayed = node.bench.receive_on(udp, &answer);
    let (to, relayed) = relayed.first().expect("a response");
    assert_eq!(*to, flow);
    assert!(relayed.contains("Content-Length: 0\r\n"), "{relayed}");
}

#[test]
fn a_request_that_comes_round_again_is_a_loop() {
    let mut node = forwarding(to("sip:192.0.2.60"));
    let sent = copy(&mut node, ALICE, &invite("i1", ""));
    let back = sent.replace("\r\n", "\n");
    let refused = only(node.bench.receive("192.0.2.10:5070", &back));
    assert_eq!(status(&refused), 482);
    // As a spiral, it goes on.
    let spiral = back.replace("INVITE sip:+4989123@", "INVITE sip:+4989124@");
    copy(&mut node, "192.0.2.10:5070", &spiral);
    let last = invite("i3", "").replace("Max-Forwards: 70", "Max-Forwards: 0");
    assert_eq!(status(&only(node.bench.receive(ALICE, &last))), 483);
}

#[test]
fn the_rule_changes_every_copy_alike() {
    let edge = FieldDescription {
        name: "X-Edge".into(),
        value: "1".into(),
    };
    let rule = RuleDescription {
        strip: 3,
        prefix: Some("0".into()),
        add_header: vec![edge],
        authenticate: Some(Authentication::Trust),
        ..to("sip:192.0.2.60")
    };
    let mut node = forwarding_with(settings(), rule);
    let asserted = "P-Asserted-Identity: <sip:1@carrier.example>\n";
    for method in ["INVITE", "CANCEL"] {
        let message = request(method, NUMBER, AS_ALICE, "i1", asserted);
        let sent = copy(&mut node, ALICE, &message);
        assert!(sent.starts_with(&format!("{method} sip:089123@")), "{sent}");
        assert!(sent.contains("X-Edge: 1\r\n"), "{sent}");
        assert!(sent.contains("P-Asserted-Identity"), "{sent}");
    }
}

#[test]
fn senders_who_are_not_trusted_get_a_transaction_but_no_dialog() {
    let rule = RuleDescription {
        authenticate: Some(Authentication::Never),
        ..to("sip:192.0.2.60")
    };
    let mut node = forwarding_with(settings(), rule);
    let sent = node.bench.receive(ALICE, &invite("i1", ""));
    let (to, sent) = sent.last().expect("a copy");
    assert_eq!(to.to_string(), SERVER);
    assert_eq!(recorded(sent), Vec::<String>::new());
    assert!(!sent.contains("Session-Expires"), "{sent}");
    assert_eq!(node.bench.exchange.transaction_stats().servers_live, 1);
    assert_eq!(node.bench.exchange.dialog_stats().created, 0);
    // What a stranger could make others do: nothing follows an INVITE that he has not sent.
    for method in ["CANCEL", "ACK"] {
        let sent = node.bench.receive(
            "198.51.100.66:5060",
            &request(method, NUMBER, AS_ALICE, "i9", ""),
        );
        assert!(
            sent.iter().all(|(to, _)| to.to_string() != SERVER),
            "{sent:#?}"
        );
    }
    let (_, relayed) = node
        .bench
        .receive(SERVER, &response(sent.as_str(), "200 OK"))
        .remove(0);
    assert_eq!(status(&relayed), 200);
}

#[test]
fn the_limit_of_the_rule_bounds_new_calls_per_second_only() {
    let rule = RuleDescription {
        limit: Some("slow".into()),
        ..to("sip:192.0.2.60")
    };
    let mut node = forwarding(rule);
    let call = |number: u32| invite(&format!("i{number}"), "");
    copy(&mut node, ALICE, &call(1));
    copy(&mut node, ALICE, &call(2));
    let refused = only(node.bench.receive(ALICE, &call(3)));
    assert_eq!(status(&refused), 503);
    assert!(refused.contains("Retry-After: 1\r\n"), "{refused}");
    copy(
        &mut node,
        ALICE,
        &request("OPTIONS", NUMBER, AS_ALICE, "o1", ""),
    );
    assert!(holds_nothing(&node));
}

#[test]
fn a_server_with_a_name_is_located_ahead() {
    let mut node = forwarding(to("sip:edge.example.net"));
    // The address is not known yet, so the first call waits with a transaction.
    let sent = node.bench.receive(ALICE, &invite("i1", ""));
    assert_eq!(status(&only(sent)), 100);
    let waiting = resolve(&mut node, Some(SERVER));
    assert!(waiting[0].1.starts_with("INVITE "), "{waiting:#?}");
    assert_eq!(node.bench.wait(Duration::ZERO), []);
    assert_eq!(resolve(&mut node, Some(SERVER)), []);
    copy(&mut node, ALICE, &invite("i2", ""));
    // While the name servers fail, the address stays.
    node.bench.wait(Duration::from_secs(30));
    resolve(&mut node, None);
    copy(&mut node, ALICE, &invite("i3", ""));
    assert_eq!(node.bench.metrics.forwarded_statelessly.value(), 2);
    // A reload keeps it, too.
    let settings = std::sync::Arc::new(Settings {
        policy: std::sync::Arc::clone(&node.policy),
        ..peer()
    });
    let reload = ControlMessage::Settings(settings);
    let now = node.bench.now;
    node.bench
        .exchange
        .control(now, reload, &mut node.bench.output);
    copy(&mut node, ALICE, &invite("i4", ""));
}

/// Answers the next question for an address; `None`: the name servers fail.
fn resolve(node: &mut Routed, address: Option<&str>) -> Vec<(std::net::SocketAddr, String)> {
    let question = node.bench.question();
    let Some(Question::Resolve { ticket, .. }) = question else {
        panic!("{question:?}")
    };
    let candidate = |address: &str| Candidate {
        protocol: Protocol::Udp,
        address: address.parse().expect("an address"),
    };
    let result = address.map(|address| vec![candidate(address)]);
    let result = result.ok_or(NameServersFailed);
    let now = node.bench.now;
    let message = ControlMessage::Resolved { ticket, result };
    node.bench
        .exchange
        .control(now, message, &mut node.bench.output);
    node.bench.sent()
}

#[test]
fn all_messages_of_a_call_go_to_one_gateway_of_a_balanced_group() {
    let mut gateways = three_gateways();
    let group = ["a", "b", "c"]
        .into_iter()
        .fold(GroupDescription::new("cores"), GroupDescription::member);
    gateways.groups.push(group);
    let rule = RuleDescription {
        stateless: None,
        balance: Some("cores".into()),
        ..to("")
    };
    let declared = Declared {
        gateways,
        rules: vec![rule],
        ..Declared::default()
    };
    let mut node = routed_with(peer(), declared);
    let of_call = |node: &mut Routed, method: &str, call: u32| {
        let message = request(method, NUMBER, AS_ALICE, "i1", "");
        let message = message.replace("call-1", &format!("call-{call}"));
        let sent = node.bench.receive(ALICE, &message);
        let [(to, sent)] = &sent[..] else {
            panic!("{sent:#?}")
        };
        assert!(sent.starts_with(&format!("{method} {NUMBER} ")), "{sent}");
        to.to_string()
    };
    let mut calls = BTreeMap::<String, u32>::new();
    for call in 0..300 {
        let gateway = of_call(&mut node, "INVITE", call);
        assert_eq!(of_call(&mut node, "INVITE", call), gateway);
        assert_eq!(of_call(&mut node, "CANCEL", call), gateway);
        *calls.entry(gateway).or_default() += 1;
    }
    assert!(
        calls.len() == 3 && calls.values().all(|share| (60..140).contains(share)),
        "{calls:?}"
    );
    // Only the calls of a gateway that is gone move.
    let before: Vec<String> = (0..100)
        .map(|call| of_call(&mut node, "OPTIONS", call))
        .collect();
    node.gateway("b").disable(node.bench.now);
    for (call, gateway) in (0..).zip(before) {
        let now = of_call(&mut node, "OPTIONS", call);
        assert_eq!(now == gateway, gateway != GW_B, "{gateway} {now}");
    }
    for name in ["a", "c"] {
        node.gateway(name).disable(node.bench.now);
    }
    let refused = only(node.bench.receive(ALICE, &invite("i9", "")));
    assert_eq!(status(&refused), 503);
    assert_eq!(node.live(), [0; 3]);
}
