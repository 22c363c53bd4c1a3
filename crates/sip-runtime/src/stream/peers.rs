//! How many connections each peer has, over all workers.

use papaya::{Compute, HashMap, Operation};
use std::net::{IpAddr, Ipv6Addr};

/// Counts by address, in constant time. An address without connections takes no room.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    counts: HashMap<IpAddr, u32>,
}

impl Peers {
    /// Counts one more from an address, unless it has `most` already.
    pub(super) fn enter(&self, address: IpAddr, most: u32) -> bool {
        let counts = self.counts.pin();
        let entered = counts.compute(peer(address), |entry| {
            let count = entry.map_or(0, |(_, count)| *count);
            if count >= most {
                Operation::Abort(())
            } else {
                Operation::Insert(count + 1)
            }
        });
        !matches!(entered, Compute::Aborted(()))
    }

    /// One less.
    pub(super) fn leave(&self, address: IpAddr) {
        self.counts
            .pin()
            .compute(peer(address), |entry| match entry {
                Some((_, count)) if *count > 1 => Operation::Insert(count - 1),
                Some(_) => Operation::Remove,
                None => Operation::Abort(()),
            });
    }
}

/// One peer: an IPv4 address, or an IPv6 network of 64 bits, which is what one customer has at least.
fn peer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        ip @ IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_peer_has_no_more_than_it_may_and_others_are_not_concerned() {
        let peers = Peers::default();
        let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
        assert!(peers.enter(one, 2) && peers.enter(one, 2));
        assert!(!peers.enter(one, 2));
        assert!(peers.enter(other, 2));
        peers.leave(one);
        assert!(peers.enter(one, 2) && !peers.enter(one, 2));
    }

    #[test]
    fn addresses_without_connections_take_no_room() {
        let peers = Peers::default();
        for last in 0..100 {
            let ip = address(&format!("192.0.2.{last}"));
            assert!(peers.enter(ip, 1));
            peers.leave(ip);
            assert!(!peers.enter(ip, 0));
        }
        assert!(peers.counts.is_empty());
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        let peers = Peers::default();
        assert!(peers.enter(address("2001:db8::1"), 1));
        assert!(!peers.enter(address("2001:db8::2"), 1));
        assert!(peers.enter(address("2001:db8:0:1::1"), 1));
        assert!(peers.enter(address("::ffff:192.0.2.1"), 1));
        assert!(!peers.enter(address("192.0.2.1"), 1));
    }
}
