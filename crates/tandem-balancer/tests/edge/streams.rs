//! Clients on streams do not retransmit, so the edge does.

use crate::support::{Bench, Sent, node_at, one_sided, request, tcp};
use sip_message::HeaderName;
use std::time::Duration;
use tandem_balancer::NodeState;

const PHONE: &str = "203.0.113.50:40000";

fn copies(sent: &[Sent], method: &str) -> Vec<Sent> {
    let is_copy = |sent: &&Sent| sent.text.starts_with(method);
    sent.iter().filter(is_copy).cloned().collect()
}

#[test]
fn a_request_that_died_with_its_node_reaches_another_one() {
    let mut bench = Bench::new(one_sided());
    let phone = tcp(PHONE, 3);
    let invite = bench.one(phone, &request("INVITE", "TCP", PHONE, "call", ""));
    let home = node_at(invite.flow);
    bench.undeliverable(&invite);
    assert_eq!(bench.states()[home], NodeState::Dead);
    let repeated = copies(&bench.pass(Duration::from_millis(700)), "INVITE");
    assert_eq!(repeated.len(), 1);
    assert_eq!(node_at(repeated[0].flow), 1 - home);
    // Both nodes take it for one transaction.
    let via = |sent: &Sent| sent.values(HeaderName::Via);
    assert_eq!(via(&repeated[0]), via(&invite));
    assert_eq!(bench.metrics.repeated.value(), 1);

    let trying = bench.one(repeated[0].flow, &repeated[0].answer(100, ""));
    assert_eq!(trying.flow, phone);
    let later = bench.pass(Duration::from_secs(40));
    assert!(copies(&later, "INVITE").is_empty());
}

#[test]
fn a_request_other_than_invite_is_repeated_until_its_final_response() {
    let mut bench = Bench::new(one_sided());
    let sent = bench.one(tcp(PHONE, 3), &request("BYE", "TCP", PHONE, "call", ""));
    bench.one(sent.flow, &sent.answer(100, ""));
    assert_eq!(
        copies(&bench.pass(Duration::from_millis(600)), "BYE").len(),
        1
    );
    bench.one(sent.flow, &sent.answer(200, ""));
    assert!(copies(&bench.pass(Duration::from_secs(40)), "BYE").is_empty());
}

#[test]
fn an_ack_and_datagrams_are_not_repeated() {
    let mut bench = Bench::new(one_sided());
    bench.one(tcp(PHONE, 3), &request("ACK", "TCP", PHONE, "call", ""));
    bench.one(
        crate::support::udp(PHONE),
        &request("INVITE", "UDP", PHONE, "call2", ""),
    );
    let later = bench.pass(Duration::from_secs(40));
    assert!(later.iter().all(|sent| sent.text.starts_with("OPTIONS")));
}

#[test]
fn a_long_request_goes_over_tcp() {
    let mut bench = Bench::new(one_sided());
    let long = format!("Subject: {}\r\n", "x".repeat(1_200));
    let sent = bench.one(
        crate::support::udp(PHONE),
        &request("INVITE", "UDP", PHONE, "call", &long),
    );
    assert_eq!(sent.flow.listener.0, 1);
    assert!(sent.values(HeaderName::Via)[0].starts_with("SIP/2.0/TCP"));
}
