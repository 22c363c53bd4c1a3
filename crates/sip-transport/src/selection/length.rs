//! The length limit of requests over UDP (RFC 3261 section 18.1.1).

use super::{Candidate, Reach};
use crate::Protocol;

/// The longest request in bytes that is sent over UDP if the path MTU is unknown.
pub const MAX_OVER_UDP: usize = 1300;

/// Whether a request of this length in bytes must avoid UDP if there is an alternative.
pub const fn prefers_stream(length: usize) -> bool {
    length > MAX_OVER_UDP
}

/// Inserts a TCP candidate for the same server before each UDP candidate, if the node speaks TCP. UDP remains as an alternative
/// for servers without TCP.
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
