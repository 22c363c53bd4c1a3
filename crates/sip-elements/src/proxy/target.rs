//! Targets (RFC 3261 section 16.5) and how each is reached (section 16.6 steps 6 and 7): next hop, destination, listener.

use super::response::Failure;
use super::route::RouteSet;
use sip_message::{HeaderName, Host, Message, NameAddr, Scheme, Uri};
use sip_transport::{Flow, ListenerId, Protocol};
use std::net::SocketAddr;

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
    /// The one way there is to it, unless a Route stands before it: the flow that it registered or called on.
    pub flow: Option<Flow>,
}

/// How a target is reached: worked out from the target and the route set, before any name is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop<'t> {
    pub(super) destination: Destination<'t>,
    /// `None`: whatever the target's listener speaks, else UDP.
    pub(super) protocol: Option<Protocol>,
    /// The next hop is a strict router: its URI becomes the Request-URI (section 16.6 step 6).
    pub(super) strict: Option<Strict<'t>>,
    /// The way there, where there is but one.
    pub(super) flow: Option<Flow>,
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
        let headers = Uri::parse(&self.uri)
            .and_then(|uri| uri.headers)
            .map_or(0, |headers| headers.len() + 1);
        self.uri
            .get(..self.uri.len() - headers)
            .unwrap_or(&self.uri)
    }

    /// The first value of its own route and the others. Where there are several the list is read as part of a message, so that
    /// there is but one rule of what quotes and brackets hide; a binding with more than one Path is rare.
    pub(super) fn split_route(&self) -> (&[u8], &[u8]) {
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

    /// Section 16.6 steps 6 and 7: the topmost Route decides, else the Request-URI.
    pub(super) fn hop<'t>(&'t self, routes: &'t RouteSet) -> Result<Hop<'t>, Failure> {
        let topmost = match self.split_route().0 {
            [] => routes.next.as_deref(),
            first => Some(NameAddr::parse(first).ok_or(Failure::BadRoute)?.uri_bytes),
        };
        if let (None, Some(flow)) = (topmost, self.flow) {
            return Ok(Hop {
                destination: Destination::Address(flow.remote),
                protocol: None,
                strict: None,
                flow: Some(flow),
            });
        }
        if let (None, Some(next_hop)) = (topmost, &self.next_hop) {
            return Ok(Hop {
                destination: next_hop.into(),
                protocol: None,
                strict: None,
                flow: None,
            });
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
        if let Some(next_hop) = &self.next_hop {
            return Ok(Hop {
                destination: next_hop.into(),
                protocol: None,
                strict,
                flow: None,
            });
        }
        let (destination, protocol) = destination(&uri)?;
        Ok(Hop {
            destination,
            protocol: Some(protocol),
            strict,
            flow: None,
        })
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
    [
        Protocol::Udp,
        Protocol::Tcp,
        Protocol::Tls,
        Protocol::Ws,
        Protocol::Wss,
    ]
    .into_iter()
    .find(|protocol| protocol.via_token().as_bytes().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str, route: &str) -> Target {
        Target {
            uri: uri.as_bytes().into(),
            q: 1000,
            route: route.as_bytes().into(),
            next_hop: None,
            listener: None,
            flow: None,
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
        let rows: &[(&str, &str, &RouteSet, Destination<'_>)] = &[
            (
                "sip:bob@192.0.2.4",
                "",
                &no_routes,
                Destination::Address(address("192.0.2.4:5060")),
            ),
            (
                "sip:bob@192.0.2.4:5080",
                "",
                &no_routes,
                Destination::Address(address("192.0.2.4:5080")),
            ),
            (
                "sip:bob@[2001:db8::9]:5080",
                "",
                &no_routes,
                Destination::Address(address("[2001:db8::9]:5080")),
            ),
            (
                "sip:bob@example.com;maddr=192.0.2.6",
                "",
                &no_routes,
                Destination::Address(address("192.0.2.6:5060")),
            ),
            (
                "sip:bob@biloxi.example.com",
                "",
                &no_routes,
                Destination::Name(b"biloxi.example.com", 5060),
            ),
            (
                "sip:bob@192.0.2.4",
                "",
                &with_route,
                Destination::Address(address("192.0.2.7:5070")),
            ),
            (
                "sip:bob@192.0.2.4",
                "<sip:192.0.2.8;lr>, <sip:192.0.2.9;lr>",
                &with_route,
                Destination::Address(address("192.0.2.8:5060")),
            ),
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
        let routes = RouteSet {
            next: Some(b"sip:192.0.2.7"[..].into()),
            ..RouteSet::default()
        };
        let hop = |route| {
            target("sip:bob@192.0.2.4", route)
                .hop(&routes)
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
            let hop = target.hop(&none).expect(&whole);
            assert_eq!(
                hop.destination,
                Destination::Address(address("192.0.2.8:5060"))
            );
        }
    }

    #[test]
    fn schemes_and_transports_that_lead_nowhere_fail() {
        let fail = |uri| {
            target(uri, "")
                .hop(&RouteSet::default())
                .map(|hop| hop.protocol)
                .expect_err(uri)
        };
        assert_eq!(fail("tel:+15551234"), Failure::UnsupportedScheme);
        assert_eq!(fail("sips:bob@192.0.2.4"), Failure::UnsupportedScheme);
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
