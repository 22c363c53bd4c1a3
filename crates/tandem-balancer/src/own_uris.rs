//! The addresses of the edge itself, as they appear in URIs.

use sip_message::{Host, Uri};
use sip_transport::Listener;
use std::net::SocketAddr;

/// The hosts and ports of the listeners: bound and advertised.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnUris {
    bound: Vec<SocketAddr>,
    advertised: Vec<(Vec<u8>, u16)>,
}

impl OwnUris {
    pub(crate) fn new(listeners: &[Listener]) -> Self {
        let advertised = listeners.iter().filter_map(|listener| {
            let text = format!("sip:{}", listener.advertised);
            let uri = Uri::parse(text.as_bytes())?;
            let port = uri.port.unwrap_or_else(|| listener.protocol.default_port());
            Some((uri.host_bytes.to_ascii_lowercase(), port))
        });
        Self {
            bound: listeners.iter().map(|listener| listener.address).collect(),
            advertised: advertised.collect(),
        }
    }

    /// Whether the host and the port, if there is one, are those of a listener.
    pub(crate) fn contains(&self, uri: &Uri<'_>) -> bool {
        let fits = |port: u16| uri.port.is_none_or(|asked| asked == port);
        let is_bound = |own: &SocketAddr| {
            let ip = own.ip().to_canonical();
            matches!(uri.host, Host::Address(host) if host.to_canonical() == ip) && fits(own.port())
        };
        self.bound.iter().any(is_bound)
            || self
                .advertised
                .iter()
                .any(|(host, port)| host.eq_ignore_ascii_case(uri.host_bytes) && fits(*port))
    }
}
