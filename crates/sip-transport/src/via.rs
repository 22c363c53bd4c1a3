//! Where a response goes (RFC 3261 section 18.2.2, RFC 3581).

use crate::flow::Flow;
use sip_message::{Host, Via};
use std::net::{IpAddr, SocketAddr};

/// The flow for responses to a request that arrived on `source` with this topmost Via.
///
/// Responses go back to where the request came from. The one exception is a client that asks for
/// another port in the open: no `rport`, and a sent-by with its very source address. It listens
/// there (section 18.2.2), and no translator stands between us that would be in the way.
pub fn response_flow(source: Flow, via: &Via<'_>) -> Flow {
    if source.connection.is_some() || via.rport().is_some() {
        return source;
    }
    match via.host {
        Host::Address(ip) if ip == canonical(source.remote.ip()) => {
            let port = via.port.unwrap_or(5060);
            Flow {
                remote: SocketAddr::new(source.remote.ip(), port),
                ..source
            }
        }
        _ => source,
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address that it is.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}
