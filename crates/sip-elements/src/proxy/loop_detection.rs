//! Loops (RFC 3261 sections 16.3 item 4 and 16.6 step 8, RFC 5393), and the proof that a response answers a request of ours.
//!
//! The 64 bits that a branch of ours carries for us are two keyed hashes: 40 bits over what decides the way of the request, so
//! that the same request coming round again is recognised, and 24 bits over what a response brings back (Call-ID and the Via
//! below ours), so that a response whose context is gone is forwarded only to where its request came from.

use crate::Round;
use sip_message::{HeaderName, Host, KeyHasher, Message, Via};
use sip_transaction::parse_branch;
use smallvec::SmallVec;
use std::net::{IpAddr, SocketAddr};

const PROOF_BITS: u32 = 24;
const PROOF_MASK: u64 = (1 << PROOF_BITS) - 1;

/// The 64 bits for the branch of every copy of this request.
pub(super) fn suffix(hasher: &KeyHasher, request: &Message<'_>, source: SocketAddr) -> u64 {
    let proof = request.top_via().map_or(0, |via| {
        let port = if via.rport().is_some() {
            source.port()
        } else {
            via.port.unwrap_or(5060)
        };
        proof(hasher, request, &via, SocketAddr::new(source.ip(), port))
    });
    (way_hash(hasher, request) << PROOF_BITS) | proof
}

/// Whether we forwarded this very request before (section 16.3 item 4: 482). A request that comes back with another
/// Request-URI or Route is a spiral, not a loop.
pub fn is_loop(request: &Message<'_>, round: &Round<'_>) -> bool {
    let mut ours = request
        .values(HeaderName::Via)
        .filter_map(|value| parse_branch(Via::parse(value)?.branch()?))
        .map(|(_, suffix)| suffix >> PROOF_BITS)
        .peekable();
    if ours.peek().is_none() {
        return false;
    }
    let way = way_hash(&round.shared.hasher, request) & (u64::MAX >> PROOF_BITS);
    ours.any(|other| other == way)
}

/// A hash of all that decides where the request goes. The topmost Via is left out: it differs each time round (RFC 5393
/// section 4.2.1).
fn way_hash(hasher: &KeyHasher, request: &Message<'_>) -> u64 {
    let number = request.cseq().map_or(0, |cseq| cseq.number).to_be_bytes();
    let mut parts: SmallVec<[&[u8]; 12]> = SmallVec::new();
    parts.extend([
        &b"way"[..],
        request.request_uri(),
        request
            .from()
            .and_then(|from| from.tag())
            .unwrap_or_default(),
        request.to().and_then(|to| to.tag()).unwrap_or_default(),
        request.call_id().unwrap_or_default(),
        &number,
    ]);
    parts.extend(request.values(HeaderName::Route));
    parts.push(b"Proxy-Require");
    parts.extend(request.values(HeaderName::ProxyRequire));
    hasher.hash(&parts)
}

/// Where a response that is popped down to this Via goes without its transaction (section 18.2.2); `None` when its sent-by is
/// a name and `received` is missing, which we never leave so.
pub(super) fn response_address(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = via.received().or(match via.host {
        Host::Address(ip) => Some(ip),
        Host::Name(_) => None,
    })?;
    let port = via.rport().flatten().or(via.port).unwrap_or(5060);
    Some(SocketAddr::new(ip, port))
}

/// Whether a response with our branch `suffix` answers a request that we got with `upstream` as its topmost Via.
pub(super) fn is_proven(
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
