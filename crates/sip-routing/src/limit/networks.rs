//! Which network an address belongs to: the smallest of those that contain it.

use sip_transport::IpNet;
use std::net::IpAddr;

/// Networks with a value each. A lookup is a binary search.
///
/// As in [`sip_transport::Networks`], an IPv4-mapped IPv6 address or network counts as IPv4.
#[derive(Debug)]
pub(super) struct ByNetwork<V> {
    v4: Box<[Segment<V>]>,
    v6: Box<[Segment<V>]>,
}

/// Addresses that have the same value, up to the next segment.
#[derive(Debug)]
struct Segment<V> {
    first: u128,
    /// `None`: in no network.
    value: Option<V>,
}

/// A network as its first and last address.
struct Range<V> {
    first: u128,
    last: u128,
    value: V,
}

impl<V: Copy> ByNetwork<V> {
    /// The networks may lie in each other, but no two may be equal: see [`canonical`].
    pub(super) fn new(networks: impl IntoIterator<Item = (IpNet, V)>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (network, value) in networks {
            let network = canonical(network);
            let ranges = match network {
                IpNet::V4(_) => &mut v4,
                IpNet::V6(_) => &mut v6,
            };
            ranges.push(Range {
                first: bits(network.network()),
                last: bits(network.broadcast()),
                value,
            });
        }
        Self {
            v4: segments(v4),
            v6: segments(v6),
        }
    }

    pub(super) fn find(&self, address: IpAddr) -> Option<V> {
        let address = address.to_canonical();
        let segments = match address {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        };
        let address = bits(address);
        let following = segments.partition_point(|segment| segment.first <= address);
        segments.get(following.checked_sub(1)?)?.value
    }
}

/// The network without host bits, and as IPv4 if it is IPv4-mapped.
pub(super) fn canonical(network: IpNet) -> IpNet {
    let network = network.trunc();
    match (network.addr().to_canonical(), network.prefix_len()) {
        (IpAddr::V4(address), length @ 96..) if network.addr().is_ipv6() => {
            IpNet::new(address.into(), length - 96).unwrap_or(network)
        }
        _ => network,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Cuts the ranges where one begins or ends. Ranges lie in each other or apart.
fn segments<V: Copy>(mut ranges: Vec<Range<V>>) -> Box<[Segment<V>]> {
    ranges.sort_unstable_by(|one, other| {
        let by_first = one.first.cmp(&other.first);
        by_first.then(other.last.cmp(&one.last))
    });
    let mut segments = Vec::with_capacity(2 * ranges.len());
    let mut around: Vec<(u128, V)> = Vec::new();
    for range in ranges {
        close(&mut around, &mut segments, |last| last < range.first);
        begin(&mut segments, range.first, Some(range.value));
        around.push((range.last, range.value));
    }
    close(&mut around, &mut segments, |_| true);
    segments.into()
}

/// Ends the innermost ranges that `is_over` selects by their last address. Behind each, the one around it goes on.
fn close<V: Copy>(
    around: &mut Vec<(u128, V)>,
    segments: &mut Vec<Segment<V>>,
    is_over: impl Fn(u128) -> bool,
) {
    while let Some((last, _)) = around.pop_if(|(last, _)| is_over(*last)) {
        let outer = around.last().map(|(_, value)| *value);
        if let Some(next) = last.checked_add(1) {
            begin(segments, next, outer);
        }
    }
}

/// Begins a segment. An empty one before it is replaced.
fn begin<V>(segments: &mut Vec<Segment<V>>, first: u128, value: Option<V>) {
    segments.pop_if(|segment| segment.first == first);
    segments.push(Segment { first, value });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn by_network(texts: &[&str]) -> ByNetwork<usize> {
        let parse = |text: &&str| text.parse().expect("a network");
        ByNetwork::new(texts.iter().map(parse).zip(0..))
    }

    fn check(texts: &[&str], rows: &[(&str, Option<&str>)]) {
        let networks = by_network(texts);
        for (address, expected) in rows {
            let found = networks.find(address.parse().expect("an address"));
            let found = found.and_then(|index| texts.get(index));
            assert_eq!(found, expected.as_ref(), "{address}");
        }
    }

    #[test]
    fn the_smallest_network_around_an_address_is_found() {
        check(
            &[
                "10.0.0.0/8",
                "10.1.0.0/16",
                "10.1.2.0/24",
                "10.1.2.0/25",
                "10.255.0.0/16",
            ],
            &[
                ("10.0.0.0", Some("10.0.0.0/8")),
                ("10.1.0.0", Some("10.1.0.0/16")),
                ("10.1.2.127", Some("10.1.2.0/25")),
                ("10.1.2.128", Some("10.1.2.0/24")),
                ("10.1.3.0", Some("10.1.0.0/16")),
                ("10.2.0.0", Some("10.0.0.0/8")),
                ("10.255.255.255", Some("10.255.0.0/16")),
                ("11.0.0.0", None),
                ("9.255.255.255", None),
            ],
        );
    }

    #[test]
    fn families_are_apart_and_mapped_addresses_are_ipv4() {
        check(
            &[
                "::/0",
                "0.0.0.0/0",
                "::ffff:192.0.2.0/120",
                "2001:db8::1/48",
                "255.255.255.255/32",
            ],
            &[
                ("::", Some("::/0")),
                ("::ffff:192.0.2.9", Some("::ffff:192.0.2.0/120")),
                ("192.0.2.9", Some("::ffff:192.0.2.0/120")),
                ("192.0.3.0", Some("0.0.0.0/0")),
                ("2001:db8::ffff", Some("2001:db8::1/48")),
                ("2001:db8:1::", Some("::/0")),
                ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some("::/0")),
                ("255.255.255.255", Some("255.255.255.255/32")),
            ],
        );
        check(&[], &[("192.0.2.1", None), ("::1", None)]);
    }

    /// Networks of which many lie in each other.
    fn network() -> impl Strategy<Value = IpNet> {
        let v4 = (0_u32..64, 0_u8..=32).prop_map(|(bits, length)| (bits << 26 | bits, length));
        let v4 = v4.prop_map(|(bits, length)| {
            IpNet::new(Ipv4Addr::from_bits(bits).into(), length).expect("a length")
        });
        let v6 = (0_u128..64, 0_u8..=128).prop_map(|(bits, length)| {
            IpNet::new(Ipv6Addr::from_bits(bits << 122 | bits).into(), length).expect("a length")
        });
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn the_longest_prefix_matches_as_in_a_scan(
            networks in prop::collection::vec(network(), 0..40),
        ) {
            let mut networks: Vec<IpNet> = networks.into_iter().map(canonical).collect();
            networks.sort_unstable();
            networks.dedup();
            let found = ByNetwork::new(networks.iter().copied().zip(0_usize..));
            let ends = networks.iter().flat_map(|net| [net.network(), net.broadcast()]);
            for end in ends {
                let number = bits(end);
                for number in [number, number.wrapping_add(1), number.wrapping_sub(1)] {
                    let address = match end {
                        IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
                        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from_bits(number)),
                    };
                    if address != address.to_canonical() {
                        continue;
                    }
                    let around = networks.iter().filter(|net| net.contains(&address));
                    let expected = around.max_by_key(|net| net.prefix_len());
                    let found = found.find(address).and_then(|index| networks.get(index));
                    prop_assert_eq!(found, expected, "{}", address);
                }
            }
        }
    }
}
