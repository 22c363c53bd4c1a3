//! Probes: OPTIONS to each node, without state but the time of the last one.

use crate::edge::Edge;
use crate::health::NodeState;
use crate::members::Node;
use sip_message::{HeaderName, Message, Method, RequestWriter, Via};
use sip_transport::edge_probe::ProbeBranch;
use sip_transport::{Output, Time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How soon a node is probed that an error reported as gone.
const HASTE: Duration = Duration::from_millis(50);

/// The schedule of the probes.
#[derive(Debug)]
pub(crate) struct Probes {
    next: Time,
    last: Option<Time>,
    /// Probes in a row that were not answered, by node.
    missed: Vec<(u32, u32)>,
    /// The number of the last round, for Call-ID and `CSeq`.
    round: u32,
    is_hasty: bool,
}

impl Probes {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            next: now,
            last: None,
            missed: Vec::new(),
            round: 0,
            is_hasty: false,
        }
    }

    pub(crate) const fn next(&self) -> Time {
        self.next
    }

    /// Brings the next round forward.
    pub(crate) fn hasten(&mut self) {
        if let Some(last) = self.last.filter(|_| !self.is_hasty) {
            self.is_hasty = true;
            self.next = self.next.min(last + HASTE);
        }
    }

    /// Counts the nodes that have not answered since the last round.
    fn count_misses(&mut self, nodes: &[Node]) {
        let Some(last) = self.last else {
            return;
        };
        let missed = |node: &Node| {
            let before = self
                .missed
                .iter()
                .find(|(number, _)| *number == node.member.number);
            let Some((_, before)) = before else {
                // It was not in the set yet.
                return (node.member.number, 0);
            };
            let has_answered = node.health.last_heard() >= last;
            (
                node.member.number,
                if has_answered { 0 } else { before + 1 },
            )
        };
        self.missed = nodes.iter().map(missed).collect();
    }
}

/// Sends a round of probes if it is due.
pub(crate) fn expire(edge: &mut Edge, now: Time, output: &mut Output<crate::Question>) {
    let (interval, most) = (edge.settings.probe_interval, edge.settings.probe_misses);
    let members = Arc::clone(&edge.members);
    let Some(probes) = edge.probes.as_mut().filter(|probes| probes.next <= now) else {
        return;
    };
    // A hasty round comes too early to expect an answer to the one before.
    if !probes.is_hasty {
        probes.count_misses(members.nodes());
    }
    if probes.last.is_none() {
        let of = |node: &Node| (node.member.number, 0);
        probes.missed = members.nodes().iter().map(of).collect();
    }
    probes.is_hasty = false;
    probes.last = Some(now);
    probes.next = now + interval;
    probes.round = probes.round.wrapping_add(1);
    let round = probes.round;
    for node in members.nodes() {
        let missed = probes
            .missed
            .iter()
            .find(|(number, _)| *number == node.member.number);
        if missed.is_some_and(|(_, missed)| *missed >= most) {
            node.health.set(NodeState::Dead);
        }
    }
    for node in members.nodes() {
        send(edge, node, (round, now), output);
    }
}

fn send(edge: &Edge, node: &Node, (round, now): (u32, Time), output: &mut Output<crate::Question>) {
    let flow = node.udp;
    let Some(listener) = edge.listener(flow) else {
        return;
    };
    let us = format!("<sip:{}>", listener.advertised);
    let uri = format!("sip:{}", node.member.address);
    let call_id = format!("probe-{:x}-{round}", now.as_micros());
    let (hasher, seen) = (&edge.shared.hasher, node.health.seen_at());
    let branch = ProbeBranch::new(hasher, call_id.as_bytes(), node.member.number, seen);
    output.send(flow, |into| {
        RequestWriter::begin(into, Method::Options, uri.as_bytes())
            .header_with(HeaderName::Via, |into| {
                into.extend_from_slice(b"SIP/2.0/UDP ");
                into.extend_from_slice(listener.advertised.as_bytes());
                into.extend_from_slice(b";branch=");
                branch.write(into);
                into.extend_from_slice(b";rport");
            })
            .header(HeaderName::MaxForwards, b"1")
            .header(HeaderName::From, format!("{us};tag={round:x}").as_bytes())
            .header(HeaderName::To, format!("<{uri}>").as_bytes())
            .header(HeaderName::CallId, call_id.as_bytes())
            .header(HeaderName::CSeq, b"1 OPTIONS")
            .header(HeaderName::Contact, us.as_bytes())
            .finish();
    });
}

/// Handles a response to a probe. Returns `false` if it is none.
pub(crate) fn receive(edge: &Edge, now: Time, response: &Message<'_>, via: &Via<'_>) -> bool {
    let Some(branch) = via.branch().and_then(ProbeBranch::parse) else {
        return false;
    };
    let mut nodes = edge.members.nodes().iter();
    let Some(node) = nodes.find(|node| node.member.number == branch.node) else {
        return true;
    };
    if !branch.is_genuine(&edge.shared.hasher, response) {
        return false;
    }
    // Any response shows that the node lives.
    let state = match response.status() {
        503 => NodeState::Unavailable,
        _ => NodeState::Alive,
    };
    node.health.set(state);
    node.health.heard(now);
    if let (Some(ip), Some(port)) = (via.received(), via.rport().flatten()) {
        node.health.saw_us_at(SocketAddr::new(ip, port));
    }
    true
}
