//! Loop detection (RFC 3261 sections 16.3 item 4 and 16.6 step 8, RFC 5393), and the proof that a response answers a
//! request of ours.
//!
//! Our branch parameter carries 64 bits for this, made of two keyed hashes:
//!
//! - 40 bits over everything that decides where the request goes. They show that the same request has come round again.
//! - 24 bits over what a response brings back (Call-ID and the Via below ours). A response whose context is gone is
//!   forwarded only to where its request came from.

use super::stateless_branch::{self, StatelessBranch};
use crate::View;
use sip_message::{HeaderName, Host, KeyHasher, Message, Method, Via};
use sip_transaction::Branch;
use std::net::{IpAddr, SocketAddr};

const PROOF_BITS: u32 = 24;
const PROOF_MASK: u64 = (1 << PROOF_BITS) - 1;

/// Returns the 64 bits for the branch of every copy of this request. `scratch` is a work buffer.
pub(crate) fn suffix(
    hasher: &KeyHasher,
    request: &Message<'_>,
    source: SocketAddr,
    scratch: &mut Vec<u8>,
) -> u64 {
    // Only a 2xx to an INVITE is ever forwarded without its context.
    let upstream = (request.method() == Method::Invite)
        .then(|| request.top_via())
        .flatten();
    let proof = upstream.map_or(0, |via| {
        let port = if via.rport().is_some() {
            source.port()
        } else {
            via.port.unwrap_or(5060)
        };
        proof(hasher, request, &via, SocketAddr::new(source.ip(), port))
    });
    (way_hash(hasher, request, scratch) << PROOF_BITS) | proof
}

/// Whether we have forwarded this same request before (section 16.3 item 4: 482). A request that comes back with
/// another Request-URI or Route is a spiral, not a loop.
pub fn is_loop(request: &Message<'_>, view: View<'_>) -> bool {
    // A request that we have forwarded has our Via, and the Via of its sender below it.
    if request.values(HeaderName::Via).nth(1).is_none() {
        return false;
    }
    let hasher = &view.shared.hasher;
    let (mut way, mut stateless_way) = (None, None);
    let mut vias = request.values(HeaderName::Via);
    vias.any(|value| {
        let Some(branch) = Via::parse(value).and_then(|via| via.branch()) else {
            return false;
        };
        if let Some(ours) = Branch::parse(branch) {
            let hash = || way_hash(hasher, request, &mut Vec::new()) & (u64::MAX >> PROOF_BITS);
            return ours.suffix() >> PROOF_BITS == *way.get_or_insert_with(hash);
        }
        StatelessBranch::parse(branch).is_some_and(|ours| {
            let hash = || stateless_branch::way(hasher, request, &mut Vec::new());
            ours.has_way(*stateless_way.get_or_insert_with(hash))
        })
    })
}

/// Hash of everything that decides where the request goes. The topmost Via is left out: it differs each time round
/// (RFC 5393 section 4.2.1). From and To are taken as received, including tags: a proxy that rewrites them does so in
/// the same way each time round.
fn way_hash(hasher: &KeyHasher, request: &Message<'_>, scratch: &mut Vec<u8>) -> u64 {
    // Hashing many short parts costs more than copying them together first.
    scratch.clear();
    let mut push = |part: &[u8]| {
        scratch.extend_from_slice(part);
        // Inside a part, a line feed is a fold with white space after it, so parts cannot run together.
        scratch.extend_from_slice(b"\n.");
    };
    push(&request.cseq().map_or(0, |cseq| cseq.number).to_be_bytes());
    push(request.request_uri());
    for name in [HeaderName::From, HeaderName::To, HeaderName::CallId] {
        push(request.header(name).unwrap_or_default());
    }
    for name in [HeaderName::Route, HeaderName::ProxyRequire] {
        request.values(name).for_each(&mut push);
        push(b"");
    }
    hasher.hash(&[b"way", scratch])
}

/// Address that a response goes to without its transaction, when this Via is on top (section 18.2.2). `None` if sent-by
/// is a name and `received` is missing. We never leave a Via in that form.
pub(crate) fn response_address(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = via.received().or(match via.host {
        Host::Address(ip) => Some(ip),
        Host::Name(_) => None,
    })?;
    let port = via.rport().flatten().or(via.port).unwrap_or(5060);
    Some(SocketAddr::new(ip, port))
}

/// Whether a response with our branch `suffix` answers a request that arrived with `upstream` as its topmost Via.
pub(crate) fn is_proven(
    hasher: &KeyHasher,
    response: &Message<'_>,
    suffix: u64,
    upstream: &Via<'_>,
) -> bool {
    response_address(upstream)
        .is_some_and(|address| proof(hasher, response, upstream, address) == suffix & PROOF_MASK)
}

fn proof(
    hasher: &KeyHasher,
    message: &Message<'_>,
    upstream: &Via<'_>,
    address: SocketAddr,
) -> u64 {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let call_id = message.call_id().unwrap_or_default();
    let branch = upstream.branch().unwrap_or_default();
    hasher.hash(&[
        b"upstream",
        call_id,
        branch,
        upstream.sent_by,
        &ip,
        &address.port().to_be_bytes(),
    ]) & PROOF_MASK
}
