//! What names the client transaction of a forwarded copy: a keyed hash of the received request and of the target.
//!
//! A node that gets the same request again, after another one has died, computes the same keys, and so the same branches. Each callee sees a
//! retransmission. The order in which a node knows the targets does not count, and nor does what differs between nodes: connections, listeners,
//! and whether the copy leaves over UDP or over a stream.

use super::target::Target;
use sip_message::{KeyHasher, TransactionKey};
use sip_transaction::ClientKey;
use std::net::{IpAddr, SocketAddr};

/// A received request on its way to one target at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyHash(u64);

impl CopyHash {
    /// The copy of the request with this server transaction that goes to this target, with this Request-URI, at this address.
    pub(crate) fn new(
        hasher: &KeyHasher,
        server: TransactionKey,
        (target, request_uri): (&Target, &[u8]),
        remote: SocketAddr,
    ) -> Self {
        let ip = match remote.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Self(hasher.hash(&[
            b"copy",
            &server.0.to_be_bytes(),
            request_uri,
            &target.route,
            &ip,
            &remote.port().to_be_bytes(),
        ]))
    }

    /// 32 bits of it, not 0. They suffice to tell the copies of one request apart.
    pub(crate) const fn short(self) -> u32 {
        self.0 as u32 | 1
    }

    /// The key of its transaction. `attempt` counts the copies of the same request that went there before: each gets a branch of its own
    /// (RFC 3261 section 22.3).
    pub(crate) fn key(self, hasher: &KeyHasher, attempt: usize) -> ClientKey {
        let attempt = attempt as u64;
        let hash = if attempt == 0 {
            self.0
        } else {
            hasher.hash(&[b"attempt", &self.0.to_be_bytes(), &attempt.to_be_bytes()])
        };
        ClientKey::new(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::destination::straight;

    const HASHER: KeyHasher = KeyHasher::new((1, 2));
    const SERVER: TransactionKey = TransactionKey(7);

    fn key(server: TransactionKey, target: &Target, remote: &str, attempt: usize) -> ClientKey {
        let remote = remote.parse().expect("an address");
        let copy = CopyHash::new(&HASHER, server, (target, target.request_uri()), remote);
        copy.key(&HASHER, attempt)
    }

    #[test]
    fn each_request_target_address_and_attempt_has_its_own_key() {
        let target = straight(b"sip:bob@192.0.2.1");
        let routed = Target {
            route: (*b"<sip:edge;lr>").into(),
            ..target.clone()
        };
        let first = key(SERVER, &target, "192.0.2.1:5060", 0);
        assert_eq!(key(SERVER, &target, "[::ffff:192.0.2.1]:5060", 0), first);
        for other in [
            key(TransactionKey(8), &target, "192.0.2.1:5060", 0),
            key(SERVER, &straight(b"sip:bob@192.0.2.2"), "192.0.2.1:5060", 0),
            key(SERVER, &routed, "192.0.2.1:5060", 0),
            key(SERVER, &target, "192.0.2.1:5061", 0),
            key(SERVER, &target, "192.0.2.1:5060", 1),
            key(SERVER, &target, "192.0.2.1:5060", 2),
        ] {
            assert_ne!(other, first);
        }
    }
}
