//! CANCEL and ACK of an INVITE whose response context is not here: its node has died, and the callee rings, or repeats its refusal.
//!
//! They are forwarded as a stateless proxy does (RFC 3261 section 16.11): to each target of the INVITE, with the branch that the INVITE must have
//! had there, and with all Via values. The responses find their way by these. Without the Via of the caller and the address that it calls from, a
//! sender cannot name a branch that any callee knows: such a CANCEL is answered 481 by the phone.

use super::call_policy::Onward;
use super::forward::{self, RequestCopy};
use super::{Inbound, Proxy, forwarded, in_order};
use crate::WorkerParts;
use crate::metrics::Takeover;
use crate::routing::Routing;
use crate::routing::client_key::CopyHash;
use crate::routing::return_path;
use crate::routing::route::RouteSet;
use crate::routing::target::Way;
use sip_message::Method;
use sip_transaction::Branch;
use sip_transport::Time;
use std::time::Duration;

/// How many copies a worker sends in a second at most. Their senders have proven nothing.
const MOST_COPIES: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// Bounds the copies.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    since: Time,
    sent: u32,
}

impl Allowance {
    fn admits(&mut self, now: Time) -> bool {
        if now.saturating_since(self.since) >= SECOND {
            *self = Self {
                since: now,
                sent: 0,
            };
        }
        self.sent += 1;
        self.sent <= MOST_COPIES
    }
}

impl Proxy {
    /// Forwards a CANCEL, or the ACK of a failure, to the targets of its INVITE. Returns whether it was sent.
    pub(crate) fn follow_lost_invite(
        &mut self,
        parts: &mut WorkerParts<'_>,
        inbound: Inbound<'_, '_>,
        routing: &Routing,
        onward: Onward,
    ) -> bool {
        let request = inbound.request;
        let hasher = &parts.shared.hasher;
        // Their INVITE has the same key.
        let Some(server) = hasher.cancelled_transaction(request) else {
            return false;
        };
        let Onward { targets, policy } = onward;
        let forwarded = forwarded(parts.settings, routing, (&targets, policy.as_deref()));
        let source = inbound.source.remote;
        let suffix = return_path::suffix(hasher, request, source, forwarded, &mut self.scratch);
        let routes = RouteSet::new(routing, request, &parts.settings.listeners);
        let mut is_sent = false;
        for target in in_order(targets, parts.settings).iter().rev() {
            let Ok(hop) = target.hop(&routes, &parts.settings.listeners) else {
                continue;
            };
            let Way::Address(remote) = hop.way else {
                continue;
            };
            let Ok(copy) = RequestCopy::new(parts, inbound, target, &routes, &hop, remote) else {
                continue;
            };
            let uri = hop.strict.map_or(target.request_uri(), |it| it.uri);
            let key = CopyHash::new(hasher, server, (target, uri), remote).key(hasher, 0);
            let call_id = request.call_id().unwrap_or_default();
            let branch = Branch::keyed(hasher, key, call_id, suffix);
            if parts.transactions.knows_client(&branch) {
                // The INVITE was here, and its context is over.
                continue;
            }
            if !self.allowance.admits(parts.now) {
                parts.metrics.took_over(Takeover::Limited);
                break;
            }
            let write = |into: &mut Vec<u8>| branch.write(into);
            forward::send_statelessly(parts, &mut self.scratch, &copy, write);
            is_sent = true;
        }
        if is_sent {
            let takeover = match request.method() {
                Method::Cancel => Takeover::Cancel,
                _ => Takeover::Ack,
            };
            parts.metrics.took_over(takeover);
        }
        is_sent
    }
}
