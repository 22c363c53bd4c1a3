//! Which domains are ours, and under which name a subscriber is known.
use sip_message::{Host, Uri};
use sip_transport::Listener;
use std::net::SocketAddr;

/// The domains we are responsible for. Our own listener addresses count as aliases of the first domain, so that a phone that
/// knows only the server's address registers and calls as well.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    names: Vec<String>,
    addresses: Vec<SocketAddr>,
    advertised: Vec<(String, u16)>,
}

impl Domains {
    /// From the configured names (the first is the default) and our listeners.
    pub fn new(names: &[String], listeners: &[Listener]) -> Self {
        let advertised = listeners
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
        Self {
            names: names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            addresses: listeners.iter().map(|listener| listener.address).collect(),
            advertised,
        }
    }

    /// The domain that addresses without one of our names belong to.
    pub fn default_name(&self) -> &str {
        self.names.first().map_or("localhost", String::as_str)
    }

    /// The configured names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of our domain that this URI lies in; `None`: foreign. Ports: a domain name matches with any port of ours or none.
    pub fn local_name(&self, uri: &Uri<'_>) -> Option<&str> {
        if let Host::Name(name) = uri.host {
            let name = name.strip_suffix(b".").unwrap_or(name);
            let ours = self
                .names
                .iter()
                .find(|own| own.as_bytes().eq_ignore_ascii_case(name));
            if let Some(own) = ours {
                return Some(own);
            }
        }
        self.is_own_address(uri).then(|| self.default_name())
    }

    /// Whether host and port are those of one of our listeners (by address or advertised name): a Route to us.
    pub fn is_own_address(&self, uri: &Uri<'_>) -> bool {
        let by_address = match uri.host {
            Host::Address(ip) => self
                .addresses
                .iter()
                .any(|own| own.ip() == ip && uri.port.is_none_or(|port| port == own.port())),
            Host::Name(_) => false,
        };
        by_address
            || self.advertised.iter().any(|(host, port)| {
                host.as_bytes().eq_ignore_ascii_case(uri.host_bytes)
                    && uri.port.is_none_or(|asked| asked == *port)
            })
    }

    /// Whether a Route URI names us: one of our addresses, or one of our domains.
    pub fn is_us(&self, uri: &Uri<'_>) -> bool {
        self.local_name(uri).is_some()
    }
}
