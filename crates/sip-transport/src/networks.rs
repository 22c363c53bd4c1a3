//! Sets of IP networks, such as the peers an operator trusts.

use ipnet::IpNet;
use std::net::IpAddr;

/// A set of networks. A lookup is a binary search over the networks.
///
/// An IPv4-mapped IPv6 address or network (`::ffff:192.0.2.1`) counts as IPv4. Therefore `::/0` contains every IPv6 address and
/// no IPv4 address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks {
    /// Disjoint and in ascending order.
    v4: Box<[Range<u32>]>,
    v6: Box<[Range<u128>]>,
}

/// First and last address, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range<A> {
    first: A,
    last: A,
}

impl Networks {
    /// Builds the set. The networks may overlap.
    pub fn new(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match (network.network(), network.broadcast()) {
                (IpAddr::V4(first), IpAddr::V4(last)) => v4.push(Range {
                    first: first.to_bits(),
                    last: last.to_bits(),
                }),
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    match (first.to_ipv4_mapped(), last.to_ipv4_mapped()) {
                        (Some(first), Some(last)) => v4.push(Range {
                            first: first.to_bits(),
                            last: last.to_bits(),
                        }),
                        _ => v6.push(Range {
                            first: first.to_bits(),
                            last: last.to_bits(),
                        }),
                    }
                }
                _ => {} // Both ends of a network are of one family.
            }
        }
        Self {
            v4: disjoint(v4),
            v6: disjoint(v6),
        }
    }

    /// Whether the address is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => is_in(&self.v4, address.to_bits()),
            IpAddr::V6(address) => is_in(&self.v6, address.to_bits()),
        }
    }

    /// Whether any address of `network` is in one of the networks.
    pub fn overlaps(&self, network: IpNet) -> bool {
        let other = Self::new([network]);
        let v4 = other.v4.iter().any(|range| is_met(&self.v4, range));
        v4 || other.v6.iter().any(|range| is_met(&self.v6, range))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl FromIterator<IpNet> for Networks {
    fn from_iter<I: IntoIterator<Item = IpNet>>(networks: I) -> Self {
        Self::new(networks)
    }
}

/// Merges overlapping ranges, so that at most one range contains an address.
fn disjoint<A: Ord + Copy>(mut ranges: Vec<Range<A>>) -> Box<[Range<A>]> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, range| {
        let overlaps = next.first <= range.last;
        if overlaps {
            range.last = range.last.max(next.last);
        }
        overlaps
    });
    ranges.into()
}

fn is_in<A: Ord + Copy>(ranges: &[Range<A>], address: A) -> bool {
    let place = ranges.partition_point(|range| range.last < address);
    ranges
        .get(place)
        .is_some_and(|range| range.first <= address)
}

fn is_met<A: Ord + Copy>(ranges: &[Range<A>], other: &Range<A>) -> bool {
    let place = ranges.partition_point(|range| range.last < other.first);
    ranges
        .get(place)
        .is_some_and(|range| range.first <= other.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(texts: &[&str]) -> Networks {
        let parse = |text: &&str| text.parse::<IpNet>().expect("a network");
        texts.iter().map(parse).collect()
    }

    fn check(texts: &[&str], inside: &[&str], outside: &[&str]) {
        let networks = networks(texts);
        let contains = |text: &str| networks.contains(text.parse().expect("an address"));
        for address in inside {
            assert!(contains(address), "{address} in {texts:?}");
        }
        for address in outside {
            assert!(!contains(address), "{address} not in {texts:?}");
        }
    }

    #[test]
    fn an_address_is_in_a_network_up_to_its_last_bit() {
        check(
            &["192.0.2.64/26"],
            &["192.0.2.64", "192.0.2.127"],
            &["192.0.2.63", "192.0.2.128", "0.0.0.0", "::1"],
        );
        check(
            &["2001:db8:1::/48"],
            &["2001:db8:1::", "2001:db8:1:ffff:ffff:ffff:ffff:ffff"],
            &["2001:db8:2::", "2001:db8:0:ffff::", "192.0.2.1"],
        );
    }

    #[test]
    fn a_network_may_be_one_address_or_a_whole_family() {
        check(
            &["192.0.2.1/32", "2001:db8::1/128"],
            &["192.0.2.1", "2001:db8::1"],
            &["192.0.2.0", "192.0.2.2", "2001:db8::", "2001:db8::2"],
        );
        check(
            &["0.0.0.0/0"],
            &["0.0.0.0", "255.255.255.255"],
            &["::", "2001:db8::1"],
        );
        check(
            &["::/0"],
            &["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"],
            &["192.0.2.1", "::ffff:192.0.2.1"],
        );
    }

    #[test]
    fn mapped_addresses_and_networks_are_ipv4() {
        check(
            &["192.0.2.0/24"],
            &["::ffff:192.0.2.9", "192.0.2.9"],
            &["::ffff:192.0.3.9", "::192.0.2.9"],
        );
        check(
            &["::ffff:192.0.2.0/120"],
            &["192.0.2.9", "::ffff:192.0.2.9"],
            &["192.0.3.9"],
        );
    }

    #[test]
    fn networks_may_overlap_in_any_order() {
        check(
            &[
                "10.9.0.0/16",
                "10.0.0.0/8",
                "10.1.2.0/24",
                "192.0.2.0/25",
                "9.9.9.9/32",
            ],
            &[
                "10.0.0.0",
                "10.1.2.3",
                "10.200.0.1",
                "10.255.255.255",
                "192.0.2.127",
                "9.9.9.9",
            ],
            &["9.9.9.10", "11.0.0.0", "192.0.2.128"],
        );
        let nested = networks(&["10.0.0.0/8", "10.1.0.0/16", "10.255.0.0/16"]);
        assert_eq!(nested, networks(&["10.0.0.0/8"]));
    }

    #[test]
    fn networks_overlap_from_either_side() {
        let networks = networks(&["192.0.2.64/26", "2001:db8:1:200::/64", "10.0.0.0/8"]);
        for (network, overlaps) in [
            ("192.0.2.127/32", true),
            ("192.0.2.128/32", false),
            ("192.0.2.0/24", true),
            ("10.1.0.0/16", true),
            ("11.0.0.0/8", false),
            ("2001:db8:1:200::/56", true),
            ("2001:db8:1:200:1::/80", true),
            ("2001:db8:1:100::/56", false),
            ("0.0.0.0/0", true),
            ("::/0", true),
        ] {
            let found = networks.overlaps(network.parse().expect("a network"));
            assert_eq!(found, overlaps, "{network}");
        }
    }

    #[test]
    fn an_empty_set_holds_nothing() {
        check(&[], &[], &["0.0.0.0", "127.0.0.1", "::", "::1"]);
        assert!(networks(&[]).is_empty());
        assert!(!networks(&["::1/128"]).is_empty());
        assert!(!networks(&["127.0.0.0/8"]).is_empty());
    }
}
