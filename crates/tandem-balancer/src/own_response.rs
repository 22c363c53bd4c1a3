//! Responses of the edge itself. All are stateless.

use crate::edge::Edge;
use sip_message::{HeaderName, Message, Method, ResponseWriter};
use sip_transport::{Flow, flow_token, response_flow};

type Output = sip_transport::Output<crate::Question>;

/// Value of Retry-After in a 503, in seconds.
const RETRY_AFTER: &[u8] = b"5";

/// Length of the To tags of the edge.
const TAG: usize = 16;

/// Sends a response to a request that arrived on `flow`. An ACK gets none.
pub(crate) fn respond(
    edge: &Edge,
    request: &Message<'_>,
    flow: Flow,
    status: u16,
    reason: &str,
    output: &mut Output,
) {
    if request.method() == Method::Ack {
        return;
    }
    let flow_back = request
        .top_via()
        .map_or(flow, |via| response_flow(flow, &via));
    output.send(flow_back, |into| {
        write(edge, request, flow, status, reason, into);
    });
    edge.metrics.responded(status);
}

/// Appends the response.
pub(crate) fn write(
    edge: &Edge,
    request: &Message<'_>,
    source: Flow,
    status: u16,
    reason: &str,
    into: &mut Vec<u8>,
) {
    let tag = tag(edge, request);
    let response = ResponseWriter::begin(into, request, source.remote, status, reason, Some(&tag));
    let response = match status {
        200 if request.method() == Method::Options => {
            response.header(HeaderName::Supported, b"path, outbound")
        }
        503 => response.header(HeaderName::RetryAfter, RETRY_AFTER),
        _ => response,
    };
    response.finish();
}

/// Whether a request is the ACK of a response of the edge, by its To tag.
pub(crate) fn is_acknowledged(edge: &Edge, request: &Message<'_>) -> bool {
    request.method() == Method::Ack
        && request
            .to()
            .and_then(|to| to.tag())
            .is_some_and(|written| written.len() == TAG && *written == tag(edge, request))
}

/// The To tag of the edge's responses. It is computed from the request, so that the ACK is recognised without state.
fn tag(edge: &Edge, request: &Message<'_>) -> [u8; TAG] {
    let via = request.top_via();
    let branch = via.and_then(|via| via.branch()).unwrap_or_default();
    let call_id = request.call_id().unwrap_or_default();
    let hash = edge.shared.hasher.hash(&[b"edge tag", call_id, branch]);
    let mut digits = smallvec::SmallVec::<[u8; TAG]>::new();
    flow_token::write_number(&mut digits, &hash.to_be_bytes());
    digits.into_inner().unwrap_or([b'0'; TAG])
}
