//! Where a destination of Kamailio is, and what its gateway is called.

use sip_message::{Scheme, Uri};
use sip_transport::Protocol;
use sip_transport::selection::Destination;

/// The maximum length of the name of a gateway.
const MAX_NAME: usize = 128;

/// The destination of a SIP URI. As Kamailio does, `sip:` is put before a text without scheme.
pub(super) fn destination(text: &str) -> Option<Destination> {
    let is_sip = |uri: &Uri<'_>| matches!(uri.scheme, Scheme::Sip | Scheme::Sips);
    let found = match Uri::parse(text.as_bytes()).filter(is_sip) {
        Some(uri) => Destination::of_uri(&uri),
        None => Destination::of_uri(&Uri::parse(format!("sip:{text}").as_bytes())?),
    };
    let mut found = found.filter(|it| !it.host.is_empty() && it.port != Some(0))?;
    found.host = found.host.to_ascii_lowercase().into();
    Some(found)
}

/// The name of a gateway without a `duid`: `192.0.2.1:5080`, `tcp:trunk.example.net`, `sips:trunk.example.net`. Different destinations have
/// different names.
pub(super) fn name(destination: &Destination) -> String {
    let mut name = String::new();
    if destination.secure {
        name.push_str("sips:");
    }
    if let Some(protocol) = destination.protocol {
        name.push_str(&protocol.via_token().to_ascii_lowercase());
        name.push(':');
    }
    name.push_str(&destination.host);
    match destination.port {
        Some(port) => format!("{name}:{port}"),
        None => name,
    }
}

/// Equal for rows of one gateway: an address without a port has that of SIP. A name without a port differs, because its port is that of its
/// SRV records.
pub(super) fn identity(destination: &Destination) -> String {
    if destination.port.is_some() || destination.literal().is_none() {
        return name(destination);
    }
    let is_tls = destination.secure || destination.protocol.is_some_and(Protocol::is_secure);
    let port = if is_tls { 5061 } else { 5060 };
    format!("{}:{port}", name(destination))
}

/// Whether a text can be the name of a gateway or a group.
pub(super) fn is_name(text: &str) -> bool {
    let length = 1..=MAX_NAME;
    length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_named_after_what_makes_it_different() {
        for (text, expected) in [
            ("sip:192.0.2.1", "192.0.2.1"),
            ("sip:192.0.2.1:5080;lr", "192.0.2.1:5080"),
            ("sip:GW.Example.net;transport=TCP", "tcp:gw.example.net"),
            ("sips:gw.example.net", "sips:gw.example.net"),
            ("sip:user@[2001:db8::1]:5080", "[2001:db8::1]:5080"),
            ("gw.example.net:5080", "gw.example.net:5080"),
            ("192.0.2.1", "192.0.2.1"),
            ("sip:gw.example.net;maddr=192.0.2.9", "192.0.2.9"),
        ] {
            let found = destination(text).map(|found| name(&found));
            assert_eq!(found.as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn an_address_with_and_without_the_port_of_sip_is_one_gateway_and_a_name_is_two() {
        let of = |text: &str| destination(text).map(|found| identity(&found));
        assert_eq!(of("sip:192.0.2.1"), of("sip:192.0.2.1:5060"));
        assert_eq!(of("sips:192.0.2.1"), of("sips:192.0.2.1:5061"));
        assert_eq!(
            of("sip:192.0.2.1;transport=tls"),
            of("sip:192.0.2.1:5061;transport=tls")
        );
        assert_ne!(of("sip:gw.example.net"), of("sip:gw.example.net:5060"));
        assert_ne!(of("sip:192.0.2.1"), of("sip:192.0.2.1;transport=tcp"));
    }

    #[test]
    fn a_text_that_leads_nowhere_is_no_destination() {
        for text in [
            "",
            "sip:",
            "tel:+4930123",
            "sip:gw.example.net:0",
            "sip:gw.example.net;transport=sctp",
            "sip:2001:db8::1",
            "gw one",
            "http://gw.example.net",
        ] {
            assert_eq!(destination(text), None, "{text}");
        }
    }
}
