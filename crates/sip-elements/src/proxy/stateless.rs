//! Forwarding without a transaction (RFC 3261 section 16.11): requests whose rule says so, and the responses to them.
//!
//! Nothing is kept. A retransmission is forwarded like the first request, and gets the same branch. So do the CANCEL of an INVITE and the
//! ACK of a non-2xx. The branch says where the responses go.

use super::call_policy::Onward;
use super::forward::{self, RequestCopy};
use super::identity_headers::{Party, Trust, remove_untrusted};
use super::{Inbound, Proxy};
use crate::WorkerParts;
use crate::named_servers::NamedServers;
use crate::routing::Routing;
use crate::routing::failure::Failure;
use crate::routing::route::RouteSet;
use crate::routing::stateless_branch::StatelessBranch;
use crate::routing::target::{NextHop, Target, Way};
use sip_message::{HeaderName, Message, Patch, Via};
use std::net::IpAddr;

impl Proxy {
    /// Forwards a request without a transaction to its only target. Returns whether it was sent: without the address of the target, it
    /// must wait, and a request that waits needs a transaction.
    pub(crate) fn forward_statelessly(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        routing: &Routing,
        onward: &Onward,
        servers: &NamedServers,
    ) -> Result<bool, Failure> {
        let Some(target) = onward.targets.first() else {
            return Ok(false);
        };
        let routes = RouteSet::new(routing, inbound.request, &parts.settings.listeners);
        let mut hop = target.hop(&routes, &parts.settings.listeners)?;
        let remote = match hop.way {
            Way::Address(remote) => remote,
            Way::Name(_) => match known_address(target, servers) {
                Some(candidate) => {
                    hop.protocol = Some(candidate.protocol);
                    candidate.address
                }
                None => return Ok(false),
            },
        };
        let (request, source) = (inbound.request, inbound.source);
        let hasher = &parts.shared.hasher;
        let branch = StatelessBranch::of(hasher, request, source, &mut self.scratch);
        let branch = branch.ok_or(Failure::Unreachable)?;
        let copy = RequestCopy::new(parts, inbound, target, &routes, &hop, remote)?;
        let policy = onward.policy.as_deref();
        let trust = Trust {
            sender: policy.is_some_and(|policy| policy.is_trusted),
            receiver: false,
        };
        let copy = copy.under(policy, trust);
        forward::send_statelessly(parts, &mut self.scratch, &copy, |into| branch.write(into));
        parts.metrics.forwarded_statelessly.increment();
        Ok(true)
    }
}

fn known_address(
    target: &Target,
    servers: &NamedServers,
) -> Option<sip_transport::selection::Candidate> {
    match &target.next_hop {
        Some(NextHop::Server(destination)) => servers.find(destination),
        _ => None,
    }
}

/// Forwards a response if its request was forwarded without a transaction, also 100 (section 16.11). Returns `false` if it was not.
pub(super) fn receive(parts: &mut WorkerParts<'_>, response: &Message<'_>, from: IpAddr) -> bool {
    let ours = response.top_via();
    let Some(branch) = ours.and_then(|via| StatelessBranch::parse(via.branch()?)) else {
        return false;
    };
    let below = response.values(HeaderName::Via).nth(1);
    let Some(below) = below.and_then(Via::parse) else {
        return false;
    };
    if !branch.is_genuine(&parts.shared.hasher, response, &below) {
        return false;
    }
    let mut patch = Patch::new(response);
    patch.remove_first_values(HeaderName::Via, 1);
    // The client may be on a stream, which needs Content-Length.
    patch.complete_content_length();
    let trusted = &parts.settings.proxy.trusted_peers;
    let (from, to) = (Party::At(from), Party::At(branch.upstream.remote.ip()));
    remove_untrusted(&mut patch, response, trusted, from, to);
    parts.output.send(branch.upstream, |into| patch.write(into));
    parts
        .metrics
        .sent(response.method().label_index(), response.status());
    true
}
