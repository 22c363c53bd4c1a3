//! Requests that an edge of the fleet forwarded.
//!
//! Behind an edge, every request comes from the edge's address. The edge proves the address of the client in its Via
//! ([`sip_transport::edge_branch`]). Bans, limits, nonces and trust are about that client. Responses go back to the edge.

use super::Stop;
use crate::metrics::DropReason;
use crate::{Settings, WorkerParts};
use sip_message::{HeaderName, Message, Method, Via};
use sip_transport::Flow;
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use sip_transport::edge_probe::ProbeBranch;
use std::net::IpAddr;

/// The URI parameter in the Route values of an edge.
const EDGE: &[u8] = b"e";

/// The address of the client: the one that an edge of the fleet proves, else that of the flow.
pub(crate) fn client(settings: &Settings, request: &Message<'_>, flow: Flow) -> IpAddr {
    proven(settings, request).map_or(flow.remote.ip(), |client| client.remote.ip())
}

/// Whether an edge of the fleet forwarded the request.
pub(crate) fn has_forwarded(settings: &Settings, request: &Message<'_>) -> bool {
    proven(settings, request).is_some()
}

/// Notes that an edge of the fleet is there, if the request is its probe.
pub(crate) fn note_probe(parts: &WorkerParts<'_>, request: &Message<'_>, flow: Flow) {
    let Some(fleet) = &parts.settings.fleet else {
        return;
    };
    if request.method() != Method::Options {
        return;
    }
    let via = request.top_via();
    let probe = via.and_then(|via| ProbeBranch::parse(via.branch()?));
    // The edge knows its address from the last answer. From elsewhere, the probe is a copy.
    let genuine =
        probe.filter(|probe| probe.edge == Some(flow.remote) && probe.is_genuine(fleet, request));
    if genuine.is_some() {
        parts.shared.edges.heard(flow.remote, parts.now);
    }
}

/// Whether the next hop of a request of ours is an edge: its topmost Route value has the parameter of an edge. This decides only how long the
/// request is repeated, so the edge's proof does not matter.
pub(crate) fn comes_next(settings: &Settings, request: &[u8]) -> bool {
    if settings.fleet.is_none() {
        return false;
    }
    let has_parameter = |request: Message<'_>| {
        let route = request.top_route()?;
        Some(route.params.contains(EDGE))
    };
    let request = Message::parse(request).ok();
    request.and_then(has_parameter).unwrap_or(false)
}

/// Drops a new request that an edge forwarded over UDP, if it has waited here for T1 or longer, because this process stood still. The sender
/// has repeated the request by now, and the edge may have given the repetition to another node. If it is here, too, it waits behind this one. An
/// ACK ends nothing that another node serves.
pub(crate) fn leave_to_its_repetition(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    flow: Flow,
) -> Result<(), Stop> {
    let has_waited = parts.now.saturating_since(parts.arrived) >= parts.settings.timers.t1;
    if !has_waited || request.method() == Method::Ack {
        return Ok(());
    }
    let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
    let is_repeated = listener.is_some_and(|listener| !listener.protocol.is_reliable());
    if is_repeated && has_forwarded(parts.settings, request) {
        parts.metrics.dropped(DropReason::Waited);
        return Err(Stop::Done);
    }
    Ok(())
}

fn proven(settings: &Settings, request: &Message<'_>) -> Option<Flow> {
    let fleet = settings.fleet.as_ref()?;
    let branch = EdgeBranch::parse(request.top_via()?.branch()?)?;
    let Upstream::Client(client) = branch.upstream else {
        return None;
    };
    let below = request.values(HeaderName::Via).nth(1);
    let below = below.and_then(Via::parse)?;
    branch.is_genuine(fleet, request, &below).then_some(client)
}
