//! The reach of a node: the protocols of its listeners, and the addresses that they can send to.

use crate::{Listener, Protocol};
use std::net::IpAddr;

/// The protocols of a node's listeners by address family. Nothing leaves the machine from a loopback address, so loopback
/// listeners count only for loopback addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    v4: Family,
    v6: Family,
}

/// A bit for each protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Family {
    within: u8,
    outside: u8,
}

impl Reach {
    /// The reach of these listeners.
    pub fn of(listeners: &[Listener]) -> Self {
        let mut reach = Self::default();
        for listener in listeners {
            let ip = listener.address.ip().to_canonical();
            let family = if ip.is_ipv4() {
                &mut reach.v4
            } else {
                &mut reach.v6
            };
            family.within |= bit(listener.protocol);
            if !ip.is_loopback() {
                family.outside |= bit(listener.protocol);
            }
        }
        reach
    }

    /// Whether any listener speaks this protocol.
    pub const fn speaks(self, protocol: Protocol) -> bool {
        (self.v4.within | self.v6.within) & bit(protocol) != 0
    }

    /// Whether the address is reachable over this protocol.
    pub fn leads_to(self, protocol: Protocol, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let family = if address.is_ipv4() { self.v4 } else { self.v6 };
        let spoken = if address.is_loopback() {
            family.within
        } else {
            family.outside
        };
        spoken & bit(protocol) != 0
    }

    /// Whether there is a listener for IPv4, and one for IPv6.
    pub const fn families(self) -> (bool, bool) {
        (self.v4.within != 0, self.v6.within != 0)
    }
}

const fn bit(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Udp => 1,
        Protocol::Tcp => 2,
        Protocol::Tls => 4,
        Protocol::Ws => 8,
        Protocol::Wss => 16,
    }
}
