//! The destination of a response (RFC 3261 section 18.2.2, RFC 3581).

use crate::flow::Flow;
use sip_message::{Host, Via};
use std::net::{IpAddr, SocketAddr};

/// The flow for responses to a request that arrived on `source` with this topmost Via.
///
/// Responses go back to the source of the request. The one exception is a client without NAT that asks for another port: no
/// `rport`, and a sent-by that equals its source address. It listens on that port (section 18.2.2).
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

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}
