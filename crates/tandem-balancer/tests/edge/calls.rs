//! Calls through an edge: which way each message takes.

use crate::support::{
    Bench, NODES, SECRET, Sent, node_at, one_sided, request, tcp, two_sided, udp, udp_inside,
};
use sip_message::{HeaderName, KeyHasher, Message};
use sip_transport::Protocol;
use sip_transport::edge_probe::ProbeBranch;
use sip_transport::selection::Candidate;
use std::time::Duration;
use tandem_balancer::{Control, Member, Members, NodeState};

const ALICE: &str = "203.0.113.7:5060";
const BOB: &str = "198.51.100.9:5060";

/// A node's copy of a request, for a callee at `uri`: with its own Via and Record-Route.
fn relayed(received: &Sent, node: &str, uri: &str, routes: &str) -> String {
    let (line, rest) = received.text.split_once("\r\n").expect("lines");
    let method = line.split(' ').next().expect("a method");
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {node};branch=z9hG4bKnode\r\n{routes}Record-Route: <sip:{node};lr>\r\n{rest}"
    )
}

/// A request inside the dialog whose INVITE arrived as `received`: the callee's route set is its Record-Route.
fn inside(method: &str, received: &Sent, from: &str) -> String {
    let routes = received.values(HeaderName::RecordRoute);
    let lines = routes.iter().map(|route| format!("Route: {route}\r\n"));
    let more = lines.collect::<String>();
    request(method, "UDP", from, "call", &more)
        .replace("bob@example.org>\r", "bob@example.org>;tag=x\r")
}

#[test]
fn a_call_and_its_responses_go_through_the_edge_and_back() {
    let mut bench = Bench::new(one_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    let node = NODES[node_at(invite.flow)];
    let vias = invite.values(HeaderName::Via);
    assert!(
        vias[0].starts_with("SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bKe"),
        "{vias:?}"
    );
    assert!(vias[1].contains("received=203.0.113.7") && vias[1].contains("rport=5060"));
    assert_eq!(invite.values(HeaderName::MaxForwards), ["69"]);
    assert_eq!(invite.values(HeaderName::RecordRoute).len(), 1);

    let onward = relayed(&invite, node, &format!("sip:bob@{BOB}"), "");
    let onward = bench.one(udp(node), &onward);
    assert_eq!(onward.flow, udp(BOB));
    assert_eq!(onward.values(HeaderName::RecordRoute).len(), 3);

    let ringing = bench.one(udp(BOB), &onward.answer(180, ""));
    assert_eq!(ringing.flow, udp(node));
    assert!(ringing.values(HeaderName::Via)[0].contains("branch=z9hG4bKnode"));

    let answer = bench.one(udp(node), &invite.answer(200, ""));
    assert_eq!(answer.flow, udp(ALICE));
    assert_eq!(answer.values(HeaderName::Via).len(), 1);

    // The callee's BYE goes to the node that has the call, and from there to the caller.
    let bye = bench.one(udp(BOB), &inside("BYE", &onward, BOB));
    assert_eq!(bye.flow, udp(node));
    assert_eq!(bye.uri(HeaderName::Route, 0), format!("sip:{node};lr"));
    let routes = bye.values(HeaderName::Route).split_off(1);
    let routes = routes.iter().map(|route| format!("Route: {route}\r\n"));
    let text = request("BYE", "UDP", node, "call", &routes.collect::<String>());
    let text = text.replace("sip:bob@example.org SIP", &format!("sip:alice@{ALICE} SIP"));
    assert_eq!(bench.one(udp(node), &text).flow, udp(ALICE));
}

#[test]
fn an_edge_with_two_sides_records_both() {
    let mut bench = Bench::new(two_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    assert_eq!(invite.flow.listener.0, 2);
    let recorded = invite.values(HeaderName::RecordRoute);
    assert!(
        recorded[0].starts_with("<sip:10.0.0.100:5060;lr;e=c"),
        "{recorded:?}"
    );
    assert!(
        recorded[1].starts_with("<sip:192.0.2.1:5060;lr;e=c"),
        "{recorded:?}"
    );

    let node = NODES[node_at(invite.flow)];
    let onward = relayed(&invite, node, &format!("sip:bob@{BOB}"), "");
    let onward = bench.one(udp_inside(node), &onward);
    assert_eq!(onward.flow, udp(BOB));
    assert!(onward.values(HeaderName::Via)[0].contains("192.0.2.1:5060"));
    let bye = bench.one(udp(BOB), &inside("BYE", &onward, BOB));
    assert_eq!(bye.flow, udp_inside(node));
    assert_eq!(bye.uri(HeaderName::Route, 0), format!("sip:{node};lr"));
}

#[test]
fn all_messages_of_a_call_have_one_node_and_retransmissions_one_branch() {
    let mut bench = Bench::new(one_sided());
    for number in 0..50 {
        let call_id = format!("call{number}");
        let invite = request("INVITE", "UDP", ALICE, &call_id, "");
        let first = bench.one(udp(ALICE), &invite);
        assert_eq!(bench.one(udp(ALICE), &invite), first);
        for method in ["CANCEL", "ACK"] {
            // Both have the branch of their INVITE.
            let text = invite.replace("INVITE sip", &format!("{method} sip"));
            let text = text.replace("1 INVITE", &format!("1 {method}"));
            let sent = bench.one(udp(ALICE), &text);
            assert_eq!(sent.flow, first.flow);
            assert_eq!(
                sent.values(HeaderName::Via)[0],
                first.values(HeaderName::Via)[0]
            );
        }
    }
    let shares: Vec<u64> = bench
        .members
        .iter()
        .map(|(_, health)| health.requests())
        .collect();
    assert!(shares.iter().all(|share| *share > 40), "{shares:?}");
}

#[test]
fn a_call_stays_with_its_node_when_nodes_are_added_and_leaves_a_dead_one() {
    let mut bench = Bench::new(one_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    let home = node_at(invite.flow);
    // The hash alone would now choose among other nodes.
    let mut list: Vec<Member> = vec![crate::support::member(home)];
    list.extend((3..40_u32).map(|number| Member {
        identity: format!("node-{number}"),
        number,
        address: format!("10.0.1.{number}:5060").parse().expect("an address"),
        has_tcp: true,
        is_draining: false,
    }));
    let members = Members::new(list, &bench.settings, 1, Some(&bench.members));
    let members = std::sync::Arc::new(members.expect("a set"));
    bench.control(Control::Members(std::sync::Arc::clone(&members)));
    let bye = inside("BYE", &invite, ALICE);
    assert_eq!(bench.one(udp(ALICE), &bye).flow, invite.flow);

    // Three probes without an answer, one interval apart.
    bench.pass(Duration::from_millis(2_100));
    let state = members.iter().next().map(|(_, health)| health.state());
    assert_eq!(state, Some(NodeState::Dead));
    assert_ne!(bench.one(udp(ALICE), &bye).flow, invite.flow);
    assert_eq!(bench.metrics.moved.value(), 1);
}

#[test]
fn the_response_to_a_node_that_died_goes_to_the_node_that_gets_the_retransmission() {
    let mut bench = Bench::new(one_sided());
    let text = request("INVITE", "UDP", ALICE, "call", "");
    let invite = bench.one(udp(ALICE), &text);
    let home = node_at(invite.flow);
    let onward = relayed(&invite, NODES[home], &format!("sip:bob@{BOB}"), "");
    let onward = bench.one(udp(NODES[home]), &onward);
    for _ in 0..5 {
        bench.answer_probes(&[1 - home]);
    }
    assert_eq!(bench.states()[home], NodeState::Dead);
    let retransmitted = bench.one(udp(ALICE), &text);
    assert_eq!(node_at(retransmitted.flow), 1 - home);
    let answer = bench.one(udp(BOB), &onward.answer(200, ""));
    assert_eq!(answer.flow, retransmitted.flow);
}

#[test]
fn an_icmp_error_takes_a_node_out_at_once_and_an_answer_brings_it_back() {
    let mut bench = Bench::new(one_sided());
    let text = request("INVITE", "UDP", ALICE, "call", "");
    let invite = bench.one(udp(ALICE), &text);
    let home = node_at(invite.flow);
    bench.undeliverable(&invite);
    assert_eq!(bench.states()[home], NodeState::Dead);
    let elsewhere = bench.one(udp(ALICE), &text).flow;
    assert_eq!(node_at(elsewhere), 1 - home);
    bench.answer_probes(&[0, 1]);
    assert_eq!(bench.states(), [NodeState::Alive; 2]);
    assert_eq!(bench.one(udp(ALICE), &text).flow, invite.flow);
}

#[test]
fn a_node_that_answers_probes_with_503_gets_no_new_calls() {
    let mut bench = Bench::new(one_sided());
    let probes = bench.pass(Duration::from_millis(500));
    for probe in probes
        .iter()
        .filter(|sent| sent.text.starts_with("OPTIONS"))
    {
        let status = if node_at(probe.flow) == 0 { 503 } else { 200 };
        bench.receive(probe.flow, &probe.answer(status, ""));
    }
    assert_eq!(bench.states(), [NodeState::Unavailable, NodeState::Alive]);
    for number in 0..20 {
        let text = request("INVITE", "UDP", ALICE, &format!("call{number}"), "");
        let sent = bench.one(udp(ALICE), &text);
        assert_eq!(node_at(sent.flow), 1);
    }
}

#[test]
fn a_probe_proves_the_address_at_which_the_node_sees_the_edge() {
    let probe_of = |bench: &mut Bench| {
        let sent = bench.pass(Duration::from_millis(500));
        let to_first = |sent: &Sent| sent.text.starts_with("OPTIONS") && node_at(sent.flow) == 0;
        sent.into_iter().find(to_first).expect("a probe")
    };
    let seen = |probe: &Sent| {
        let message = Message::parse(probe.text.as_bytes()).expect("a request");
        let via = message.top_via().expect("a Via");
        let branch = via.branch().and_then(ProbeBranch::parse);
        let branch = branch.expect("a branch of a probe");
        assert!(branch.is_genuine(&KeyHasher::new(SECRET), &message));
        branch.edge.map(|edge| edge.to_string())
    };
    let mut bench = Bench::new(one_sided());
    let first = probe_of(&mut bench);
    assert_eq!(seen(&first), None);
    let at = ";rport=5070;received=198.51.100.1";
    let answer = first.answer(200, "").replacen(";rport", at, 1);
    bench.receive(first.flow, &answer);
    let second = probe_of(&mut bench);
    assert_eq!(seen(&second).as_deref(), Some("198.51.100.1:5070"));
}

#[test]
fn a_phone_is_called_over_the_connection_that_it_registered_on() {
    let mut bench = Bench::new(two_sided());
    let phone = tcp("203.0.113.50:40000", 3);
    let text = request(
        "REGISTER",
        "TCP",
        "192.168.1.2:40000",
        "reg",
        "Supported: path, outbound\r\n",
    );
    let register = bench.one(phone, &text);
    let path = register.uri(HeaderName::Path, 0);
    assert!(path.starts_with("sip:10.0.0.100:5060;lr;e=p"), "{path}");
    assert!(path.ends_with(";ob"), "{path}");

    let invite = request(
        "INVITE",
        "UDP",
        NODES[0],
        "call",
        &format!("Route: <{path}>\r\n"),
    );
    let sent = bench.one(udp_inside(NODES[0]), &invite);
    assert_eq!(sent.flow, phone);
    assert!(sent.values(HeaderName::Route).is_empty());
    assert!(sent.values(HeaderName::Via)[0].starts_with("SIP/2.0/TCP 192.0.2.1:5060;"));

    // Later requests to the phone use the connection, whatever its Contact says.
    let recorded = sent.values(HeaderName::RecordRoute);
    let routes = recorded
        .iter()
        .rev()
        .map(|route| format!("Route: {route}\r\n"));
    let bye = request("BYE", "UDP", NODES[0], "call", &routes.collect::<String>());
    assert_eq!(bench.one(udp_inside(NODES[0]), &bye).flow, phone);

    // Its connection has ended.
    let failed = bench.undeliverable(&sent);
    assert_eq!(failed.len(), 1);
    assert!(
        failed[0].text.starts_with("SIP/2.0 430 Flow Failed"),
        "{}",
        failed[0].text
    );
    assert_eq!(failed[0].flow, udp_inside(NODES[0]));
}

#[test]
fn a_phone_behind_a_nat_is_called_back_on_its_flow() {
    let mut bench = Bench::new(one_sided());
    let nat = udp("203.0.113.50:61000");
    let invite = bench.one(
        nat,
        &request("INVITE", "UDP", "192.168.1.2:5060", "call", ""),
    );
    let node = NODES[node_at(invite.flow)];
    let route = format!("Route: {}\r\n", invite.values(HeaderName::RecordRoute)[0]);
    let bye = request("BYE", "UDP", node, "call", &route);
    assert_eq!(bench.one(udp(node), &bye).flow, nat);
}

#[test]
fn a_name_is_resolved_outside_and_the_request_goes_on() {
    let mut bench = Bench::new(one_sided());
    let text = request("INVITE", "UDP", NODES[0], "call", "");
    let questions = bench.questions(udp(NODES[0]), &text);
    assert_eq!(questions.len(), 1);
    assert_eq!(&*questions[0].uri, b"sip:bob@example.org");
    let resolved = |address: Option<&str>| Control::Resolved {
        question: questions[0].clone(),
        candidate: address.map(|address| Candidate {
            protocol: Protocol::Udp,
            address: address.parse().expect("an address"),
        }),
    };
    let sent = bench.control(resolved(Some(BOB)));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].flow, udp(BOB));
    let sent = bench.control(resolved(None));
    assert!(sent[0].text.starts_with("SIP/2.0 478"), "{}", sent[0].text);
    assert_eq!(sent[0].flow, udp(NODES[0]));
}

#[test]
fn a_phone_without_nat_is_called_at_its_contact_through_the_edge() {
    let mut bench = Bench::new(one_sided());
    let text = request("REGISTER", "UDP", BOB, "reg", "");
    // It registers from another port than the one that it listens at.
    let register = bench.one(udp("198.51.100.9:40000"), &text);
    let route = format!("Route: <{}>\r\n", register.uri(HeaderName::Path, 0));
    let invite = request("INVITE", "UDP", NODES[0], "call", &route);
    let invite = invite.replace("sip:bob@example.org SIP", &format!("sip:bob@{BOB} SIP"));
    assert_eq!(bench.one(udp(NODES[0]), &invite).flow, udp(BOB));
}

#[test]
fn two_nodes_that_forward_one_invite_are_one_transaction_to_the_callee() {
    let mut bench = Bench::new(one_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    let uri = format!("sip:bob@{BOB}");
    let copies = NODES.map(|node| bench.one(udp(node), &relayed(&invite, node, &uri, "")));
    let via = |copy: &Sent| copy.values(HeaderName::Via).remove(0);
    assert_eq!(via(&copies[0]), via(&copies[1]));
    for (copy, node) in copies.iter().zip(NODES) {
        assert_eq!(bench.one(udp(BOB), &copy.answer(180, "")).flow, udp(node));
    }
}
