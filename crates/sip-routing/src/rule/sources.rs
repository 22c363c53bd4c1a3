//! Sets of the addresses that requests come from.

use super::ranges::{Range, Ranges};
use sip_transport::IpNet;
use std::net::IpAddr;

/// A set of networks. As in [`sip_transport::Networks`], an IPv4-mapped IPv6 network counts as IPv4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    pub(super) v4: Ranges<u32>,
    pub(super) v6: Ranges<u128>,
}

impl Sources {
    pub(super) fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            let ends = (network.network(), network.broadcast());
            let mapped = match ends {
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    first.to_ipv4_mapped().zip(last.to_ipv4_mapped())
                }
                (IpAddr::V4(first), IpAddr::V4(last)) => Some((first, last)),
                // Both ends of a network are of one family.
                _ => None,
            };
            match (mapped, ends) {
                (Some((first, last)), _) => v4.push(Range {
                    start: first.to_bits(),
                    end: last.to_bits().checked_add(1),
                }),
                (None, (IpAddr::V6(first), IpAddr::V6(last))) => v6.push(Range {
                    start: first.to_bits(),
                    end: last.to_bits().checked_add(1),
                }),
                _ => {}
            }
        }
        Self {
            v4: Ranges::new(v4),
            v6: Ranges::new(v6),
        }
    }

    /// Whether the set contains an address that is not IPv4-mapped.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.contains(|bound| bound.cmp(&address.to_bits())),
            IpAddr::V6(address) => self.v6.contains(|bound| bound.cmp(&address.to_bits())),
        }
    }

    /// Whether the set contains all of the other set. An empty set is not covered: a named network may be empty only until the next
    /// reload.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let is_empty = other.v4.is_empty() && other.v6.is_empty();
        !is_empty
            && other.v4.iter().all(|range| self.v4.covers(range))
            && other.v6.iter().all(|range| self.v6.covers(range))
    }
}
