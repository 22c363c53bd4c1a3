//! Targets (RFC 3261 section 16.5) and how each is reached (section 16.6 steps 6 and 7): next hop, destination and
//! listener.

use super::failure::Failure;
use super::listener::protocol_of;
use super::route::RouteSet;
use sip_message::{HeaderName, Host, Message, NameAddr, Scheme, Uri};
use sip_transport::selection::{self, Destination};
use sip_transport::{Flow, Listener, ListenerId, Protocol};
use std::net::{IpAddr, SocketAddr};

/// Where a request can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// The other end of a flow. The listener determines the protocol.
    Address(SocketAddr),
    /// A server to locate by the rules of RFC 3263, by name or by address.
    Server(Destination),
}

/// One target (section 16.5): the Request-URI for the copy, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Request-URI of the copy.
    pub uri: Box<[u8]>,
    /// Preference in thousandths. Targets with equal q ring in parallel; those with a lower q ring after these have
    /// failed.
    pub q: u16,
    /// Route header field values to put in front (Path of the binding), comma-joined; empty if there are none.
    pub route: Box<[u8]>,
    /// Where to send the copy; `None` if it is derived from the topmost Route or the Request-URI.
    pub next_hop: Option<NextHop>,
    /// The listener to send from; `None` if it is chosen by destination.
    pub listener: Option<ListenerId>,
    /// The flow that the target registered or called on, if it is the only way to it. A Route takes precedence.
    pub flow: Option<Flow>,
    /// The target registered from the same address that its URI leads to.
    pub is_owned: bool,
    /// Targets with the same number are flows to one phone. They are tried one at a time (RFC 5626 section 7). 0 stands
    /// for a phone of its own.
    pub instance: u64,
}

/// How a target is reached. It is derived from the target and the route set, before any name is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop<'t> {
    pub(crate) way: Way<'t>,
    /// `None` for the protocol of the target's listener, else UDP.
    pub(crate) protocol: Option<Protocol>,
    /// No URI asks for UDP: it is only the default.
    pub(crate) is_open: bool,
    /// The next hop is a strict router: its URI becomes the Request-URI (section 16.6 step 6).
    pub(crate) strict: Option<Strict<'t>>,
    /// The flow to use, if it is the only way.
    pub(crate) flow: Option<Flow>,
    /// A Route requires a secure transport (RFC 5630). The Request-URI may require it too.
    pub(crate) is_secure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way<'t> {
    Address(SocketAddr),
    Name(Name<'t>),
}

/// A [`Destination`] whose host is a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'t> {
    pub(crate) host: &'t str,
    pub(crate) port: Option<u16>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) secure: bool,
}

/// The URI of a strict router and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strict<'t> {
    pub(crate) uri: &'t [u8],
    /// The URI is the first value of the target's own route, not of the request's.
    pub(crate) in_target: bool,
}

impl Target {
    /// Returns the Request-URI for the copy. Header fields in a URI are not allowed there (section 19.1.1).
    pub(crate) fn request_uri(&self) -> &[u8] {
        if !self.uri.contains(&b'?') {
            return &self.uri;
        }
        let headers = Uri::parse(&self.uri)
            .and_then(|uri| uri.headers)
            .map_or(0, |headers| headers.len() + 1);
        self.uri
            .get(..self.uri.len() - headers)
            .unwrap_or(&self.uri)
    }

    /// Returns the contact of a phone whose connection has ended, from the request that could not be sent over it.
    /// Returns `None` if the request was not sent over a connection, or if the phone accepts none: it is behind a NAT,
    /// or wants to be reached over its flow (RFC 5626).
    pub(crate) fn without_flow(request: &[u8], flow: Flow, listeners: &[Listener]) -> Option<Self> {
        let listener = listeners.get(usize::from(flow.listener.0))?;
        if !flow.connection.is_some() || !matches!(listener.protocol, Protocol::Tcp | Protocol::Tls)
        {
            return None;
        }
        let request = Message::parse(request).ok()?;
        let uri = *request.uri()?;
        let is_open = uri.host == Host::Address(flow.remote.ip().to_canonical())
            && !uri.params.contains(b"ob")
            && !uri.params.contains(b"maddr")
            && request.header(HeaderName::Route).is_none();
        is_open.then(|| Self {
            uri: uri.bytes.into(),
            q: 1000,
            route: Box::default(),
            next_hop: None,
            listener: None,
            flow: None,
            is_owned: false,
            instance: 0,
        })
    }

    /// Splits the target's own route into its first value and the rest. A list of several values is parsed as part of a
    /// message, so that there is only one rule for quotes and brackets. A binding with more than one Path is rare.
    pub(crate) fn split_route(&self) -> (&[u8], &[u8]) {
        if !self.route.contains(&b',') {
            return (self.route.trim_ascii(), &[]);
        }
        let route = self.route.trim_ascii();
        let start_line: &[u8] = b"OPTIONS sip:route SIP/2.0\r\nRoute: ";
        let bytes = [start_line, route, b"\r\n\r\n"].concat();
        let first = Message::parse(&bytes)
            .ok()
            .and_then(|message| message.values(HeaderName::Route).next().map(<[u8]>::len));
        let (first, rest) = route
            .split_at_checked(first.unwrap_or(route.len()))
            .unwrap_or((route, &[]));
        let rest = rest.trim_ascii_start();
        (first, rest.strip_prefix(b",").unwrap_or(rest).trim_ascii())
    }

    /// Determines the next hop (section 16.6 steps 6 and 7): the topmost Route decides, else the Request-URI.
    pub(crate) fn hop<'t>(
        &'t self,
        routes: &'t RouteSet,
        listeners: &[Listener],
    ) -> Result<Hop<'t>, Failure> {
        let topmost = match self.split_route().0 {
            [] => routes.next.as_deref(),
            first => Some(NameAddr::parse(first).ok_or(Failure::BadRoute)?.uri_bytes),
        };
        if let (None, Some(flow)) = (topmost, self.flow) {
            return Ok(Hop {
                way: Way::Address(flow.remote),
                protocol: None,
                is_open: false,
                strict: None,
                flow: Some(flow),
                is_secure: false,
            });
        }
        if let (None, Some(next_hop)) = (topmost, &self.next_hop) {
            return next_hop.hop(listeners);
        }
        let uri = match topmost {
            Some(bytes) => Uri::parse(bytes).ok_or(Failure::BadRoute)?,
            None => Uri::parse(&self.uri).ok_or(Failure::UnsupportedScheme)?,
        };
        let strict = topmost
            .filter(|_| !uri.params.contains(b"lr"))
            .map(|uri| Strict {
                uri,
                in_target: !self.route.is_empty(),
            });
        let hop = match &self.next_hop {
            Some(next_hop) => next_hop.hop(listeners)?,
            None => hop_of_uri(&uri, listeners)?,
        };
        // A phone that registered over UDP is reached at the address that it registered from. Whether it accepts TCP
        // connections there is unknown.
        let is_open = hop.is_open && (self.listener.is_none() || topmost.is_some());
        Ok(Hop {
            is_open,
            strict,
            is_secure: uri.scheme == Scheme::Sips,
            ..hop
        })
    }
}

impl NextHop {
    fn hop(&self, listeners: &[Listener]) -> Result<Hop<'_>, Failure> {
        match self {
            Self::Address(address) => Ok(Hop {
                way: Way::Address(*address),
                protocol: None,
                is_open: false,
                strict: None,
                flow: None,
                is_secure: false,
            }),
            Self::Server(server) => {
                let name = Name {
                    host: &server.host,
                    port: server.port,
                    protocol: server.protocol,
                    secure: server.secure,
                };
                match server.literal() {
                    Some(ip) => hop_to(ip, server.port, server.protocol, server.secure, listeners),
                    None => Ok(name.hop()),
                }
            }
        }
    }
}

impl<'t> Name<'t> {
    const fn hop(self) -> Hop<'t> {
        Hop {
            way: Way::Name(self),
            protocol: None,
            is_open: false,
            strict: None,
            flow: None,
            is_secure: false,
        }
    }
}

impl From<Name<'_>> for Destination {
    fn from(name: Name<'_>) -> Self {
        Self {
            host: name.host.into(),
            port: name.port,
            protocol: name.protocol,
            secure: name.secure,
        }
    }
}

/// Where a URI leads (section 16.6 step 7, RFC 3263 section 4): `maddr` takes precedence over the host, then
/// `transport` and port count.
fn hop_of_uri<'t>(uri: &Uri<'t>, listeners: &[Listener]) -> Result<Hop<'t>, Failure> {
    let secure = match uri.scheme {
        Scheme::Sip => false,
        Scheme::Sips if listeners.iter().any(|it| it.protocol.is_secure()) => true,
        Scheme::Sips => return Err(Failure::NotSecure),
        _ => return Err(Failure::UnsupportedScheme),
    };
    let protocol = match uri.params.value(b"transport") {
        None => None,
        Some(token) => Some(protocol_of(token).ok_or(Failure::Unreachable)?),
    };
    let host = match uri.params.value(b"maddr") {
        None => uri.host,
        Some(maddr) => Host::parse(maddr).ok_or(Failure::Unreachable)?,
    };
    match host {
        Host::Address(ip) => hop_to(ip, uri.port, protocol, secure, listeners),
        Host::Name(host) => {
            let host = std::str::from_utf8(host).map_err(|_| Failure::Unreachable)?;
            let name = Name {
                host,
                port: uri.port,
                protocol,
                secure,
            };
            Ok(name.hop())
        }
    }
}

/// Hop to an address, with what else the URI says. No lookup is needed.
fn hop_to<'t>(
    ip: IpAddr,
    port: Option<u16>,
    wanted: Option<Protocol>,
    secure: bool,
    listeners: &[Listener],
) -> Result<Hop<'t>, Failure> {
    let speaks = |protocol| listeners.iter().any(|it| it.protocol == protocol);
    let protocol = selection::protocol_without_records(wanted, secure, speaks);
    let no_way = if secure {
        Failure::NotSecure
    } else {
        Failure::Unreachable
    };
    let protocol = protocol.ok_or(no_way)?;
    let port = port.unwrap_or(protocol.default_port());
    Ok(Hop {
        way: Way::Address(SocketAddr::new(ip, port)),
        protocol: Some(protocol),
        is_open: wanted.is_none() && protocol == Protocol::Udp,
        strict: None,
        flow: None,
        is_secure: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Vec<Listener> {
        speaking(&[Protocol::Udp])
    }

    fn speaking(protocols: &[Protocol]) -> Vec<Listener> {
        let listener = |protocol: &Protocol| Listener {
            protocol: *protocol,
            address: address("192.0.2.1:5060"),
            prefix_length: 24,
            advertised: String::new(),
            behind_balancer: false,
        };
        protocols.iter().map(listener).collect()
    }

    fn named(host: &str) -> Way<'_> {
        Way::Name(Name {
            host,
            port: None,
            protocol: None,
            secure: false,
        })
    }

    fn target(uri: &str, route: &str) -> Target {
        Target {
            uri: uri.as_bytes().into(),
            q: 1000,
            route: route.as_bytes().into(),
            next_hop: None,
            listener: None,
            flow: None,
            is_owned: false,
            instance: 0,
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_next_hop_comes_from_the_topmost_route_else_from_the_request_uri() {
        let no_routes = RouteSet::default();
        let with_route = RouteSet {
            next: Some(b"sip:192.0.2.7:5070;lr"[..].into()),
            ..RouteSet::default()
        };
        let rows: &[(&str, &str, &RouteSet, Way<'_>)] = &[
            (
                "sip:bob@192.0.2.4",
                "",
                &no_routes,
                Way::Address(address("192.0.2.4:5060")),
            ),
            (
                "sip:bob@192.0.2.4:5080",
                "",
                &no_routes,
                Way::Address(address("192.0.2.4:5080")),
            ),
            (
                "sip:bob@[2001:db8::9]:5080",
                "",
                &no_routes,
                Way::Address(address("[2001:db8::9]:5080")),
            ),
            (
                "sip:bob@example.com;maddr=192.0.2.6",
                "",
                &no_routes,
                Way::Address(address("192.0.2.6:5060")),
            ),
            (
                "sip:bob@biloxi.example.com",
                "",
                &no_routes,
                named("biloxi.example.com"),
            ),
            (
                "sip:bob@192.0.2.4",
                "",
                &with_route,
                Way::Address(address("192.0.2.7:5070")),
            ),
            (
                "sip:bob@192.0.2.4",
                "<sip:192.0.2.8;lr>, <sip:192.0.2.9;lr>",
                &with_route,
                Way::Address(address("192.0.2.8:5060")),
            ),
        ];
        for (uri, route, routes, expected) in rows {
            let target = target(uri, route);
            let hop = target.hop(routes, &udp()).expect(uri);
            assert_eq!(hop.way, *expected, "{uri} {route}");
            assert_eq!(hop.strict, None, "{uri} {route}");
        }
    }

    #[test]
    fn a_route_without_lr_is_a_strict_router() {
        let routes = RouteSet {
            next: Some(b"sip:192.0.2.7"[..].into()),
            ..RouteSet::default()
        };
        let hop = |route| {
            target("sip:bob@192.0.2.4", route)
                .hop(&routes, &udp())
                .map(|hop| hop.strict.map(|s| (s.uri.to_vec(), s.in_target)))
        };
        assert_eq!(hop(""), Ok(Some((b"sip:192.0.2.7".to_vec(), false))));
        assert_eq!(
            hop("<sip:192.0.2.8>"),
            Ok(Some((b"sip:192.0.2.8".to_vec(), true)))
        );
        assert_eq!(hop("<sip:192.0.2.8;lr>"), Ok(None));
        assert_eq!(hop("not a route"), Err(Failure::BadRoute));
    }

    #[test]
    fn a_route_is_split_where_its_values_end() {
        let one = "<sip:192.0.2.8;lr>";
        let two = "<sip:192.0.2.9;lr>";
        for first in [
            one,
            r#""a > b, c" <sip:192.0.2.8;lr>"#,
            r#""a \" > b, c" <sip:192.0.2.8;lr>;p="x>,y""#,
            "<sip:a,b@192.0.2.8;lr>",
            r#"<sip:192.0.2.8;lr>;p="x,\",y""#,
        ] {
            let whole = format!("{first} , {two},{one}");
            let target = target("sip:bob@192.0.2.4", &whole);
            let (head, rest) = target.split_route();
            assert_eq!(head, first.as_bytes(), "{whole}");
            assert_eq!(rest, format!("{two},{one}").as_bytes(), "{whole}");
            let none = RouteSet::default();
            let hop = target.hop(&none, &udp()).expect(&whole);
            assert_eq!(hop.way, Way::Address(address("192.0.2.8:5060")));
        }
    }

    #[test]
    fn schemes_and_transports_that_lead_nowhere_fail() {
        let fail = |uri| {
            target(uri, "")
                .hop(&RouteSet::default(), &udp())
                .map(|hop| hop.protocol)
                .expect_err(uri)
        };
        assert_eq!(fail("tel:+15551234"), Failure::UnsupportedScheme);
        assert_eq!(fail("sips:bob@192.0.2.4"), Failure::NotSecure);
        assert_eq!(
            fail("nobodyKnowsThisScheme:totallyopaquecontent"),
            Failure::UnsupportedScheme
        );
        assert_eq!(
            fail("sip:bob@192.0.2.4;transport=pigeon"),
            Failure::Unreachable
        );
    }

    #[test]
    fn the_uri_says_what_to_speak_and_our_listeners_what_can_be_spoken() {
        /// Where the URI leads, the protocol, and whether the URI leaves the protocol open.
        type Found = (&'static str, Protocol, bool);
        use Protocol::{Tcp, Tls, Udp, Wss};
        let rows: &[(&str, &[Protocol], Option<Found>)] = &[
            (
                "sip:192.0.2.4",
                &[Udp, Tcp],
                Some(("192.0.2.4:5060", Udp, true)),
            ),
            (
                "sip:192.0.2.4",
                &[Tcp],
                Some(("192.0.2.4:5060", Tcp, false)),
            ),
            (
                "sip:192.0.2.4;transport=udp",
                &[Udp, Tcp],
                Some(("192.0.2.4:5060", Udp, false)),
            ),
            (
                "sip:192.0.2.4;transport=TCP",
                &[Udp, Tcp],
                Some(("192.0.2.4:5060", Tcp, false)),
            ),
            ("sip:192.0.2.4;transport=tcp", &[Udp], None),
            (
                "sips:192.0.2.4",
                &[Udp, Tls],
                Some(("192.0.2.4:5061", Tls, false)),
            ),
            (
                "sips:192.0.2.4:5071;transport=tcp",
                &[Tls],
                Some(("192.0.2.4:5071", Tls, false)),
            ),
            (
                "sips:192.0.2.4;transport=ws",
                &[Wss],
                Some(("192.0.2.4:443", Wss, false)),
            ),
            ("sips:192.0.2.4;transport=udp", &[Udp, Tls], None),
        ];
        for (uri, spoken, expected) in rows {
            let target = target(uri, "");
            let routes = RouteSet::default();
            let hop = target.hop(&routes, &speaking(spoken)).ok();
            let found = hop.map(|hop| (hop.way, hop.protocol, hop.is_open));
            let expected = expected.map(|(to, protocol, is_open)| {
                (Way::Address(address(to)), Some(protocol), is_open)
            });
            assert_eq!(found, expected, "{uri}");
        }
    }

    #[test]
    fn header_fields_of_a_contact_do_not_get_into_the_request_uri() {
        assert_eq!(
            target("sip:bob@192.0.2.4?Subject=x", "").request_uri(),
            b"sip:bob@192.0.2.4"
        );
        assert_eq!(
            target("sip:b?b@192.0.2.4", "").request_uri(),
            b"sip:b?b@192.0.2.4"
        );
    }
}
