//! Which of our listeners a message leaves from (RFC 3261 section 16.6 step 7, 18.1), and which destinations are
//! forbidden.

use sip_transport::{Flow, Listener, ListenerId, Protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Criteria for the choice of a listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenerCriteria {
    /// The target's own listener: the one that its REGISTER arrived on.
    pub(crate) target: Option<ListenerId>,
    /// The listener that our Record-Route named for this direction (RFC 5658).
    pub(crate) recorded: Option<ListenerId>,
    /// The listener that the request arrived on.
    pub(crate) incoming: ListenerId,
    /// The protocol, if the URI names one.
    pub(crate) protocol: Option<Protocol>,
}

/// Returns the flow to a destination. Returns `None` if the destination is forbidden or unreachable: broadcast,
/// multicast and unspecified addresses, port 0, and a protocol or address family without a listener.
pub(crate) fn flow_to(
    listeners: &[Listener],
    wanted: ListenerCriteria,
    remote: SocketAddr,
) -> Option<Flow> {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let ip = remote.ip();
    if !is_sendable(listeners, remote) {
        return None;
    }
    let listener_of = |id: ListenerId| listeners.get(usize::from(id.0));
    let same_family = |listener: &Listener| listener.address.is_ipv4() == ip.is_ipv4();
    let speaks = |listener: &Listener| {
        wanted
            .protocol
            .is_none_or(|protocol| protocol == listener.protocol)
    };
    if let Some(id) = wanted.target
        && listener_of(id).is_some_and(|listener| same_family(listener) && speaks(listener))
    {
        return Some(Flow::to(id, remote));
    }
    let protocol = wanted.protocol.unwrap_or(Protocol::Udp);
    let fits = |listener: &Listener| listener.protocol == protocol && same_family(listener);
    let near = |listener: &Listener| listener.address.ip().is_loopback() == ip.is_loopback();
    let rank = |(place, listener): &(usize, &Listener)| {
        let id = ListenerId(*place as u16);
        // Lower is better: the first criterion in which two listeners differ decides.
        (
            !near(listener),
            wanted.recorded != Some(id),
            !listener.reaches_directly(ip),
            wanted.incoming != id,
        )
    };
    let (place, _) = listeners
        .iter()
        .enumerate()
        .filter(|(_, listener)| fits(listener))
        .min_by_key(rank)?;
    Some(Flow::to(ListenerId(place as u16), remote))
}

/// Whether anything may be sent to this address: not to port 0, and not to unspecified, broadcast or multicast
/// addresses.
pub(crate) fn is_sendable(listeners: &[Listener], remote: SocketAddr) -> bool {
    let many_or_none = match remote.ip().to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_broadcast()
                || ip.is_multicast()
                || ip.octets().first() == Some(&0)
                || listeners
                    .iter()
                    .any(|listener| is_directed_broadcast(listener, ip))
        }
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
    };
    remote.port() != 0 && !many_or_none
}

/// Whether this is the last address of the listener's network.
fn is_directed_broadcast(listener: &Listener, ip: Ipv4Addr) -> bool {
    let IpAddr::V4(own) = listener.address.ip() else {
        return false;
    };
    // Networks of one or two addresses have no broadcast address (RFC 3021).
    let Some(hosts) = u32::MAX
        .checked_shr(u32::from(listener.prefix_length))
        .filter(|hosts| *hosts > 1)
    else {
        return false;
    };
    ip.to_bits() == own.to_bits() | hosts
}

/// The protocol that a `transport` parameter names.
pub(crate) fn protocol_of(token: &[u8]) -> Option<Protocol> {
    Protocol::from_token(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, prefix_length: u8) -> Listener {
        let address: SocketAddr = address.parse().expect("an address");
        Listener {
            protocol: Protocol::Udp,
            address,
            prefix_length,
            advertised: address.to_string(),
            behind_balancer: false,
        }
    }

    fn wanted(incoming: u16) -> ListenerCriteria {
        ListenerCriteria {
            target: None,
            recorded: None,
            incoming: ListenerId(incoming),
            protocol: None,
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_listener_is_the_one_that_fits_best() {
        let listeners = [
            listener("127.0.0.1:5060", 8),
            listener("192.0.2.1:5060", 24),
            listener("198.51.100.1:5060", 24),
            listener("[2001:db8::1]:5060", 64),
        ];
        let chosen = |wanted, remote| {
            flow_to(&listeners, wanted, address(remote)).map(|flow| flow.listener.0)
        };
        assert_eq!(
            chosen(wanted(1), "192.0.2.9:5060"),
            Some(1),
            "incoming, direct"
        );
        assert_eq!(
            chosen(wanted(1), "198.51.100.9:5060"),
            Some(2),
            "another reaches it directly"
        );
        assert_eq!(
            chosen(wanted(2), "203.0.113.9:5060"),
            Some(2),
            "nobody does: incoming"
        );
        assert_eq!(
            chosen(wanted(0), "203.0.113.9:5060"),
            Some(1),
            "never from loopback to the outside"
        );
        assert_eq!(chosen(wanted(1), "127.0.0.1:5070"), Some(0));
        assert_eq!(chosen(wanted(1), "[2001:db8:5::9]:5060"), Some(3));
        assert_eq!(
            chosen(wanted(1), "[::ffff:192.0.2.9]:5060"),
            Some(1),
            "mapped"
        );
        let by_target = ListenerCriteria {
            target: Some(ListenerId(2)),
            ..wanted(1)
        };
        assert_eq!(chosen(by_target, "192.0.2.9:5060"), Some(2));
        assert_eq!(
            chosen(by_target, "[2001:db8::9]:5060"),
            Some(3),
            "of the other family"
        );
        let recorded = ListenerCriteria {
            recorded: Some(ListenerId(2)),
            ..wanted(1)
        };
        assert_eq!(chosen(recorded, "192.0.2.9:5060"), Some(2));
        let tcp = ListenerCriteria {
            protocol: Some(Protocol::Tcp),
            ..wanted(1)
        };
        assert_eq!(chosen(tcp, "192.0.2.9:5060"), None);
    }

    #[test]
    fn nothing_is_sent_to_broadcast_multicast_or_unspecified_addresses() {
        let listeners = [
            listener("192.0.2.1:5060", 24),
            listener("198.51.100.1:5060", 32),
            listener("[2001:db8::1]:5060", 64),
        ];
        for refused in [
            "255.255.255.255:5060",
            "192.0.2.255:5060",
            "224.0.0.1:5060",
            "0.0.0.0:5060",
            "0.1.2.3:5060",
            "192.0.2.9:0",
            "[::]:5060",
            "[ff02::1]:5060",
            "[::ffff:255.255.255.255]:5060",
        ] {
            assert_eq!(
                flow_to(&listeners, wanted(0), address(refused)),
                None,
                "{refused}"
            );
        }
        for sent in [
            "192.0.2.254:5060",
            "198.51.100.255:5060",
            "198.51.100.1:5060",
        ] {
            assert!(
                flow_to(&listeners, wanted(0), address(sent)).is_some(),
                "{sent}"
            );
        }
    }
}
