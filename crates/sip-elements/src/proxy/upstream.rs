//! 2xx responses to an INVITE whose response context is gone: retransmissions by the callee until the ACK arrives, and
//! calls that were in progress when this node restarted.

use super::identity_headers::{Party, remove_untrusted};
use super::session_timer;
use crate::WorkerParts;
use crate::metrics::DropReason;
use crate::routing::listener::{ListenerCriteria, flow_to, protocol_of};
use crate::routing::loop_detection::{is_proven, response_address};
use crate::routing::record_route::{self, Recorded};
use sip_message::{HeaderName, Message, Method, Patch, Via};
use sip_transaction::{Branch, ServerId};
use sip_transport::{Flow, ListenerId, Protocol};
use std::net::IpAddr;

/// Handles a response that has no client transaction. Section 16.7 has it forwarded statelessly. RFC 6026 section 8.9
/// has it dropped, so that no attacker can make a proxy send for it. A 2xx that proves that we forwarded its INVITE,
/// and from where, does no such harm, and may answer a call that outlived a restart. So it is forwarded. All others are
/// dropped.
pub(super) fn receive_stray(parts: &mut WorkerParts<'_>, response: &Message<'_>, from: IpAddr) {
    let mut vias = response.values(HeaderName::Via).map(Via::parse);
    let branch = vias
        .next()
        .flatten()
        .and_then(|via| Branch::parse(via.branch()?));
    let upstream = vias.next().flatten();
    let is_success = matches!(response.status(), 200..300) && response.method() == Method::Invite;
    let (Some(branch), Some(upstream), true) = (branch, upstream, is_success) else {
        return parts.metrics.dropped(DropReason::StrayResponse);
    };
    let hasher = &parts.shared.hasher;
    let call_id = response.call_id().unwrap_or_default();
    if branch.is_genuine(hasher, call_id) && is_proven(hasher, response, branch.suffix(), &upstream)
    {
        forward_statelessly(parts, response, Party::At(from));
    } else {
        parts.metrics.dropped(DropReason::ForgedResponse);
    }
}

/// Sends a 2xx upstream: through the server transaction of the INVITE while that exists, else to the address in the Via
/// below ours (section 18.2.2). Returns the server transaction and our Record-Route value, if there are both.
pub(super) fn forward_statelessly(
    parts: &mut WorkerParts<'_>,
    response: &Message<'_>,
    from: Party,
) -> Option<(ServerId, Recorded)> {
    let mut patch = Patch::new(response);
    patch.remove_first_values(HeaderName::Via, 1);
    // The caller may be on a stream, which needs Content-Length.
    patch.complete_content_length();
    let recorded = record_route::answer(&mut patch, response, parts.view());
    session_timer::agree(&mut patch, response, parts.settings);
    let upstream = response.values(HeaderName::Via).nth(1).and_then(Via::parse);
    let to = upstream.and_then(|via| response_address(&via));
    let to = to.map_or(IpAddr::from([0; 4]), |to| to.ip());
    let trusted = &parts.settings.proxy.trusted_peers;
    remove_untrusted(&mut patch, response, trusted, from, Party::At(to));
    let mut popped = Vec::new();
    patch.write(&mut popped);
    let Ok(message) = Message::parse(&popped) else {
        parts.metrics.dropped(DropReason::StrayResponse);
        return None;
    };
    // Without our Via, the response names the transaction that its INVITE arrived in.
    let key = parts.shared.hasher.server_transaction(&message);
    if let Some(server) = key.and_then(|key| parts.transactions.find_server(key)) {
        let write = |into: &mut Vec<u8>| into.extend_from_slice(&popped);
        if parts
            .transactions
            .respond(parts.now, server, message.status(), parts.output, write)
            .is_some()
        {
            parts
                .metrics
                .sent(message.method().label_index(), message.status());
            return recorded.map(|recorded| (server, recorded));
        }
    }
    match message.top_via().and_then(|via| flow_back(parts, &via)) {
        Some(flow) => {
            parts
                .output
                .send(flow, |into| into.extend_from_slice(&popped));
            parts
                .metrics
                .sent(message.method().label_index(), message.status());
        }
        None => parts.metrics.dropped(DropReason::StrayResponse),
    }
    None
}

/// Returns the flow that a Via leads to. A connection cannot be found without the transaction that knows it.
fn flow_back(parts: &WorkerParts<'_>, via: &Via<'_>) -> Option<Flow> {
    let protocol = protocol_of(via.transport).filter(|protocol| *protocol == Protocol::Udp)?;
    let wanted = ListenerCriteria {
        target: None,
        recorded: None,
        incoming: ListenerId(0),
        protocol: Some(protocol),
    };
    flow_to(&parts.settings.listeners, wanted, response_address(via)?)
}
