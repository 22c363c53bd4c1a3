//! The unit that failures and bans are counted for: an IPv4 address, or an IPv6 /64 network, which is what one subscriber
//! line usually has.
//!
//! Some lines have more, so an IPv6 /56 network is a source too.

use sip_transport::IpNet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix of `::ffff:0:0/96` in the upper half. No IPv6 network in use begins with it.
const V4: u64 = 0xffff << 32;

/// One source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The upper half of an IPv6 address, or an IPv4 address below [`V4`].
    bits: u64,
    /// Whether this is an IPv6 /56 network.
    is_wide: bool,
}

impl Source {
    /// Stands for all peers that the operator trusts, in nonces. Credentials may arrive through another peer than the one
    /// that passed on the challenge.
    pub(crate) const TRUSTED: Self = Self::narrow(V4);

    const fn narrow(bits: u64) -> Self {
        Self {
            bits,
            is_wide: false,
        }
    }

    /// The source that an address belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::narrow(V4 | u64::from(address.to_bits())),
            IpAddr::V6(address) => Self::narrow((address.to_bits() >> 64) as u64),
        }
    }

    /// The IPv6 /56 network around a source; `None` for an IPv4 address.
    pub fn network(self) -> Option<Self> {
        (!self.is_v4()).then_some(Self {
            bits: self.bits & !0xff,
            is_wide: true,
        })
    }

    const fn is_v4(self) -> bool {
        self.bits >> 32 == V4 >> 32
    }

    /// The network of addresses that this source covers.
    pub(crate) fn addresses(self) -> IpNet {
        let length = match self.address() {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) if self.is_wide => 56,
            IpAddr::V6(_) => 64,
        };
        // The length is always valid for the family of the address.
        IpNet::new(self.address(), length).unwrap_or_else(|_| self.address().into())
    }

    /// The source as a number, for keyed hashes.
    pub(crate) const fn bits(self) -> u64 {
        self.bits
    }

    /// The first address of the source.
    pub fn address(self) -> IpAddr {
        if self.is_v4() {
            Ipv4Addr::from_bits(self.bits as u32).into()
        } else {
            Ipv6Addr::from_bits(u128::from(self.bits) << 64).into()
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addresses() {
            IpNet::V4(network) => write!(formatter, "{}", network.addr()),
            IpNet::V6(network) => write!(formatter, "{network}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_or_an_ipv6_network_is_one_source() {
        for (address, source) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("2001:db8:1:2::", "2001:db8:1:2::/64"),
            ("::1", "::/64"),
            ("0.0.0.0", "0.0.0.0"),
        ] {
            let found = Source::of(address.parse().expect("an address"));
            assert_eq!(found.to_string(), source);
            assert_eq!(Source::of(found.address()), found);
        }
    }

    #[test]
    fn ipv6_networks_lie_in_a_wider_one() {
        let network = |address: &str| {
            let address: IpAddr = address.parse().expect("an address");
            Source::of(address)
                .network()
                .map(|network| network.to_string())
        };
        assert_eq!(network("192.0.2.1"), None);
        assert_eq!(
            network("2001:db8:1:2ff::1").as_deref(),
            Some("2001:db8:1:200::/56")
        );
    }
}
