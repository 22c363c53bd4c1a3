//! Responses whose response context is gone: retransmissions of a 2xx by the callee until the ACK arrives, and responses to requests that were
//! in progress when this node restarted, or another node of the same secret died. Their Via chain leads them upstream.

use super::Proxy;
use super::identity_headers::{Party, remove_untrusted};
use super::session_timer;
use crate::WorkerParts;
use crate::metrics::{DropReason, Takeover};
use crate::routing::listener::{ListenerCriteria, flow_to, protocol_of};
use crate::routing::record_route::{self, Recorded};
use crate::routing::return_path::{self, Forwarded, accepts_connections, response_address};
use sip_message::{HeaderName, Message, Method, Patch, Via};
use sip_transaction::{Branch, ServerId};
use sip_transport::{Flow, ListenerId, Protocol};
use std::net::IpAddr;

impl Proxy {
    /// Handles a response that has no client transaction and whose request had one. Section 16.7 has it forwarded statelessly. RFC 6026
    /// section 8.9 has it dropped, so that no attacker can make a proxy send for it. A response that proves that a node with our secret
    /// forwarded its request, and from where, does no such harm, and may be for a call that outlived its node. So it is forwarded, unless it
    /// could end a request that another copy still serves.
    pub(super) fn receive_unknown(
        &mut self,
        parts: &mut WorkerParts<'_>,
        response: &Message<'_>,
        from: IpAddr,
    ) {
        let mut vias = response.values(HeaderName::Via).map(Via::parse);
        let (ours, upstream) = (vias.next().flatten(), vias.next().flatten());
        let branch = ours.and_then(|via| Branch::parse(via.branch()?));
        let (Some(ours), Some(branch), Some(upstream)) = (ours, branch, upstream) else {
            return parts.metrics.dropped(DropReason::StrayResponse);
        };
        let hasher = &parts.shared.hasher;
        let is_genuine = branch.is_genuine(hasher, response.call_id().unwrap_or_default());
        let read = || return_path::read(hasher, response, branch.suffix(), &upstream);
        let Some(forwarded) = is_genuine.then(read).flatten() else {
            return parts.metrics.dropped(DropReason::ForgedResponse);
        };
        let names_us = is_own(parts, &ours);
        let is_for_another = names_us && is_answer_for_another_node(parts, response);
        let may_pass = is_acceptance(response)
            || (is_for_another && is_whole_answer(response, forwarded))
            || (may_pass(response, forwarded) && !self.has_ended_here(parts, (names_us, &branch)));
        if !may_pass {
            return parts.metrics.dropped(DropReason::StrayResponse);
        }
        let popped = pop(parts, response, Party::At(from));
        let is_known =
            Message::parse(&popped.bytes).is_ok_and(|message| server_of(parts, &message).is_some());
        if is_acceptance(response) {
            send_upstream(parts, &popped);
        } else if is_known && !is_for_another {
            // Its context has given up this copy, or answers for all of them.
            return parts.metrics.dropped(DropReason::StrayResponse);
        } else {
            send_by_via(parts, &popped);
        }
        parts.metrics.took_over(Takeover::Response);
        if forwarded.is_inside {
            self.note_unknown(parts, response);
        }
    }
}

impl Proxy {
    /// Whether the context of a response has ended in this process, and not with another one: the transaction is remembered, or this server
    /// wrote the Via, and has run for longer than a request lasts.
    fn has_ended_here(&self, parts: &WorkerParts<'_>, (names_us, branch): (bool, &Branch)) -> bool {
        parts.transactions.client_has_ended(branch) || (names_us && self.has_run_for_long(parts))
    }
}

/// Whether this server wrote a Via.
fn is_own(parts: &WorkerParts<'_>, via: &Via<'_>) -> bool {
    let mut listeners = parts.settings.listeners.iter();
    listeners.any(|it| it.advertised.as_bytes() == via.sent_by)
}

/// Whether a response repeats a final one that this node has had. In a fleet, another node may have sent the copy that it answers: the callee
/// takes that for a retransmission, and answers where the first copy came from. That node hears nothing, so its client must hear it from here.
pub(super) fn is_answer_for_another_node(parts: &WorkerParts<'_>, response: &Message<'_>) -> bool {
    parts.settings.dialogs.adopts
        && response.status() >= 200
        && !matches!(response.method(), Method::Invite | Method::Cancel)
}

/// Whether a response is a 2xx to an INVITE. Each of them reaches the caller (RFC 6026).
pub(super) fn is_acceptance(response: &Message<'_>) -> bool {
    matches!(response.status(), 200..300) && response.method() == Method::Invite
}

/// Whether a response may go upstream without a context. A failure of one copy is no failure of the request if there were others, or would have
/// been. The caller then waits for those, or gives up.
///
/// Over UDP, the sender of another request than INVITE retransmits it until it has the response. The copy of that has the same branch, its
/// response finds a context, and the context updates the dialog. So there is nothing to gain from a response without one.
fn may_pass(response: &Message<'_>, forwarded: Forwarded) -> bool {
    let has_context = !matches!(response.method(), Method::Invite | Method::Cancel);
    !(has_context && is_repeated(response)) && is_whole_answer(response, forwarded)
}

/// Whether a response to one copy answers the request, or tells its sender more than nothing.
fn is_whole_answer(response: &Message<'_>, forwarded: Forwarded) -> bool {
    let method = response.method();
    match response.status() {
        ..=100 => false,
        // A provisional response to another request would only be forwarded in vain (RFC 4320 section 4.1).
        101..200 => method == Method::Invite,
        200..300 => true,
        // The forwarded CANCEL has one answer for each copy.
        _ if method == Method::Cancel => true,
        // They are about a hop, and mean something else to the caller: RFC 3261 section 16.7 step 6, RFC 5626 section 7, RFC 4320 section 4.2.
        503 | 430 => false,
        408 if method != Method::Invite => false,
        600.. => true,
        _ => forwarded.is_sole,
    }
}

/// Whether each hop upstream is over UDP, so that the request of the response is retransmitted.
fn is_repeated(response: &Message<'_>) -> bool {
    let is_datagram = |via: Via<'_>| protocol_of(via.transport) == Some(Protocol::Udp);
    let mut upstream = response.values(HeaderName::Via).skip(1).map(Via::parse);
    upstream.all(|via| via.is_some_and(is_datagram))
}

/// A response without our Via.
struct Popped {
    bytes: Vec<u8>,
    /// Our Record-Route value, if it got the caller's proof.
    recorded: Option<Recorded>,
}

/// Removes our Via, and writes the caller's proof into our Record-Route.
fn pop(parts: &WorkerParts<'_>, response: &Message<'_>, from: Party) -> Popped {
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
    let mut bytes = Vec::new();
    patch.write(&mut bytes);
    Popped { bytes, recorded }
}

/// The server transaction of the request. Without our Via, the response names it.
fn server_of(parts: &WorkerParts<'_>, popped: &Message<'_>) -> Option<ServerId> {
    let key = parts.shared.hasher.server_transaction(popped)?;
    parts.transactions.find_server(key)
}

/// Sends a 2xx to an INVITE upstream: through the server transaction of the INVITE while that exists, else to the address in the Via
/// below ours (section 18.2.2). Returns the server transaction and our Record-Route value, if there are both.
pub(super) fn forward_statelessly(
    parts: &mut WorkerParts<'_>,
    response: &Message<'_>,
    from: Party,
) -> Option<(ServerId, Recorded)> {
    let popped = pop(parts, response, from);
    let server = send_upstream(parts, &popped)?;
    popped.recorded.map(|recorded| (server, recorded))
}

/// Returns the server transaction that has sent the response.
fn send_upstream(parts: &mut WorkerParts<'_>, popped: &Popped) -> Option<ServerId> {
    let message = Message::parse(&popped.bytes).ok()?;
    if let Some(server) = server_of(parts, &message) {
        let write = |into: &mut Vec<u8>| into.extend_from_slice(&popped.bytes);
        let status = message.status();
        if parts
            .transactions
            .respond(parts.now, server, status, parts.output, write)
            .is_some()
        {
            parts.metrics.sent(message.method().label_index(), status);
            return Some(server);
        }
    }
    send_by_via(parts, popped);
    None
}

/// Sends a response to the address in its topmost Via.
fn send_by_via(parts: &mut WorkerParts<'_>, popped: &Popped) {
    let Ok(message) = Message::parse(&popped.bytes) else {
        return parts.metrics.dropped(DropReason::StrayResponse);
    };
    match message.top_via().and_then(|via| flow_back(parts, &via)) {
        Some(flow) => {
            parts
                .output
                .send(flow, |into| into.extend_from_slice(&popped.bytes));
            parts
                .metrics
                .sent(message.method().label_index(), message.status());
        }
        None => parts.metrics.dropped(DropReason::StrayResponse),
    }
}

/// Returns the flow that a Via leads to. Without the transaction that knows the connection, a stream is found by its address, or opened, unless
/// the sender is behind NAT (section 18.2.2). Browsers accept no connections.
fn flow_back(parts: &WorkerParts<'_>, via: &Via<'_>) -> Option<Flow> {
    let protocol = protocol_of(via.transport)?;
    let leads_back = match protocol {
        Protocol::Udp => true,
        Protocol::Tcp | Protocol::Tls => accepts_connections(via),
        Protocol::Ws | Protocol::Wss => false,
    };
    let wanted = ListenerCriteria {
        target: None,
        recorded: None,
        incoming: ListenerId(0),
        protocol: Some(protocol),
    };
    let address = response_address(via).filter(|_| leads_back)?;
    flow_to(&parts.settings.listeners, wanted, address)
}
