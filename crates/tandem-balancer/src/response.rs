//! The path of a response through the edge.
//!
//! ```text
//! response → probe? → our Via? → to a client: from a node? → its flow
//!                              → to a node: the one of the Via below if it answers, else the one that the Call-ID selects
//! ```

use crate::edge::Edge;
use crate::members::Kind;
use crate::metrics::DropReason;
use crate::own_response;
use crate::probes;
use sip_message::{HeaderName, Host, Message, Patch, Via};
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use sip_transport::{Flow, Output, Time, Undelivered};
use std::net::SocketAddr;

type Sent = Output<crate::Question>;

/// Forwards a response to the sender of its request.
pub(crate) fn receive(
    edge: &mut Edge,
    now: Time,
    flow: Flow,
    response: &Message<'_>,
    output: &mut Sent,
) {
    let mut vias = response.values(HeaderName::Via).map(Via::parse);
    let (Some(ours), below) = (vias.next().flatten(), vias.next().flatten()) else {
        return edge.metrics.dropped(DropReason::StrayResponse);
    };
    let Some(branch) = ours.branch().and_then(EdgeBranch::parse) else {
        if !probes::receive(edge, now, response, &ours) {
            edge.metrics.dropped(DropReason::StrayResponse);
        }
        return;
    };
    let Some(below) = below else {
        return edge.metrics.dropped(DropReason::StrayResponse);
    };
    if !branch.is_genuine(&edge.shared.hasher, response, &below) {
        return edge.metrics.dropped(DropReason::ForgedResponse);
    }
    match branch.upstream {
        Upstream::Client(client) => to_client(edge, now, flow, (response, &branch), client, output),
        Upstream::Node => to_node(edge, response, &below, output),
    }
}

fn to_client(
    edge: &mut Edge,
    now: Time,
    from: Flow,
    (response, branch): (&Message<'_>, &EdgeBranch),
    client: Flow,
    output: &mut Sent,
) {
    // A callee knows the branch, because it is in its request. It may answer only through the node.
    if !edge.is_from_node(from) {
        return edge.metrics.dropped(DropReason::NotFromNode);
    }
    if let Some(node) = edge.members.at(from.remote) {
        node.health.heard(now);
    }
    let status = response.status();
    if client.connection.is_some() {
        let shared = &edge.shared;
        let transaction = branch.transaction();
        shared
            .unanswered
            .answered(transaction, status, &shared.hasher);
        if matches!(status, 200..300) {
            // A node has accepted a request of this client.
            output.proven(client.connection);
        }
    }
    forward(edge, response, client, output);
    edge.metrics.to_clients.increment();
}

/// Sends a response to the node that the Via below ours names, if that node answers, else to the one that the Call-ID selects.
fn to_node(edge: &mut Edge, response: &Message<'_>, below: &Via<'_>, output: &mut Sent) {
    let call_id = response.call_id().unwrap_or_default();
    let sender = match (below.host, below.received()) {
        (_, Some(ip)) | (Host::Address(ip), None) => {
            let port = below.rport().flatten().or(below.port);
            edge.members
                .at(SocketAddr::new(ip, port.unwrap_or(5060)))
                .or_else(|| {
                    edge.members
                        .at(SocketAddr::new(ip, below.port.unwrap_or(5060)))
                })
        }
        _ => None,
    };
    let hint = sender.map(|node| node.member.number);
    let Some((node, _)) = edge.node_for(hint, call_id, Kind::Any) else {
        return edge.metrics.dropped(DropReason::StrayResponse);
    };
    let flow = node.flow(response.bytes().len(), edge.settings.largest_datagram);
    forward(edge, response, flow, output);
    edge.metrics.to_nodes.increment();
}

/// Sends a response without our Via.
fn forward(edge: &mut Edge, response: &Message<'_>, flow: Flow, output: &mut Sent) {
    let scratch = std::mem::take(&mut edge.scratch);
    let mut patch = Patch::with_scratch(response, scratch);
    patch.remove_first_values(HeaderName::Via, 1);
    if edge
        .listener(flow)
        .is_some_and(|listener| listener.protocol.is_reliable())
    {
        patch.complete_content_length();
    }
    output.send(flow, |into| patch.write(into));
    edge.scratch = patch.into_scratch();
}

/// Answers a node whose request did not reach its client with 430 (RFC 5626 section 11.4), because the client's connection has ended. Other
/// messages are lost: a node that is gone gets its request again from the client, or from [`crate::Unanswered`].
pub(crate) fn undelivered_request(edge: &mut Edge, message: &Undelivered<'_>, output: &mut Sent) {
    edge.metrics.dropped(DropReason::ConnectionGone);
    let is_stream = edge
        .listener(message.flow)
        .is_some_and(|listener| listener.protocol.is_reliable());
    let Ok(request) = Message::parse(message.bytes) else {
        return;
    };
    if !is_stream || !request.is_request() || request.method() == sip_message::Method::Ack {
        return;
    }
    let mut bytes = Vec::new();
    own_response::write(edge, &request, message.flow, 430, "Flow Failed", &mut bytes);
    let Ok(response) = Message::parse(&bytes) else {
        return;
    };
    let mut vias = response.values(HeaderName::Via).map(Via::parse);
    let (Some(ours), Some(below)) = (vias.next().flatten(), vias.next().flatten()) else {
        return;
    };
    let branch = ours.branch().and_then(EdgeBranch::parse);
    let genuine = branch.filter(|branch| branch.is_genuine(&edge.shared.hasher, &response, &below));
    if genuine.is_some_and(|branch| branch.upstream == Upstream::Node) {
        edge.metrics.responded(430);
        to_node(edge, &response, &below, output);
    }
}
