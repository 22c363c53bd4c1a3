//! Checks whether a request can be processed: RFC 3261 section 16.3, items 1 to 5.

use super::{Stop, authentication, keep_alive};
use crate::WorkerParts;
use crate::own_response::Refusal;
use crate::routing::is_loop;
use sip_message::{HeaderName, Malformed, Message, Method, Scheme};
use sip_transport::{Flow, Protocol};
use smallvec::SmallVec;

/// Checks syntax (400, 505, 513), scheme (416), Max-Forwards (483), loops (482) and Proxy-Require (420).
pub(crate) fn check(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    flow: Flow,
) -> Result<(), Stop> {
    validate(parts, request, flow)
        .map_err(|malformed| Refusal::Because(malformed.status, malformed.reason))?;
    if !is_sip(request) && !is_for_rules(parts, request) {
        return Err(Refusal::Status(416).into());
    }
    if request.max_forwards() == Some(Some(0)) && !ends_here(parts, request) {
        return Err(Refusal::Status(483).into());
    }
    if request.method() == Method::Ack {
        return Ok(()); // An ACK gets no response.
    }
    if is_loop(request, parts.view()) {
        return Err(Refusal::Status(482).into());
    }
    // Section 16.3 item 5. A CANCEL has no Proxy-Require to check (section 9.1).
    if request.method() == Method::Cancel {
        return Ok(());
    }
    match unsupported_extensions(request) {
        Some(tags) => Err(Refusal::BadExtension(tags).into()),
        None => Ok(()),
    }
}

/// Whether the Request-URI is one that every server can forward to.
pub(crate) fn is_sip(request: &Message<'_>) -> bool {
    let scheme = request.uri().map(|uri| uri.scheme);
    matches!(scheme, Some(Scheme::Sip | Scheme::Sips))
}

/// Whether a routing rule may lead a request with another scheme to a gateway: a telephone number, or a service such as
/// `urn:service:sos` (RFC 5031). An ACK has the Request-URI of its INVITE, but no other request of a dialog does.
fn is_for_rules(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    let has_tag = || request.to().and_then(|to| to.tag()).is_some();
    request.uri().is_some()
        && !parts.settings.policy.rules.is_empty()
        && (request.method() == Method::Ack || !has_tag())
}

/// Checks that a message is well-formed for the transport it came over.
pub(crate) fn validate(
    parts: &WorkerParts<'_>,
    message: &Message<'_>,
    flow: Flow,
) -> Result<(), Malformed> {
    if is_in_stream(parts, flow) {
        message.validate_in_stream()
    } else {
        message.validate()
    }
}

/// Whether this is only the beginning of a message whose header is longer than the server accepts.
pub(crate) fn is_truncated(parts: &WorkerParts<'_>, message: &Message<'_>, flow: Flow) -> bool {
    !message.has_whole_header() && is_in_stream(parts, flow)
}

/// Whether only the message itself tells where it ends.
fn is_in_stream(parts: &WorkerParts<'_>, flow: Flow) -> bool {
    let listener = parts.settings.listeners.get(usize::from(flow.listener.0));
    let protocol = listener.map(|listener| listener.protocol);
    matches!(protocol, Some(Protocol::Tcp | Protocol::Tls))
}

/// Whether this server is the final recipient, which Max-Forwards 0 may reach (sections 11 and 16.3 item 3). A REGISTER
/// inside a dialog does not count: it may be one that passes through this server.
fn ends_here(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    let is_registration = || {
        authentication::is_registration(parts, request)
            && request.to().and_then(|to| to.tag()).is_none()
    };
    keep_alive::is_answered(parts, request) || is_registration()
}

/// Returns the option tags of Proxy-Require that Tandem does not support, joined by commas. A request with such tags
/// gets 420. Tandem has no extension that a proxy must support, so every tag counts.
fn unsupported_extensions(request: &Message<'_>) -> Option<Vec<u8>> {
    let tags: SmallVec<[&[u8]; 4]> = request.values(HeaderName::ProxyRequire).collect();
    (!tags.is_empty()).then(|| tags.join(&b", "[..]))
}
