//! Stateless answers to the messages that phones send to keep a path open.

use super::Stop;
use crate::WorkerParts;
use crate::own_response::Refusal;
use sip_message::{HeaderName, Message, Method};
use sip_transport::Flow;
use sip_transport::stun::{self, BindingRequest};

/// Why a draining server refuses.
pub(crate) const GOING_DOWN: &str = "Server is going down";

/// Whether a datagram contains only line ends (RFC 5626 section 4.4.1) or zero bytes, which phones send as keep-alives.
pub(crate) fn is_empty(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// Whether a datagram is STUN (RFC 5626 section 4.4.2). Connections carry no STUN: line ends keep them open.
pub(crate) fn is_stun(flow: Flow, bytes: &[u8]) -> bool {
    !flow.connection.is_some() && stun::is_stun(bytes)
}

/// Answers a Binding request with the address that it came from. Other STUN messages need no answer.
pub(crate) fn answer_stun(parts: &mut WorkerParts<'_>, flow: Flow, bytes: &[u8]) {
    if let Some(request) = BindingRequest::parse(bytes) {
        parts
            .output
            .send(flow, |into| request.write_response(into, flow.remote));
    }
}

/// Answers OPTIONS to the server itself and NOTIFY with `Event: keep-alive` with 200 at once. While the server drains, OPTIONS gets what an
/// INVITE would get: 503 (section 11.2). Edges and dispatchers then send new calls elsewhere.
pub(crate) fn respond(
    parts: &WorkerParts<'_>,
    request: &Message<'_>,
    is_draining: bool,
) -> Result<(), Stop> {
    if !is_answered(parts, request) {
        return Ok(());
    }
    if is_draining && request.method() == Method::Options {
        return Err(Refusal::Busy(GOING_DOWN).into());
    }
    // The server is the user agent server here, so it must support what the request requires (section 8.2.2.3).
    match request.header(HeaderName::Require) {
        Some(tags) => Err(Refusal::BadExtension(tags.to_vec()).into()),
        None => Err(Refusal::Okay.into()),
    }
}

/// Whether [`respond`] answers this request.
pub(crate) fn is_answered(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    match request.method() {
        Method::Options => is_for_us(parts, request),
        Method::Notify => {
            let event = request.header(HeaderName::Event).unwrap_or_default();
            event.eq_ignore_ascii_case(b"keep-alive") && is_ours(parts, request)
        }
        _ => false,
    }
}

fn is_ours(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    request
        .uri()
        .is_some_and(|uri| parts.settings.domains.is_us(uri))
}

/// Whether the Request-URI names the server itself: one of our domains or addresses, without a user.
pub(crate) fn is_for_us(parts: &WorkerParts<'_>, request: &Message<'_>) -> bool {
    request
        .uri()
        .is_some_and(|uri| uri.user.is_none() && parts.settings.domains.is_us(uri))
}
