//! Finds the client that a wrong password counts against.
//!
//! A request from an edge proxy or a trusted peer belongs to one of its clients. A pause must hit that client alone.
//!
//! ```text
//! Via: edge                                       ← the edge's own
//! Via: client;received=203.0.113.7                ← the client's; the edge has checked or written the address (RFC 3261 section 18.2.1)
//! Via: …                                          ← not trusted: the client wrote it
//! ```

use crate::Settings;
use sip_message::{HeaderName, Host, Message, Via};
use std::net::IpAddr;

/// The maximum number of edge proxies and trusted peers in a row that a request may have passed.
const MAX_PEERS: usize = 4;

/// A Via that no server can have left like this: it has two `received` parameters, or one that is not an address. Honest
/// clients write no `received`, so this client has forged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidVia;

/// The client's address, as recorded by the first of the operator's servers that received the request. `None` if no
/// server recorded it.
///
/// A peer must replace a `received` that its client wrote. If it keeps it, the client can choose the address.
pub(crate) fn client_address(
    request: &Message<'_>,
    settings: &Settings,
) -> Result<Option<IpAddr>, InvalidVia> {
    let recorded = request.values(HeaderName::Via).skip(1).take(MAX_PEERS);
    for value in recorded {
        let Some(via) = Via::parse(value) else {
            return Err(InvalidVia);
        };
        match recorded_source(&via)? {
            Some(address) if settings.is_shared(address) => {}
            found => return Ok(found),
        }
    }
    Ok(None)
}

/// The source of a request, as recorded in this topmost Via by the server that received it.
fn recorded_source(via: &Via<'_>) -> Result<Option<IpAddr>, InvalidVia> {
    let is_received = |name: &[u8]| name.eq_ignore_ascii_case(b"received");
    let names = via.params.iter().filter(|(name, _)| is_received(name));
    match (names.count(), via.received(), &via.host) {
        // The server has compared the host with the source and found no difference.
        (0, _, Host::Address(address)) => Ok(Some(address.to_canonical())),
        (0, _, Host::Name(_)) => Ok(None),
        (1, Some(address), _) => Ok(Some(address.to_canonical())),
        _ => Err(InvalidVia),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_is_who_the_last_server_of_the_operator_heard() {
        let mut settings = Settings::new(&["example.org".to_owned()], Vec::new());
        settings.proxy.edge_proxies = ["192.0.2.20/31".parse().expect("a network")]
            .into_iter()
            .collect();
        for (vias, client) in [
            ("SIP/2.0/UDP edge;branch=1", Ok(None)),
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP 10.0.0.1;received=203.0.113.7",
                Ok(Some("203.0.113.7")),
            ),
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP 203.0.113.7;rport=5",
                Ok(Some("203.0.113.7")),
            ),
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP [::ffff:203.0.113.7]",
                Ok(Some("203.0.113.7")),
            ),
            ("SIP/2.0/UDP edge, SIP/2.0/UDP phone.example.net", Ok(None)),
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP h;received=phone.example.net",
                Err(InvalidVia),
            ),
            // The client can invent every Via below its own, so these do not count.
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP h;received=203.0.113.7, SIP/2.0/UDP h;received=198.51.100.1",
                Ok(Some("203.0.113.7")),
            ),
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP h;received=203.0.113.7;received=198.51.100.1",
                Err(InvalidVia),
            ),
            // Two of the operator's proxies in a row.
            (
                "SIP/2.0/UDP edge, SIP/2.0/UDP 192.0.2.21, SIP/2.0/UDP h;received=203.0.113.7",
                Ok(Some("203.0.113.7")),
            ),
            ("SIP/2.0/UDP edge, SIP/2.0/UDP 192.0.2.21", Ok(None)),
        ] {
            let request = format!("OPTIONS sip:example.org SIP/2.0\r\nVia: {vias}\r\n\r\n");
            let request = Message::parse(request.as_bytes()).expect("a request");
            let client = client.map(|client: Option<&str>| {
                client.map(|address| address.parse().expect("an address"))
            });
            assert_eq!(client_address(&request, &settings), client, "{vias}");
        }
    }
}
