//! Which addresses count as one source.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix of `::ffff:0:0/96` in the upper half. No IPv6 network in use begins with it.
const V4: u64 = 0xffff << 32;

/// An IPv4 address, or an IPv6 /64 network, which is the least that a customer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source(u64);

impl Source {
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(V4 | u64::from(address.to_bits())),
            IpAddr::V6(address) => Self((address.to_bits() >> 64) as u64),
        }
    }

    /// The first address of the source.
    pub(super) fn address(self) -> IpAddr {
        if self.0 >> 32 == V4 >> 32 {
            Ipv4Addr::from_bits(self.0 as u32).into()
        } else {
            Ipv6Addr::from_bits(u128::from(self.0) << 64).into()
        }
    }
}

impl From<&Source> for Source {
    fn from(source: &Source) -> Self {
        *source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_or_an_ipv6_network_is_one_source() {
        for (address, first) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            let found = Source::of(address.parse().expect("an address"));
            assert_eq!(found.address().to_string(), first);
        }
    }
}
