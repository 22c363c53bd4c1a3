//! The server's own domains, and the domain under which a subscriber is known.
use sip_message::{Host, Uri};
use sip_transport::Listener;
use std::net::{IpAddr, SocketAddr};

/// Names that every machine has for itself (RFC 6761 section 6.3).
const LOOPBACK_NAMES: [&str; 4] = [
    "localhost",
    "localhost.localdomain",
    "ip6-localhost",
    "ip6-loopback",
];

/// The domains that this server is responsible for. Its own listener addresses are aliases of the first domain. So a
/// phone that knows only the server's address can register and call too.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    names: Vec<String>,
    addresses: Vec<SocketAddr>,
    advertised: Vec<(String, u16)>,
    /// The sockets of our listeners: their own addresses and the advertised ones.
    sockets: Vec<SocketAddr>,
}

impl Domains {
    /// Builds the domains from the configured names (the first is the default) and the listeners.
    pub fn new(names: &[String], listeners: &[Listener]) -> Self {
        let advertised: Vec<(String, u16)> = listeners
            .iter()
            .filter_map(|listener| {
                let uri = format!("sip:{}", listener.advertised);
                let uri = Uri::parse(uri.as_bytes())?;
                let host = String::from_utf8_lossy(uri.host_bytes).to_ascii_lowercase();
                Some((
                    host,
                    uri.port.unwrap_or_else(|| listener.protocol.default_port()),
                ))
            })
            .collect();
        let literal = |(host, port): &(String, u16)| match Host::parse(host.as_bytes()) {
            Some(Host::Address(ip)) => Some(SocketAddr::new(ip, *port)),
            _ => None,
        };
        let bound = listeners.iter().map(|listener| listener.address);
        let sockets = bound.chain(advertised.iter().filter_map(literal));
        let sockets = sockets
            .map(|socket| SocketAddr::new(socket.ip().to_canonical(), socket.port()))
            .collect();
        Self {
            sockets,
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            addresses: listeners
                .iter()
                .map(|listener| {
                    SocketAddr::new(
                        listener.address.ip().to_canonical(),
                        listener.address.port(),
                    )
                })
                .collect(),
            advertised,
        }
    }

    /// The domain of addresses that contain none of our names.
    pub fn default_name(&self) -> &str {
        self.names.first().map_or("localhost", String::as_str)
    }

    /// The configured names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of our domain that this URI belongs to; `None` if it is foreign. A domain name matches with any port of
    /// ours, or without a port.
    pub fn local_name(&self, uri: &Uri<'_>) -> Option<&str> {
        if let Host::Name(name) = uri.host {
            let name = name.strip_suffix(b".").unwrap_or(name);
            // Fast path: most senders write the domain exactly as configured.
            let is_own =
                |own: &&String| own.as_bytes() == name || own.as_bytes().eq_ignore_ascii_case(name);
            let ours = self.names.iter().find(is_own);
            if let Some(own) = ours {
                return Some(own);
            }
        }
        self.is_own_address(uri).then(|| self.default_name())
    }

    /// Whether this is the address and port of one of our listeners.
    pub(crate) fn is_own_socket(&self, socket: SocketAddr) -> bool {
        self.sockets.contains(&socket)
    }

    /// The name of our domain that a sender claims with this URI in From; `None` if it is foreign.
    ///
    /// Nothing is routed by From, so the host alone decides. Our own addresses count with any port. If a listener is on
    /// loopback, the names of this machine count too. A phone displays only the user part, so its user would take the
    /// sender for a subscriber.
    pub fn claimed_name(&self, uri: &Uri<'_>) -> Option<&str> {
        if let Some(name) = self.local_name(uri) {
            return Some(name);
        }
        let is_ours = match uri.host {
            Host::Address(ip) => self.is_own_ip(ip),
            Host::Name(name) => {
                let name = name.strip_suffix(b".").unwrap_or(name);
                let is_own_name = |own: &str| own.as_bytes().eq_ignore_ascii_case(name);
                self.advertised.iter().any(|(host, _)| is_own_name(host))
                    || (self.is_on_loopback() && LOOPBACK_NAMES.into_iter().any(is_own_name))
            }
        };
        is_ours.then(|| self.default_name())
    }

    /// Whether the server is bound to this address or advertises it.
    fn is_own_ip(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        let is_advertised = |(host, _): &(String, u16)| matches!(Host::parse(host.as_bytes()), Some(Host::Address(own)) if own.to_canonical() == ip);
        self.addresses.iter().any(|own| own.ip() == ip) || self.advertised.iter().any(is_advertised)
    }

    fn is_on_loopback(&self) -> bool {
        self.addresses.iter().any(|own| own.ip().is_loopback())
    }

    /// Whether host and port are those of one of our listeners, by address or advertised name. A Route with such a URI
    /// leads to this server.
    pub fn is_own_address(&self, uri: &Uri<'_>) -> bool {
        let by_address = match uri.host {
            Host::Address(ip) => self.addresses.iter().any(|own| {
                own.ip() == ip.to_canonical() && uri.port.is_none_or(|port| port == own.port())
            }),
            Host::Name(_) => false,
        };
        by_address
            || self.advertised.iter().any(|(host, port)| {
                host.as_bytes().eq_ignore_ascii_case(uri.host_bytes)
                    && uri.port.is_none_or(|asked| asked == *port)
            })
    }

    /// Whether a Route URI names this server: one of its addresses or domains.
    pub fn is_us(&self, uri: &Uri<'_>) -> bool {
        self.local_name(uri).is_some()
    }
}

/// `user@domain` in canonical form, with our name of the domain. `None` without a user.
pub(crate) fn address_of_record(uri: &Uri<'_>, domain: &str) -> Option<Box<[u8]>> {
    let user = uri.user?;
    // The maximum length, so that the buffer never grows.
    let host = uri.host_bytes.len().max(domain.len());
    let mut address = Vec::with_capacity(user.len() + 1 + host);
    uri.write_address_of_record(&mut address);
    let at = address.iter().rposition(|byte| *byte == b'@')?;
    address.truncate(at + 1);
    address.extend_from_slice(domain.as_bytes());
    Some(address.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_transport::Protocol;

    fn domains(listeners: &[(&str, &str)]) -> Domains {
        let listeners: Vec<Listener> = listeners
            .iter()
            .map(|(address, advertised)| Listener {
                protocol: Protocol::Udp,
                address: address.parse().expect("an address"),
                prefix_length: 24,
                advertised: (*advertised).to_owned(),
                behind_balancer: false,
            })
            .collect();
        Domains::new(
            &["example.org".to_owned(), "example.net".to_owned()],
            &listeners,
        )
    }

    #[test]
    fn a_from_with_any_form_of_our_addresses_claims_our_first_domain() {
        let domains = domains(&[
            ("192.0.2.1:5060", "203.0.113.5:5070"),
            ("[2001:db8::1]:5060", "sip.example.com"),
            ("127.0.0.1:5060", "127.0.0.1:5060"),
        ]);
        for (uri, claimed) in [
            ("sip:alice@example.org", Some("example.org")),
            ("sips:alice@EXAMPLE.net.", Some("example.net")),
            ("sip:alice@192.0.2.1", Some("example.org")),
            ("sip:alice@192.0.2.1:9", Some("example.org")),
            ("sip:alice@[::ffff:192.0.2.1]:9", Some("example.org")),
            ("sip:alice@203.0.113.5:9", Some("example.org")),
            ("sip:alice@[::ffff:203.0.113.5]", Some("example.org")),
            ("sip:alice@[2001:db8::1]:9", Some("example.org")),
            ("sip:alice@[2001:DB8:0::1]", Some("example.org")),
            ("sip:alice@sip.example.com:9", Some("example.org")),
            ("sip:alice@SIP.example.com.", Some("example.org")),
            ("sip:alice@localhost", Some("example.org")),
            ("sip:alice@LocalHost.:9", Some("example.org")),
            ("sip:alice@elsewhere.example", None),
            ("sip:alice@192.0.2.2", None),
            ("sip:alice@[2001:db8::2]", None),
            ("sip:alice@example.com", None),
        ] {
            let parsed = Uri::parse(uri.as_bytes()).expect(uri);
            assert_eq!(domains.claimed_name(&parsed), claimed, "{uri}");
        }
    }

    #[test]
    fn localhost_is_ours_only_where_we_listen_on_loopback() {
        let uri = Uri::parse(b"sip:alice@localhost").expect("a URI");
        let outside = domains(&[("192.0.2.1:5060", "192.0.2.1:5060")]);
        assert_eq!(outside.claimed_name(&uri), None);
        let inside = domains(&[("[::1]:5060", "[::1]:5060")]);
        assert_eq!(inside.claimed_name(&uri), Some("example.org"));
    }

    #[test]
    fn a_route_names_us_by_address_and_port_in_either_form_of_the_address() {
        let domains = domains(&[("192.0.2.1:5060", "192.0.2.1:5060")]);
        for (uri, ours) in [
            ("sip:192.0.2.1", true),
            ("sip:192.0.2.1:5060", true),
            ("sip:[::ffff:192.0.2.1]:5060", true),
            ("sip:192.0.2.1:5061", false),
        ] {
            let parsed = Uri::parse(uri.as_bytes()).expect(uri);
            assert_eq!(domains.is_own_address(&parsed), ours, "{uri}");
        }
    }
}
