//! Which requests are too long for a datagram (RFC 3261 section 18.1.1).

use super::{Candidate, Reach};
use crate::Protocol;

/// The longest request that leaves over UDP where the path MTU is not known, in octets.
pub const MOST_OVER_UDP: usize = 1300;

/// Whether a request of so many octets must not leave over UDP if there is a way around it.
pub const fn prefers_stream(length: usize) -> bool {
    length > MOST_OVER_UDP
}

/// Puts TCP to the same server before each candidate that speaks UDP, where we speak it. UDP stays behind it, for servers that know
/// no TCP.
pub fn streams_first(candidates: &mut Vec<Candidate>, reach: Reach) {
    let mut all = Vec::with_capacity(candidates.len() * 2);
    for candidate in candidates.drain(..) {
        let stream = Candidate {
            protocol: Protocol::Tcp,
            ..candidate
        };
        let wanted = candidate.protocol == Protocol::Udp
            && reach.leads_to(Protocol::Tcp, candidate.address.ip())
            && !all.contains(&stream);
        all.extend(wanted.then_some(stream));
        if !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    *candidates = all;
}
