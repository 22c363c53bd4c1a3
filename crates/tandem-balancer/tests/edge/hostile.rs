//! What attackers send to an edge, and what they get.

use crate::support::{Bench, NODES, one_sided, request, tcp, two_sided, udp, udp_inside};
use sip_message::HeaderName;
use tandem_balancer::DropReason;

const ALICE: &str = "203.0.113.7:5060";
const BOB: &str = "198.51.100.9:5060";

fn dropped(bench: &Bench, reason: DropReason) -> u64 {
    bench.metrics.drops[reason as usize].value()
}

#[test]
fn a_client_cannot_aim_its_calls_at_a_node() {
    let mut bench = Bench::new(one_sided());
    let honest = request("INVITE", "UDP", ALICE, "call", "");
    let honest = bench.one(udp(ALICE), &honest);
    let value = honest.uri(HeaderName::RecordRoute, 0);
    let home = honest.flow;
    // The authentic value of one call, in many others.
    let route = format!("Route: <{value}>\r\n");
    let elsewhere = (0..40).filter(|number| {
        let text = request("INVITE", "UDP", ALICE, &format!("other{number}"), &route);
        bench.one(udp(ALICE), &text).flow != home
    });
    let elsewhere = elsewhere.count();
    assert!((8..32).contains(&elsewhere), "{elsewhere} of 40");
    assert_eq!(bench.metrics.moved.value(), 0);
}

#[test]
fn a_client_cannot_relay_through_the_edge() {
    let mut bench = Bench::new(one_sided());
    let register = request("REGISTER", "TCP", ALICE, "reg", "");
    let path = bench.one(tcp(ALICE, 3), &register).uri(HeaderName::Path, 0);
    for route in [
        format!("<{path}>"),
        format!("<sip:{BOB};lr>"),
        "<sip:192.0.2.1;lr>".to_owned(),
    ] {
        let text = request("INVITE", "UDP", BOB, "call", &format!("Route: {route}\r\n"));
        let text = text.replace("sip:bob@example.org SIP", &format!("sip:x@{ALICE} SIP"));
        let sent = bench.one(udp(BOB), &text);
        assert!(
            NODES.contains(&sent.flow.remote.to_string().as_str()),
            "{route}: {:?}",
            sent.flow
        );
    }
}

#[test]
fn with_a_side_for_nodes_the_public_side_believes_no_address() {
    let mut bench = Bench::new(two_sided());
    let text = request("INVITE", "UDP", NODES[0], "call", "");
    let text = text.replace("sip:bob@example.org SIP", &format!("sip:x@{BOB} SIP"));
    assert_eq!(bench.one(udp_inside(NODES[0]), &text).flow, udp(BOB));
    let forged = bench.one(udp(NODES[0]), &text);
    assert!(NODES.contains(&forged.flow.remote.to_string().as_str()));
}

#[test]
fn a_callee_cannot_answer_past_the_node() {
    let mut bench = Bench::new(one_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    assert!(bench.receive(udp(BOB), &invite.answer(200, "")).is_empty());
    assert_eq!(dropped(&bench, DropReason::NotFromNode), 1);
}

#[test]
fn responses_with_forged_or_missing_vias_are_dropped_and_counted() {
    let mut bench = Bench::new(one_sided());
    let invite = bench.one(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", ""));
    let answer = invite.answer(200, "");
    let node = invite.flow;
    assert!(
        bench
            .receive(node, &answer.replace("Call-ID: call", "Call-ID: d"))
            .is_empty()
    );
    assert!(
        bench
            .receive(
                node,
                &answer.replace("203.0.113.7:5060;branch", "203.0.113.8:5060;branch")
            )
            .is_empty()
    );
    assert_eq!(dropped(&bench, DropReason::ForgedResponse), 2);
    assert!(
        bench
            .receive(node, &answer.replace("z9hG4bKe", "z9hG4bKx"))
            .is_empty()
    );
    assert!(
        bench
            .receive(node, "SIP/2.0 200 OK\r\nCall-ID: c\r\n\r\n")
            .is_empty()
    );
    assert_eq!(dropped(&bench, DropReason::StrayResponse), 2);
}

#[test]
fn a_forged_answer_to_a_probe_does_not_revive_a_node() {
    let mut bench = Bench::new(one_sided());
    let probes = bench.pass(std::time::Duration::from_millis(2_100));
    let probe = probes
        .iter()
        .find(|sent| sent.text.starts_with("OPTIONS"))
        .expect("a probe");
    let answer = probe.answer(200, "");
    let forged = answer.replace("Call-ID: probe-", "Call-ID: probe+");
    bench.receive(probe.flow, &forged);
    assert!(
        bench
            .states()
            .iter()
            .all(|state| *state == tandem_balancer::NodeState::Dead)
    );
    bench.receive(probe.flow, &answer);
    assert!(bench.states().contains(&tandem_balancer::NodeState::Alive));
}

#[test]
fn bad_requests_get_a_status_or_a_counter() {
    let mut bench = Bench::new(one_sided());
    let whole = request("INVITE", "UDP", ALICE, "call", "");
    let none = whole.replace("Max-Forwards: 70", "Max-Forwards: 0");
    let sent = bench.one(udp(ALICE), &none);
    assert!(sent.text.starts_with("SIP/2.0 483"), "{}", sent.text);
    // The ACK of that response ends here.
    let to = sent.values(HeaderName::To).remove(0);
    let ack = whole
        .replace("INVITE sip", "ACK sip")
        .replace("1 INVITE", "1 ACK");
    let ack = ack.replace("To: <sip:bob@example.org>", &format!("To: {to}"));
    assert!(bench.receive(udp(ALICE), &ack).is_empty());

    for part in ["Call-ID: call\r\n", "CSeq: 1 INVITE\r\n"] {
        assert!(
            bench
                .receive(udp(ALICE), &whole.replace(part, ""))
                .is_empty(),
            "{part}"
        );
    }
    assert_eq!(dropped(&bench, DropReason::Incomplete), 2);
    assert!(
        bench
            .receive(udp(ALICE), "GET / HTTP/1.1\r\n\r\n")
            .is_empty()
    );
    assert_eq!(dropped(&bench, DropReason::NotSip), 1);
    let many = "X: y\r\n".repeat(200);
    assert!(
        bench
            .receive(udp(ALICE), &request("INVITE", "UDP", ALICE, "call", &many))
            .is_empty()
    );
    assert_eq!(dropped(&bench, DropReason::TooManyHeaders), 1);
    assert!(bench.receive(udp(ALICE), "\r\n\r\n").is_empty());
}

#[test]
fn a_node_cannot_make_the_edge_send_to_groups_of_hosts() {
    let mut bench = Bench::new(one_sided());
    for host in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "198.51.100.9:0"] {
        let text = request("INVITE", "UDP", NODES[0], "call", "");
        let text = text.replace("sip:bob@example.org SIP", &format!("sip:bob@{host} SIP"));
        let sent = bench.one(udp(NODES[0]), &text);
        assert!(
            sent.text.starts_with("SIP/2.0 478"),
            "{host}: {}",
            sent.text
        );
    }
}

#[test]
fn keep_alives_for_the_edge_are_answered_by_the_edge() {
    let mut bench = Bench::new(one_sided());
    let to_edge = |method: &str, more: &str| {
        let text = request(method, "UDP", ALICE, "call", more);
        text.replace("sip:bob@example.org SIP", "sip:192.0.2.1 SIP")
    };
    let sent = bench.one(udp(ALICE), &to_edge("OPTIONS", ""));
    assert!(sent.text.starts_with("SIP/2.0 200"), "{}", sent.text);
    let sent = bench.one(udp(ALICE), &to_edge("NOTIFY", "Event: keep-alive\r\n"));
    assert!(sent.text.starts_with("SIP/2.0 200"), "{}", sent.text);
    let sent = bench.one(udp(ALICE), &to_edge("NOTIFY", "Event: refer\r\n"));
    assert!(sent.text.starts_with("NOTIFY"), "{}", sent.text);
}
