//! Requests that an edge of the fleet forwarded.
//!
//! Behind an edge, every request comes from the edge's address. The edge proves the address of the client in its Via
//! ([`sip_transport::edge_branch`]). Bans, limits, nonces and trust are about that client. Responses go back to the edge.

use crate::{Settings, WorkerParts};
use sip_message::{HeaderName, Message, Method, Via};
use sip_transport::Flow;
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use sip_transport::edge_probe::ProbeBranch;
use std::net::IpAddr;

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
