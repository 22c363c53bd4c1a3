//! Counts the connections of each peer and the bytes they hold, across all workers.

use papaya::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Counts per address, in constant time. An address without connections takes no memory.
///
/// Entries are updated in place. In a table whose entries are replaced all the time, most time goes into reclaiming them.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    counts: HashMap<IpAddr, Count>,
}

impl Peers {
    /// Counts another connection from an address, unless it already has `most`.
    pub(super) fn enter(&self, address: IpAddr, most: u32) -> bool {
        if most == 0 {
            return false;
        }
        let counts = self.counts.pin();
        let peer = peer(address);
        loop {
            match counts.get_or_insert_with(peer, Count::default).add(most) {
                Added::Yes => return true,
                Added::Full => return false,
                // The last connection has been released, but its entry is not removed yet.
                Added::Over => drop(counts.remove_if(&peer, |_, count| count.is_over())),
            }
        }
    }

    /// Replaces `before` bytes of one connection by `after` bytes in the total of its address. Only for connections that are counted.
    pub(super) fn charge(&self, address: IpAddr, before: usize, after: usize) {
        if let Some(count) = self.counts.pin().get(&peer(address)) {
            count.octets.fetch_add(after, Ordering::AcqRel);
            count.octets.fetch_sub(before, Ordering::AcqRel);
        }
    }

    /// Bytes that the connections of an address hold.
    pub(super) fn octets(&self, address: IpAddr) -> usize {
        let counts = self.counts.pin();
        let count = counts.get(&peer(address));
        count.map_or(0, |count| count.octets.load(Ordering::Acquire))
    }

    /// The number of connections from an address.
    pub(super) fn connections(&self, address: IpAddr) -> u32 {
        let counts = self.counts.pin();
        let count = counts.get(&peer(address));
        match count.map_or(0, |count| count.connections.load(Ordering::Acquire)) {
            Count::OVER => 0,
            connections => connections,
        }
    }

    /// Releases one connection.
    pub(super) fn leave(&self, address: IpAddr) {
        let counts = self.counts.pin();
        let peer = peer(address);
        if counts.get(&peer).is_some_and(Count::take) {
            // An error means that another thread was faster, and that the entry is a new one.
            let _ = counts.remove_if(&peer, |_, count| count.is_over());
        }
    }
}

/// The connections of one peer. When the count drops to zero, the entry becomes invalid and is not used again.
#[derive(Debug, Default)]
struct Count {
    connections: AtomicU32,
    octets: AtomicUsize,
}

/// The result of adding a connection.
enum Added {
    Yes,
    Full,
    Over,
}

impl Count {
    const OVER: u32 = u32::MAX;

    fn add(&self, most: u32) -> Added {
        let more = |count| (count < most && count != Self::OVER).then(|| count + 1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        match self.connections.fetch_update(set, fetch, more) {
            Ok(_) => Added::Yes,
            Err(Self::OVER) => Added::Over,
            Err(_) => Added::Full,
        }
    }

    /// Subtracts one connection. Returns true if it was the last one.
    fn take(&self) -> bool {
        let less = |count| match count {
            0 | Self::OVER => None,
            1 => Some(Self::OVER),
            count => Some(count - 1),
        };
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.connections.fetch_update(set, fetch, less) == Ok(1)
    }

    fn is_over(&self) -> bool {
        self.connections.load(Ordering::Acquire) == Self::OVER
    }
}

/// The key of a peer: an IPv4 address, or an IPv6 /64 network, which is the least that a customer gets.
pub(super) fn peer(address: IpAddr) -> IpAddr {
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
        }
        assert!(peers.counts.is_empty());
    }

    #[test]
    fn workers_that_count_the_same_peer_lose_no_connection() {
        let (peers, ip) = (Peers::default(), address("192.0.2.1"));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        assert!(peers.enter(ip, 4), "four threads never have more than four");
                        peers.leave(ip);
                    }
                });
            }
        });
        assert!(peers.counts.is_empty());
        assert!(peers.enter(ip, 1) && !peers.enter(ip, 1));
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
