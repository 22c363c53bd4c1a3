//! What a row of `location` says about a phone.

use super::credentials::canonical;
use super::reader::{LocationRow, PERMANENT};
use crate::binding::BindingRow;
use sip_message::{Host, Scheme, Uri};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Why a row is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// No address of record, or no SIP URI as contact.
    Unreadable,
    /// Another process cannot reach the phone: its WebSocket is Kamailio's, or its address is not known.
    Unreachable,
}

/// The address of record and the binding of a row.
pub(super) fn binding<'r>(
    row: &LocationRow<'r>,
    default_domain: &'r str,
) -> Result<(String, BindingRow<'r>), Unusable> {
    let contact = sip_uri(row.contact).ok_or(Unusable::Unreadable)?;
    if row.username.is_empty() {
        return Err(Unusable::Unreadable);
    }
    let received = match row.received {
        "" => None,
        text => Some(sip_uri(text).ok_or(Unusable::Unreadable)?),
    };
    let source = received.as_ref().unwrap_or(&contact);
    let protocol = protocol(source, &contact, row.socket);
    let source = match (address(source), row.path) {
        _ if protocol.starts_with("ws") => return Err(Unusable::Unreachable),
        (Some(source), _) => source,
        (None, "") => return Err(Unusable::Unreachable),
        // The Path leads to the phone.
        (None, _) => (Ipv4Addr::UNSPECIFIED, 0).into(),
    };
    let domain = canonical(row.domain, default_domain);
    Ok((
        format!("{}@{domain}", row.username),
        BindingRow {
            contact: Cow::Borrowed(row.contact.as_bytes()),
            q: thousandths(row.q),
            expires_at: if row.expires <= PERMANENT {
                u32::MAX
            } else {
                u32::try_from(row.expires).unwrap_or(u32::MAX)
            },
            call_id: Cow::Borrowed(row.call_id.as_bytes()),
            cseq: u32::try_from(row.cseq).unwrap_or_default(),
            path: Cow::Borrowed(row.path.as_bytes()),
            instance: Cow::Owned(instance(row).into_bytes()),
            user_agent: Cow::Borrowed(row.user_agent.as_bytes()),
            source,
            listener: Cow::Owned(listener(&protocol, row.socket)),
        },
    ))
}

fn sip_uri(text: &str) -> Option<Uri<'_>> {
    Uri::parse(text.as_bytes()).filter(|uri| matches!(uri.scheme, Scheme::Sip | Scheme::Sips))
}

/// The transport between Kamailio and the phone.
fn protocol(source: &Uri<'_>, contact: &Uri<'_>, socket: &str) -> String {
    let asked = |uri: &Uri<'_>| {
        uri.params
            .value(b"transport")
            .map(<[u8]>::to_ascii_lowercase)
    };
    // The received address of a WebSocket is that of a TCP connection.
    let asked = match asked(contact) {
        Some(web) if web.starts_with(b"ws") => Some(web),
        of_contact => asked(source).or(of_contact),
    };
    let asked = asked.and_then(|token| String::from_utf8(token).ok());
    let of_socket = socket.split_once(':').map(|(protocol, _)| protocol);
    asked.unwrap_or_else(|| of_socket.unwrap_or("udp").to_ascii_lowercase())
}

/// Kamailio's socket as the name of a listener, for a listener of the same transport and, if there is one, the same address.
fn listener(protocol: &str, socket: &str) -> String {
    let address = socket.split_once(':').map_or("", |(_, address)| address);
    format!("{protocol}:{address}")
}

fn address(uri: &Uri<'_>) -> Option<SocketAddr> {
    let default = if uri.scheme == Scheme::Sips {
        5061
    } else {
        5060
    };
    let of = |ip: IpAddr| SocketAddr::new(ip, uri.port.unwrap_or(default));
    match uri.host {
        Host::Address(ip) => Some(of(ip)),
        Host::Name(_) => None,
    }
}

/// A phone that gave no preference has the highest (RFC 3261 section 10.2.1.2).
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is from 0 to 1,000, and a cast of NaN is 0"
)]
fn thousandths(q: f64) -> u16 {
    if q < 0.0 {
        return 1_000;
    }
    (q * 1_000.0).round().min(1_000.0) as u16
}

/// The instance as a phone writes it, in quotes, with its reg-id. Kamailio keeps it without quotes.
fn instance(row: &LocationRow<'_>) -> String {
    let id = row.instance.trim_matches('"');
    match (id, row.reg_id) {
        ("", _) => String::new(),
        (id, 1..) => format!("\"{id}\";reg-id={}", row.reg_id),
        (id, _) => format!("\"{id}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: LocationRow<'static> = LocationRow {
        username: "alice",
        domain: "Example.ORG",
        contact: "sip:alice@10.0.0.7:5070;transport=udp",
        received: "sip:192.0.2.7:40000",
        path: "",
        expires: 2_000_000_000,
        q: 0.7,
        call_id: "call",
        cseq: 3,
        user_agent: "Phone/1.0",
        socket: "udp:192.0.2.1:5060",
        instance: "<urn:uuid:1>",
        reg_id: 0,
    };

    fn read(row: LocationRow<'static>) -> Result<(String, BindingRow<'static>), Unusable> {
        binding(&row, "default.example")
    }

    #[test]
    fn a_row_becomes_a_binding_whose_source_is_the_received_address() {
        let (address, binding) = read(ROW).expect("usable");
        assert_eq!(address, "alice@example.org");
        assert_eq!(binding.contact, ROW.contact.as_bytes());
        assert_eq!(
            binding.source,
            "192.0.2.7:40000".parse().expect("an address")
        );
        assert_eq!(
            (binding.q, binding.expires_at, binding.cseq),
            (700, 2_000_000_000, 3)
        );
        assert_eq!(&*binding.instance, b"\"<urn:uuid:1>\"");
        assert_eq!(binding.listener, "udp:192.0.2.1:5060");
    }

    #[test]
    fn a_row_without_domain_belongs_to_the_default_domain_and_a_missing_q_is_the_highest() {
        let (address, binding) = read(LocationRow {
            domain: "",
            received: "",
            q: -1.0,
            expires: 0,
            reg_id: 2,
            ..ROW
        })
        .expect("usable");
        assert_eq!(address, "alice@default.example");
        assert_eq!(binding.source, "10.0.0.7:5070".parse().expect("an address"));
        assert_eq!((binding.q, binding.expires_at), (1_000, u32::MAX));
        assert_eq!(&*binding.instance, b"\"<urn:uuid:1>\";reg-id=2");
    }

    #[test]
    fn the_transport_is_that_of_the_phone_and_not_of_the_socket() {
        for (contact, received, socket, expected) in [
            (
                "sip:a@192.0.2.7",
                "",
                "tcp:192.0.2.1:5060",
                "tcp:192.0.2.1:5060",
            ),
            ("sip:a@192.0.2.7;transport=TCP", "", "", "tcp:"),
            (
                "sip:a@10.0.0.7",
                "sip:192.0.2.7:4;transport=tls",
                "tls:[2001:db8::1]:5061",
                "tls:[2001:db8::1]:5061",
            ),
            ("sip:a@[2001:db8::7]", "", "", "udp:"),
        ] {
            let row = LocationRow {
                contact,
                received,
                socket,
                ..ROW
            };
            assert_eq!(read(row).expect("usable").1.listener, expected, "{contact}");
        }
    }

    #[test]
    fn a_row_that_says_nothing_or_that_only_kamailio_reaches_is_skipped() {
        use Unusable::{Unreachable, Unreadable};
        for (contact, received, path, expected) in [
            ("", "", "", Err(Unreadable)),
            ("tel:+4930", "", "", Err(Unreadable)),
            ("sip:a@192.0.2.7", "nonsense", "", Err(Unreadable)),
            ("sip:a@phone.example.org", "", "", Err(Unreachable)),
            (
                "sip:a@x.invalid;transport=ws",
                "sip:192.0.2.7:4;transport=tcp",
                "",
                Err(Unreachable),
            ),
            ("sip:a@phone.example.org", "", "<sip:192.0.2.9;lr>", Ok(())),
        ] {
            let row = LocationRow {
                contact,
                received,
                path,
                ..ROW
            };
            assert_eq!(read(row).map(drop), expected, "{contact}");
        }
        assert!(
            read(LocationRow {
                username: "",
                ..ROW
            })
            .is_err()
        );
    }
}
