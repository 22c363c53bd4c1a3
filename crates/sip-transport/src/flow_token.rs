//! Flow tokens (RFC 5626 section 5.2). A token in Record-Route, Path or a branch names the flow to a party that cannot be reached in
//! another way. So no table is needed, and a dialog continues even if the process has lost its state.
//!
//! A token proves nothing. Write a keyed hash over it next to it.

use crate::{ConnectionId, Flow, Listener, ListenerId, Protocol};
use sip_message::{HeaderName, Host, Message};
use std::net::{IpAddr, SocketAddr};
use std::slice::IterMut;

/// Name of the URI parameter that carries the token.
pub const PARAMETER: &[u8] = b"fl";

/// Bytes before the address: listener, worker, slot, port.
const FIXED: usize = 10;
/// Length of the longest token, in digits.
pub const LONGEST: usize = 2 * (FIXED + 16);

/// Whether requests to the sender of this request must use the flow that it arrived on. This holds for a phone that
/// opened a connection, a phone behind a NAT, and a phone whose Contact leads elsewhere. It does not hold for a request
/// that a proxy has forwarded. A proxy with Record-Route has stated how to reach it; one without wants no more requests of the dialog.
pub fn is_reached_by_flow_only(request: &Message<'_>, source: Flow, listener: &Listener) -> bool {
    let is_forwarded = || request.values(HeaderName::Via).nth(1).is_some();
    if request.header(HeaderName::RecordRoute).is_some() || is_forwarded() {
        return false;
    }
    if listener.protocol != Protocol::Udp {
        return true;
    }
    let contact = request.header(HeaderName::Contact);
    let uri = contact
        .and_then(sip_message::NameAddr::parse)
        .and_then(|contact| contact.uri());
    if uri.is_some_and(|uri| uri.params.contains(b"maddr")) {
        return true;
    }
    match uri.map(|uri| uri.host) {
        Some(Host::Address(ip)) => ip != source.remote.ip().to_canonical(),
        Some(Host::Name(name)) => name.to_ascii_lowercase().ends_with(b".invalid"),
        None => false,
    }
}

/// Appends the octets of a number as hexadecimal digits.
pub fn write_number(into: &mut impl Extend<u8>, octets: &[u8]) {
    into.extend(
        octets
            .iter()
            .flat_map(|octet| [digit(octet >> 4), digit(octet & 15)]),
    );
}

/// Reads lower-case hexadecimal digits, at most 16.
pub fn read_number(digits: &[u8]) -> Option<u64> {
    let push = |value, digit: &u8| Some(value << 4 | u64::from(nibble(*digit)?));
    let digits = Some(digits).filter(|digits| digits.len() <= 16)?;
    digits.iter().try_fold(0, push)
}

/// Appends a flow as hexadecimal digits.
pub fn write(into: &mut impl Extend<u8>, flow: Flow) {
    let connection = flow.connection;
    let mut digits = |octets: &[u8]| write_number(into, octets);
    digits(&flow.listener.0.to_be_bytes());
    digits(&connection.worker().to_be_bytes());
    digits(&connection.slot().to_be_bytes());
    digits(&flow.remote.port().to_be_bytes());
    match flow.remote.ip() {
        IpAddr::V4(ip) => digits(&ip.octets()),
        IpAddr::V6(ip) => digits(&ip.octets()),
    }
}

const fn digit(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    }
}

/// A flow in a fixed number of bytes, to be hashed.
pub fn octets(flow: Flow) -> [u8; FIXED + 16] {
    let ip = match flow.remote.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut octets = [0; FIXED + 16];
    let mut rest = octets.iter_mut();
    put(&mut rest, flow.listener.0.to_be_bytes());
    put(&mut rest, flow.connection.worker().to_be_bytes());
    put(&mut rest, flow.connection.slot().to_be_bytes());
    put(&mut rest, flow.remote.port().to_be_bytes());
    put(&mut rest, ip.octets());
    octets
}

/// Returns the flow that a token names. Only the proof next to the token tells whether the token is ours.
pub fn read(token: &[u8]) -> Option<Flow> {
    let mut octets = [0; FIXED + 16];
    if token.len() > LONGEST {
        return None;
    }
    for (octet, digits) in octets.iter_mut().zip(token.chunks(2)) {
        let &[high, low] = digits else {
            return None;
        };
        *octet = nibble(high)? << 4 | nibble(low)?;
    }
    let mut rest = octets.get(..token.len() / 2)?;
    let listener = ListenerId(u16::from_be_bytes(take(&mut rest)?));
    let worker = u16::from_be_bytes(take(&mut rest)?);
    let slot = u32::from_be_bytes(take(&mut rest)?);
    let port = u16::from_be_bytes(take(&mut rest)?);
    let ip = match rest.len() {
        4 => IpAddr::from(take::<4>(&mut rest)?),
        16 => IpAddr::from(take::<16>(&mut rest)?),
        _ => return None,
    };
    Some(Flow {
        listener,
        connection: ConnectionId::new(worker, slot),
        remote: SocketAddr::new(ip, port),
    })
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn put<const N: usize>(into: &mut IterMut<'_, u8>, octets: [u8; N]) {
    for (octet, place) in octets.into_iter().zip(into) {
        *place = octet;
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(remote: &str, connection: ConnectionId) -> Flow {
        Flow {
            listener: ListenerId(7),
            connection,
            remote: remote.parse().expect("an address"),
        }
    }

    #[test]
    fn a_token_names_its_flow() {
        for flow in [
            flow("192.0.2.1:5060", ConnectionId::NONE),
            flow("203.0.113.9:65535", ConnectionId::new(3, 0xabcd_ef01)),
            flow("[2001:db8::1]:1", ConnectionId::new(u16::MAX, u32::MAX)),
        ] {
            let mut token = Vec::new();
            write(&mut token, flow);
            assert_eq!(read(&token), Some(flow));
            assert!(token.iter().all(u8::is_ascii_alphanumeric));
        }
    }

    #[test]
    fn a_phone_elsewhere_is_reached_by_its_flow_unless_a_proxy_has_forwarded_its_request() {
        let listener = Listener {
            protocol: Protocol::Udp,
            address: "192.0.2.1:5060".parse().expect("an address"),
            prefix_length: 24,
            advertised: "192.0.2.1:5060".to_owned(),
            behind_balancer: false,
        };
        let source = flow("203.0.113.9:40000", ConnectionId::NONE);
        let is_reached_by_flow = |vias: &str, more: &str| {
            let text =
                format!("INVITE sip:b@h SIP/2.0\r\n{vias}Contact: <sip:a@10.0.0.5>\r\n{more}\r\n");
            let request = Message::parse(text.as_bytes()).expect("a request");
            is_reached_by_flow_only(&request, source, &listener)
        };
        let via = "Via: SIP/2.0/UDP 10.0.0.5;branch=z9hG4bKa\r\n";
        let two = format!("Via: SIP/2.0/UDP 203.0.113.9:40000;branch=z9hG4bKb\r\n{via}");
        assert!(is_reached_by_flow(via, ""));
        assert!(!is_reached_by_flow(&two, ""));
        let recorded = "Record-Route: <sip:203.0.113.9:40000;lr>\r\n";
        assert!(!is_reached_by_flow(&two, recorded));
    }

    #[test]
    fn what_is_no_token_names_nothing() {
        let mut token = Vec::new();
        write(&mut token, flow("192.0.2.1:5060", ConnectionId::new(1, 1)));
        for length in 0..token.len() {
            assert_eq!(read(&token[..length]), None, "{length}");
        }
        token.extend_from_slice(b"00");
        assert_eq!(read(&token), None);
        assert_eq!(read(&[b'z'; 28]), None);
        assert_eq!(read(&[b'0'; 2_000]), None);
    }
}
