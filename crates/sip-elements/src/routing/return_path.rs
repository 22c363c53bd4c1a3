//! The proof in our branch that a response answers a request that we forwarded, and from where the request came. With it, a response finds its
//! way upstream at a node that has no transaction for it: the node has restarted, or another node of the same secret forwarded the request.
//!
//! The branch has 64 bits for its user:
//!
//! - 32 bits over everything that decides where the request goes ([`loop_detection`](super::loop_detection))
//! - 4 bits that say what the response may do without a response context
//! - 28 bits: a keyed hash over these 4 bits and all that a response brings back: Call-ID, tag of From, `CSeq`, and the Via below ours with the
//!   address that the request came from; inside a dialog, the tag of To, too

use super::listener::protocol_of;
use super::loop_detection::way_hash;
use sip_message::{Host, KeyHasher, Message, Method, Via};
use sip_transport::Protocol;
use std::net::{IpAddr, SocketAddr};

const PROOF_BITS: u32 = 28;
const PROOF_MASK: u64 = (1 << PROOF_BITS) - 1;
const WAY_BITS: u32 = 32;
const SOLE: u8 = 1;
const INSIDE: u8 = 2;

/// What our branch says about a forwarded request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// It had one target, and nothing would be tried after that. A final response from there therefore answers the request.
    pub(crate) is_sole: bool,
    /// It was in a dialog that we record-routed.
    pub(crate) is_inside: bool,
}

impl Forwarded {
    fn bits(self) -> u8 {
        (SOLE * u8::from(self.is_sole)) | (INSIDE * u8::from(self.is_inside))
    }

    const fn of_bits(bits: u8) -> Self {
        Self {
            is_sole: bits & SOLE != 0,
            is_inside: bits & INSIDE != 0,
        }
    }
}

/// Returns the 64 bits for the branch of every copy of this request. The CANCEL of an INVITE and the ACK of its failure get those of the
/// INVITE. `scratch` is a work buffer.
pub(crate) fn suffix(
    hasher: &KeyHasher,
    request: &Message<'_>,
    source: SocketAddr,
    forwarded: Forwarded,
    scratch: &mut Vec<u8>,
) -> u64 {
    let way = way_hash(hasher, request, scratch) >> (u64::BITS - WAY_BITS);
    let proof = request.top_via().map_or(0, |via| {
        let address = address_of_source(&via, source);
        proof(hasher, request, (&via, address), forwarded)
    });
    way << (u64::BITS - WAY_BITS) | u64::from(forwarded.bits()) << PROOF_BITS | proof
}

/// Whether a branch with these bits belongs to a request that goes this way. `way` is the whole [`way_hash`] of the request.
pub(crate) const fn has_way(suffix: u64, way: u64) -> bool {
    suffix >> (u64::BITS - WAY_BITS) == way >> (u64::BITS - WAY_BITS)
}

/// What our branch with these bits says about the request of a response; `None` if the response does not answer a request that arrived with
/// `upstream` as its topmost Via.
pub(crate) fn read(
    hasher: &KeyHasher,
    response: &Message<'_>,
    suffix: u64,
    upstream: &Via<'_>,
) -> Option<Forwarded> {
    let forwarded = Forwarded::of_bits((suffix >> PROOF_BITS) as u8 & 15);
    let address = response_address(upstream)?;
    let expected = proof(hasher, response, (upstream, address), forwarded);
    (expected == suffix & PROOF_MASK).then_some(forwarded)
}

/// Address that a response goes to without its transaction, when this Via is on top (section 18.2.2). `None` if sent-by is a name and
/// `received` is missing. We never leave a Via in that form.
pub(crate) fn response_address(via: &Via<'_>) -> Option<SocketAddr> {
    let ip = via.received().or(match via.host {
        Host::Address(ip) => Some(ip),
        Host::Name(_) => None,
    })?;
    let port = via.rport().flatten().filter(|_| !is_stream(via));
    Some(SocketAddr::new(
        ip,
        port.unwrap_or_else(|| port_of_sent_by(via)),
    ))
}

/// The same address for a Via that is not completed yet, from the source of its request.
fn address_of_source(via: &Via<'_>, source: SocketAddr) -> SocketAddr {
    let port = if via.rport().is_some() && !is_stream(via) {
        source.port()
    } else {
        port_of_sent_by(via)
    };
    SocketAddr::new(source.ip(), port)
}

/// Whether a new connection to the address in sent-by leads to the sender of the request: no NAT is in between.
pub(crate) fn accepts_connections(via: &Via<'_>) -> bool {
    match via.host {
        Host::Address(ip) => via.received().is_none_or(|received| received == ip),
        Host::Name(_) => via.received().is_some(),
    }
}

/// Whether responses go over a connection. If it is gone, they go to the port in sent-by (section 18.2.2).
fn is_stream(via: &Via<'_>) -> bool {
    protocol_of(via.transport).is_some_and(Protocol::is_reliable)
}

fn port_of_sent_by(via: &Via<'_>) -> u16 {
    let default = || protocol_of(via.transport).map_or(5060, Protocol::default_port);
    via.port.unwrap_or_else(default)
}

fn proof(
    hasher: &KeyHasher,
    message: &Message<'_>,
    (upstream, address): (&Via<'_>, SocketAddr),
    forwarded: Forwarded,
) -> u64 {
    let ip = match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    let cseq = message.cseq();
    let method = match cseq.map(|cseq| cseq.method) {
        Some(Method::Cancel | Method::Ack) => Method::Invite,
        Some(method) => method,
        None => Method::Other(b""),
    };
    let (from, to) = (message.from(), message.to());
    let from_tag = from.and_then(|from| from.tag());
    let to_tag = to.and_then(|to| to.tag());
    let to_tag = to_tag.filter(|_| forwarded.is_inside);
    hasher.hash(&[
        b"upstream",
        &[forwarded.bits()],
        message.call_id().unwrap_or_default(),
        from_tag.unwrap_or_default(),
        to_tag.unwrap_or_default(),
        &cseq.map_or(0, |cseq| cseq.number).to_be_bytes(),
        method.as_bytes(),
        upstream.branch().unwrap_or_default(),
        upstream.sent_by,
        &ip,
        &address.port().to_be_bytes(),
    ]) & PROOF_MASK
}
