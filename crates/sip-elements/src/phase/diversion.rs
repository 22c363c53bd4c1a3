//! Finds where a call goes that its callee diverts: by call forwarding, or because its phone redirects the call (RFC 3261 section 16.7
//! step 4).
//!
//! The subscriber that diverts a call pays for it and answers for it. The diverted call goes where this subscriber's own call to the
//! target would go: rules see it in From and the target in To, and the limits of the subscriber and of the rule count the call. The source
//! of the call, its header fields, its trust and its credentials open nothing.

use super::policy::{self, Ruling};
use crate::WorkerParts;
use crate::identity::Identity;
use crate::metrics::Refused;
use crate::proxy::Onward;
use crate::routing::Routing;
use crate::routing::failure::Failure;
use sip_message::{Message, Scheme, Uri};
use sip_routing::rule::Facts;

/// A call that is diverted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Diverted<'d, 'm> {
    /// The INVITE as received.
    pub(crate) request: &'d Message<'m>,
    /// The subscriber that diverts it (`user@domain`).
    pub(crate) by: &'d [u8],
    /// The URI that it is diverted to.
    pub(crate) target: &'d [u8],
}

/// Finds where a diverted call goes. The result holds the places in the limits of the subscriber.
///
/// # Errors
/// The subscriber may not call the target, or the target leads nowhere.
pub(crate) fn find(parts: &WorkerParts<'_>, diverted: Diverted<'_, '_>) -> Result<Onward, Failure> {
    let Diverted {
        request,
        by,
        target,
    } = diverted;
    let scheme = Uri::parse(target).map(|uri| uri.scheme);
    let is_allowed = match scheme {
        Some(Scheme::Sips) => true,
        // A secure call stays secure (RFC 5630 section 5.3).
        Some(Scheme::Sip) => request.uri().is_some_and(|uri| uri.scheme != Scheme::Sips),
        _ => false,
    };
    if !is_allowed {
        return Err(Failure::NotDiverted);
    }
    let bytes = as_own_call(request, by, target);
    let request = Message::parse(&bytes).map_err(|_| Failure::NotDiverted)?;
    // It has not arrived: a rule for a trunk or a customer does not match.
    let facts = Facts {
        request: &request,
        arrival: None,
    };
    let ruling = Ruling::first(&parts.settings.policy, &facts);
    if ruling.is_answered() {
        parts.metrics.refused(Refused::Diversion);
        return Err(Failure::NotDiverted);
    }
    let routing = Routing::default();
    let identity = Identity::Subscriber(by.into());
    let onward = policy::find(parts, &request, &routing, &identity, ruling);
    let onward = onward.map_err(|_| {
        parts.metrics.refused(Refused::Diversion);
        Failure::NotDiverted
    })?;
    let permits = policy::admit_diverted(parts, by, ruling)?;
    Ok(match permits {
        Some(permits) => onward.with_permits(permits),
        None => onward,
    })
}

/// The INVITE as the subscriber would send it to the target, for rules and prefixes only. Nothing of the caller is in it but the Call-ID,
/// by which gateways are chosen: a rule must not believe the caller.
fn as_own_call(request: &Message<'_>, by: &[u8], target: &[u8]) -> Vec<u8> {
    let mut own = Vec::with_capacity(512);
    for part in [
        b"INVITE ",
        target,
        b" SIP/2.0\r\nFrom: <sip:",
        by,
        b">\r\nTo: <",
        target,
        b">\r\nCall-ID: ",
        request.call_id().unwrap_or_default(),
        b"\r\n\r\n",
    ] {
        own.extend_from_slice(part);
    }
    own
}
