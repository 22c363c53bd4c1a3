//! Targets (RFC 3261 section 16.5) and how each is reached (section 16.6 steps 6 and 7): next hop, destination, listener.

use super::response::Failure;
use super::route::RouteSet;
use sip_message::{Host, NameAddr, Scheme, Uri};
use sip_transport::{Flow, Listener, ListenerId, Protocol};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where a request can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// A literal address.
    Address(SocketAddr),
    /// A host name to resolve, and the port.
    Name(Box<[u8]>, u16),
}

/// One target (section 16.5): the Request-URI that the copy gets, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Request-URI of the copy.
    pub uri: Box<[u8]>,
    /// Preference in thousandths: equal q rings in parallel, lower q after it failed.
    pub q: u16,
    /// Route header field values to put in front (Path of the binding), comma-joined; empty: none.
    pub route: Box<[u8]>,
    /// Where to send it; `None`: derived from the topmost Route or the Request-URI.
    pub next_hop: Option<NextHop>,
    /// The listener to send from; `None`: chosen by destination.
    pub listener: Option<ListenerId>,
}

/// How a target is reached: worked out from the target and the route set, before any name is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop<'t> {
    pub(super) destination: Destination<'t>,
    /// `None`: whatever the target's listener speaks, else UDP.
    pub(super) protocol: Option<Protocol>,
    /// The next hop is a strict router: its URI becomes the Request-URI (section 16.6 step 6).
    pub(super) strict: Option<Strict<'t>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination<'t> {
    Address(SocketAddr),
    Name(&'t [u8], u16),
}

/// The URI of a strict router and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strict<'t> {
    pub(super) uri: &'t [u8],
    /// It is the first value of the target's own route, not of the request's.
    pub(super) in_target: bool,
}

impl Target {
    /// The Request-URI for the copy: header fields in a URI have no place there (section 19.1.1).
    pub(super) fn request_uri(&self) -> &[u8] {
        if !self.uri.contains(&b'?') {
            return &self.uri;
        }
        let headers = Uri::parse(&self.uri).and_then(|uri| uri.headers).map_or(0, |headers| headers.len() + 1);
        self.uri.get(..self.uri.len() - headers).unwrap_or(&self.uri)
    }

    /// The first value of its own route and the others.
    pub(super) fn split_route(&self) -> (&[u8], &[u8]) {
        let close = self.route.iter().position(|&octet| octet == b'>').unwrap_or(0);
        let comma = self.route.iter().skip(close).position(|&octet| octet == b',').map(|at| close + at);
        let (first, rest) = self.route.split_at_checked(comma.unwrap_or(self.route.len())).unwrap_or_default();
        (first.trim_ascii(), rest.get(1..).unwrap_or_default().trim_ascii())
    }

    /// Section 16.6 steps 6 and 7: the topmost Route decides, else the Request-URI.
    pub(super) fn hop<'t>(&'t self, routes: &'t RouteSet) -> Result<Hop<'t>, Failure> {
        let topmost = match self.split_route().0 {
            [] => routes.next.as_deref(),
            first => Some(NameAddr::parse(first).ok_or(Failure::BadRoute)?.uri_bytes),
        };
        if let (None, Some(next_hop)) = (topmost, &self.next_hop) {
            return Ok(Hop { destination: next_hop.into(), protocol: None, strict: None });
        }
        let uri = match topmost {
            Some(bytes) => Uri::parse(bytes).ok_or(Failure::BadRoute)?,
            None => Uri::parse(&self.uri).ok_or(Failure::UnsupportedScheme)?,
        };
        let strict = topmost
            .filter(|_| !uri.params.contains(b"lr"))
            .map(|uri| Strict { uri, in_target: !self.route.is_empty() });
        if let Some(next_hop) = &self.next_hop {
            return Ok(Hop { destination: next_hop.into(), protocol: None, strict });
        }
        let (destination, protocol) = destination(&uri)?;
        Ok(Hop { destination, protocol: Some(protocol), strict })
    }
}

impl<'t> From<&'t NextHop> for Destination<'t> {
    fn from(next_hop: &'t NextHop) -> Self {
        match next_hop {
            NextHop::Address(address) => Self::Address(*address),
            NextHop::Name(name, port) => Self::Name(name, *port),
        }
    }
}

/// Where a URI leads (section 16.6 step 7, RFC 3263 section 4): `maddr` before host, `transport`, port or its default.
fn destination<'t>(uri: &Uri<'t>) -> Result<(Destination<'t>, Protocol), Failure> {
    if uri.scheme != Scheme::Sip {
        return Err(Failure::UnsupportedScheme);
    }
    let protocol = match uri.params.value(b"transport") {
        None => Protocol::Udp,
        Some(token) => protocol_of(token).ok_or(Failure::Unreachable)?,
    };
    let host = match uri.params.value(b"maddr") {
        None => uri.host,
        Some(maddr) => Host::parse(maddr).ok_or(Failure::Unreachable)?,
    };
    let port = uri.port.unwrap_or(protocol.default_port());
    let destination = match host {
        Host::Address(ip) => Destination::Address(SocketAddr::new(ip, port)),
        Host::Name(name) => Destination::Name(name, port),
    };
    Ok((destination, protocol))
}

/// The protocol that a `transport` parameter names.
pub(super) fn protocol_of(token: &[u8]) -> Option<Protocol> {
    [Protocol::Udp, Protocol::Tcp, Protocol::Tls, Protocol::Ws, Protocol::Wss]
        .into_iter()
        .find(|protocol| protocol.via_token().as_bytes().eq_ignore_ascii_case(token))
}

/// What speaks for one listener or another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// The target's own listener: where its REGISTER came in.
    pub(super) target: Option<ListenerId>,
    /// The listener that a Record-Route of ours named for this direction (RFC 5658).
    pub(super) recorded: Option<ListenerId>,
    /// Where the request came in.
    pub(super) incoming: ListenerId,
    /// The protocol to speak, where the URI says.
    pub(super) protocol: Option<Protocol>,
}

/// The flow to a destination; `None` where none may or can lead: broadcast, multicast and unspecified addresses, port 0, a
/// protocol or address family without listener.
pub(super) fn flow_to(listeners: &[Listener], wanted: Wanted, remote: SocketAddr) -> Option<Flow> {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let ip = remote.ip();
    if !is_sendable(listeners, remote) {
        return None;
    }
    let listener_of = |id: ListenerId| listeners.get(usize::from(id.0));
    let same_family = |listener: &Listener| listener.address.is_ipv4() == ip.is_ipv4();
    let speaks = |listener: &Listener| wanted.protocol.is_none_or(|protocol| protocol == listener.protocol);
    if let Some(id) = wanted.target
        && listener_of(id).is_some_and(|listener| same_family(listener) && speaks(listener))
    {
        return Some(Flow::datagram(id, remote));
    }
    let protocol = wanted.protocol.unwrap_or(Protocol::Udp);
    let fits = |listener: &Listener| listener.protocol == protocol && same_family(listener);
    let near = |listener: &Listener| listener.address.ip().is_loopback() == ip.is_loopback();
    let rank = |(place, listener): &(usize, &Listener)| {
        let id = ListenerId(*place as u16);
        // Less is better: the first `true` that a listener has and another lacks decides.
        (
            !near(listener),
            wanted.recorded != Some(id),
            !listener.reaches_directly(ip),
            wanted.incoming != id,
        )
    };
    let (place, _) = listeners.iter().enumerate().filter(|(_, listener)| fits(listener)).min_by_key(rank)?;
    Some(Flow::datagram(ListenerId(place as u16), remote))
}

/// Whether anything may be sent there: not to port 0, nor to an address that stands for nobody or for many.
pub(super) fn is_sendable(listeners: &[Listener], remote: SocketAddr) -> bool {
    let many_or_none = match remote.ip().to_canonical() {
        IpAddr::V4(ip) => {
            ip.is_broadcast()
                || ip.is_multicast()
                || ip.octets().first() == Some(&0)
                || listeners.iter().any(|listener| is_directed_broadcast(listener, ip))
        }
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
    };
    remote.port() != 0 && !many_or_none
}

/// The last address of a listener's network.
fn is_directed_broadcast(listener: &Listener, ip: Ipv4Addr) -> bool {
    let IpAddr::V4(own) = listener.address.ip() else {
        return false;
    };
    // Networks of one or two addresses have no broadcast address (RFC 3021).
    let Some(hosts) = u32::MAX.checked_shr(u32::from(listener.prefix_length)).filter(|hosts| *hosts > 1) else {
        return false;
    };
    ip.to_bits() == own.to_bits() | hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, prefix_length: u8) -> Listener {
        let address: SocketAddr = address.parse().expect("an address");
        Listener { protocol: Protocol::Udp, address, prefix_length, advertised: address.to_string() }
    }

    fn target(uri: &str, route: &str) -> Target {
        Target {
            uri: uri.as_bytes().into(),
            q: 1000,
            route: route.as_bytes().into(),
            next_hop: None,
            listener: None,
        }
    }

    fn wanted(incoming: u16) -> Wanted {
        Wanted { target: None, recorded: None, incoming: ListenerId(incoming), protocol: None }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_next_hop_comes_from_the_topmost_route_else_from_the_request_uri() {
        let no_routes = RouteSet::default();
        let with_route = RouteSet { next: Some(b"sip:192.0.2.7:5070;lr"[..].into()), ..RouteSet::default() };
        let rows: &[(&str, &str, &RouteSet, Destination<'_>)] = &[
            ("sip:bob@192.0.2.4", "", &no_routes, Destination::Address(address("192.0.2.4:5060"))),
            ("sip:bob@192.0.2.4:5080", "", &no_routes, Destination::Address(address("192.0.2.4:5080"))),
            ("sip:bob@[2001:db8::9]:5080", "", &no_routes, Destination::Address(address("[2001:db8::9]:5080"))),
            ("sip:bob@example.com;maddr=192.0.2.6", "", &no_routes, Destination::Address(address("192.0.2.6:5060"))),
            ("sip:bob@biloxi.example.com", "", &no_routes, Destination::Name(b"biloxi.example.com", 5060)),
            ("sip:bob@192.0.2.4", "", &with_route, Destination::Address(address("192.0.2.7:5070"))),
            ("sip:bob@192.0.2.4", "<sip:192.0.2.8;lr>, <sip:192.0.2.9;lr>", &with_route, Destination::Address(address("192.0.2.8:5060"))),
        ];
        for (uri, route, routes, expected) in rows {
            let target = target(uri, route);
            let hop = target.hop(routes).expect(uri);
            assert_eq!(hop.destination, *expected, "{uri} {route}");
            assert_eq!(hop.strict, None, "{uri} {route}");
        }
    }

    #[test]
    fn a_route_without_lr_is_a_strict_router() {
        let routes = RouteSet { next: Some(b"sip:192.0.2.7"[..].into()), ..RouteSet::default() };
        let hop = |route| target("sip:bob@192.0.2.4", route).hop(&routes).map(|hop| hop.strict.map(|s| (s.uri.to_vec(), s.in_target)));
        assert_eq!(hop(""), Ok(Some((b"sip:192.0.2.7".to_vec(), false))));
        assert_eq!(hop("<sip:192.0.2.8>"), Ok(Some((b"sip:192.0.2.8".to_vec(), true))));
        assert_eq!(hop("<sip:192.0.2.8;lr>"), Ok(None));
        assert_eq!(hop("not a route"), Err(Failure::BadRoute));
    }

    #[test]
    fn schemes_and_transports_that_lead_nowhere_fail() {
        let fail = |uri| target(uri, "").hop(&RouteSet::default()).map(|hop| hop.protocol).expect_err(uri);
        assert_eq!(fail("tel:+15551234"), Failure::UnsupportedScheme);
        assert_eq!(fail("sips:bob@192.0.2.4"), Failure::UnsupportedScheme);
        assert_eq!(fail("nobodyKnowsThisScheme:totallyopaquecontent"), Failure::UnsupportedScheme);
        assert_eq!(fail("sip:bob@192.0.2.4;transport=pigeon"), Failure::Unreachable);
    }

    #[test]
    fn header_fields_of_a_contact_do_not_get_into_the_request_uri() {
        assert_eq!(target("sip:bob@192.0.2.4?Subject=x", "").request_uri(), b"sip:bob@192.0.2.4");
        assert_eq!(target("sip:b?b@192.0.2.4", "").request_uri(), b"sip:b?b@192.0.2.4");
    }

    #[test]
    fn the_listener_is_the_one_that_fits_best() {
        let listeners =
            [listener("127.0.0.1:5060", 8), listener("192.0.2.1:5060", 24), listener("198.51.100.1:5060", 24), listener("[2001:db8::1]:5060", 64)];
        let chosen = |wanted, remote| flow_to(&listeners, wanted, address(remote)).map(|flow| flow.listener.0);
        assert_eq!(chosen(wanted(1), "192.0.2.9:5060"), Some(1), "incoming, direct");
        assert_eq!(chosen(wanted(1), "198.51.100.9:5060"), Some(2), "another reaches it directly");
        assert_eq!(chosen(wanted(2), "203.0.113.9:5060"), Some(2), "nobody does: incoming");
        assert_eq!(chosen(wanted(0), "203.0.113.9:5060"), Some(1), "never from loopback to the outside");
        assert_eq!(chosen(wanted(1), "127.0.0.1:5070"), Some(0));
        assert_eq!(chosen(wanted(1), "[2001:db8:5::9]:5060"), Some(3));
        assert_eq!(chosen(wanted(1), "[::ffff:192.0.2.9]:5060"), Some(1), "mapped");
        let by_target = Wanted { target: Some(ListenerId(2)), ..wanted(1) };
        assert_eq!(chosen(by_target, "192.0.2.9:5060"), Some(2));
        assert_eq!(chosen(by_target, "[2001:db8::9]:5060"), Some(3), "of the other family");
        let recorded = Wanted { recorded: Some(ListenerId(2)), ..wanted(1) };
        assert_eq!(chosen(recorded, "192.0.2.9:5060"), Some(2));
        let tcp = Wanted { protocol: Some(Protocol::Tcp), ..wanted(1) };
        assert_eq!(chosen(tcp, "192.0.2.9:5060"), None);
    }

    #[test]
    fn nothing_is_sent_to_many_or_to_nobody() {
        let listeners = [listener("192.0.2.1:5060", 24), listener("198.51.100.1:5060", 32), listener("[2001:db8::1]:5060", 64)];
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
            assert_eq!(flow_to(&listeners, wanted(0), address(refused)), None, "{refused}");
        }
        for sent in ["192.0.2.254:5060", "198.51.100.255:5060", "198.51.100.1:5060"] {
            assert!(flow_to(&listeners, wanted(0), address(sent)).is_some(), "{sent}");
        }
    }
}
