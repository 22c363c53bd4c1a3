//! The addresses of this machine's network interfaces.

use if_addrs::{IfAddr, Interface};
use sip_transport::Listener;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Expands a configured listener into the listeners that the node works with, in the order in which
/// the kernel lists the interfaces:
///
/// - a wildcard (`0.0.0.0`, `[::]`) becomes one listener for each of the machine's addresses of
///   that family, including loopback but not IPv6 link-local addresses;
/// - any other address stays a single listener.
///
/// Each listener gets the prefix length of the interface that has its address. An address that no
/// interface has keeps its prefix length; binding it fails, unless `ip_nonlocal_bind` is set.
/// `advertised` is kept. If it is empty, [`Runtime::bind`](crate::Runtime::bind) fills in the
/// address.
///
/// # Errors
/// The kernel's error, if it cannot list the interfaces.
pub fn expand_wildcard(listener: &Listener) -> io::Result<Vec<Listener>> {
    Ok(expand(listener, &if_addrs::get_if_addrs()?))
}

fn expand(listener: &Listener, interfaces: &[Interface]) -> Vec<Listener> {
    let own = listener.address.ip();
    let on_interface = |ip: IpAddr, prefix_length: u8| Listener {
        address: SocketAddr::new(ip, listener.address.port()),
        prefix_length,
        ..listener.clone()
    };
    let addresses = interfaces
        .iter()
        .map(|interface| (interface.ip(), prefix_length(&interface.addr)));
    if own.is_unspecified() {
        let mut expanded: Vec<Listener> = Vec::new();
        for (ip, prefix_length) in addresses {
            let usable = ip.is_ipv4() == own.is_ipv4() && !is_link_local_v6(ip);
            // Two interfaces may have the same address, but it can be bound only once.
            if usable && expanded.iter().all(|other| other.address.ip() != ip) {
                expanded.push(on_interface(ip, prefix_length));
            }
        }
        return expanded;
    }
    match addresses.into_iter().find(|(ip, _)| *ip == own) {
        // Do not rebuild the address from the IP alone: that would lose an IPv6 scope.
        Some((_, prefix_length)) => vec![Listener {
            prefix_length,
            ..listener.clone()
        }],
        None => vec![listener.clone()],
    }
}

fn prefix_length(address: &IfAddr) -> u8 {
    match address {
        IfAddr::V4(v4) => v4.prefixlen,
        IfAddr::V6(v6) => v6.prefixlen,
    }
}

fn is_link_local_v6(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use if_addrs::{IfOperStatus, Ifv4Addr, Ifv6Addr};
    use sip_transport::Protocol;

    fn listener(address: &str, prefix_length: u8) -> Listener {
        Listener {
            protocol: Protocol::Udp,
            address: address.parse().expect("socket address"),
            prefix_length,
            advertised: "sip.example.org".to_owned(),
            behind_balancer: false,
        }
    }

    fn interface(ip: &str, prefixlen: u8) -> Interface {
        let addr = match ip.parse().expect("IP address") {
            IpAddr::V4(ip) => IfAddr::V4(Ifv4Addr {
                ip,
                netmask: [0; 4].into(),
                prefixlen,
                broadcast: None,
            }),
            IpAddr::V6(ip) => IfAddr::V6(Ifv6Addr {
                ip,
                netmask: [0; 16].into(),
                prefixlen,
                broadcast: None,
            }),
        };
        Interface {
            name: "test0".to_owned(),
            addr,
            index: None,
            oper_status: IfOperStatus::Up,
            is_p2p: false,
        }
    }

    fn check(address: &str, expected: &[(&str, u8)]) {
        let interfaces = [
            interface("127.0.0.1", 8),
            interface("192.0.2.7", 24),
            interface("192.0.2.7", 24),
            interface("::1", 128),
            interface("2001:db8::7", 64),
            interface("fe80::7", 64),
        ];
        let expanded = expand(&listener(address, 1), &interfaces);
        let expected: Vec<(SocketAddr, u8)> = expected
            .iter()
            .map(|(address, prefix)| (address.parse().expect("socket address"), *prefix))
            .collect();
        let found: Vec<(SocketAddr, u8)> = expanded
            .iter()
            .map(|listener| (listener.address, listener.prefix_length))
            .collect();
        assert_eq!(found, expected);
        assert!(
            expanded
                .iter()
                .all(|listener| listener.advertised == "sip.example.org")
        );
    }

    #[test]
    fn a_wildcard_becomes_one_listener_per_address_of_its_family() {
        check(
            "0.0.0.0:5060",
            &[("127.0.0.1:5060", 8), ("192.0.2.7:5060", 24)],
        );
        check(
            "[::]:5070",
            &[("[::1]:5070", 128), ("[2001:db8::7]:5070", 64)],
        );
    }

    #[test]
    fn an_address_gets_the_prefix_length_of_its_interface() {
        check("192.0.2.7:5060", &[("192.0.2.7:5060", 24)]);
        check("[fe80::7%3]:5060", &[("[fe80::7%3]:5060", 64)]);
    }

    #[test]
    fn an_address_that_no_interface_bears_stays_as_it_is() {
        check("198.51.100.1:5060", &[("198.51.100.1:5060", 1)]);
    }

    #[test]
    fn loopback_is_among_the_addresses_of_this_machine() {
        let expanded = expand_wildcard(&listener("0.0.0.0:5060", 0)).expect("interfaces");
        let loopback = expanded
            .iter()
            .find(|listener| listener.address == SocketAddr::from(([127, 0, 0, 1], 5060)))
            .expect("loopback");
        assert_eq!(loopback.prefix_length, 8);
    }
}
