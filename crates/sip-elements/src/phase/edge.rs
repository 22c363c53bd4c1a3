//! Requests that an edge of the fleet forwarded.
//!
//! Behind an edge, every request comes from the edge's address. The edge proves the address of the client in its Via
//! ([`sip_transport::edge_branch`]). Bans, limits, nonces and trust are about that client. Responses go back to the edge.

use crate::Settings;
use sip_message::{HeaderName, Message, Via};
use sip_transport::Flow;
use sip_transport::edge_branch::{EdgeBranch, Upstream};
use std::net::IpAddr;

/// The address of the client: the one that an edge of the fleet proves, else that of the flow.
pub(crate) fn client(settings: &Settings, request: &Message<'_>, flow: Flow) -> IpAddr {
    proven(settings, request).map_or(flow.remote.ip(), |client| client.remote.ip())
}

/// Whether an edge of the fleet forwarded the request.
pub(crate) fn has_forwarded(settings: &Settings, request: &Message<'_>) -> bool {
    proven(settings, request).is_some()
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
