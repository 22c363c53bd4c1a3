//! The encoder of HEP version 3 (Homer Encapsulation Protocol): a message with its addresses and time, as one datagram for a collector.
//!
//! A packet is `HEP3`, its length, and chunks. A chunk is its vendor (0), its type, its length with these six bytes, and its value. All
//! numbers are in network byte order.
use super::Seen;
use sip_message::Message;
use std::net::{IpAddr, SocketAddr};

/// Types of chunks.
mod chunk {
    pub(super) const ADDRESS_FAMILY: u16 = 1;
    pub(super) const TRANSPORT: u16 = 2;
    pub(super) const SOURCE_IPV4: u16 = 3;
    pub(super) const DESTINATION_IPV4: u16 = 4;
    pub(super) const SOURCE_IPV6: u16 = 5;
    pub(super) const DESTINATION_IPV6: u16 = 6;
    pub(super) const SOURCE_PORT: u16 = 7;
    pub(super) const DESTINATION_PORT: u16 = 8;
    pub(super) const SECONDS: u16 = 9;
    pub(super) const MICROSECONDS: u16 = 10;
    pub(super) const PAYLOAD_TYPE: u16 = 11;
    pub(super) const AGENT: u16 = 12;
    pub(super) const KEY: u16 = 14;
    pub(super) const PAYLOAD: u16 = 15;
    pub(super) const CORRELATION: u16 = 17;
}

/// Address families, as Linux numbers them.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// Transports by their IP protocol numbers.
const UDP: u8 = 17;
const TCP: u8 = 6;
/// The payload is SIP.
const SIP: u8 = 1;
/// The longest packet that a datagram carries over IPv4 and IPv6, in bytes.
const LONGEST: usize = 65_507;

/// How a server identifies itself to a collector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agent<'a> {
    /// The capture agent ID.
    pub(super) id: u32,
    /// The authentication key; empty: none.
    pub(super) key: &'a [u8],
}

/// Replaces the content of `packet` with a message. Returns false if the message does not fit into a datagram.
pub(super) fn encode(seen: &Seen<'_>, agent: Agent<'_>, packet: &mut Vec<u8>) -> bool {
    let traced = seen.traced;
    let (source, destination) = seen.path();
    let micros = traced.at.as_micros();
    let transport = if seen.protocol.is_reliable() {
        TCP
    } else {
        UDP
    };
    packet.clear();
    packet.extend(b"HEP3\0\0");
    push_addresses(packet, source, destination);
    push(packet, chunk::TRANSPORT, &[transport]);
    push(packet, chunk::SOURCE_PORT, &source.port().to_be_bytes());
    push(
        packet,
        chunk::DESTINATION_PORT,
        &destination.port().to_be_bytes(),
    );
    push(
        packet,
        chunk::SECONDS,
        &((micros / 1_000_000) as u32).to_be_bytes(),
    );
    push(
        packet,
        chunk::MICROSECONDS,
        &((micros % 1_000_000) as u32).to_be_bytes(),
    );
    push(packet, chunk::PAYLOAD_TYPE, &[SIP]);
    push(packet, chunk::AGENT, &agent.id.to_be_bytes());
    if !agent.key.is_empty() {
        push(packet, chunk::KEY, agent.key);
    }
    let message = Message::parse(&traced.bytes).ok();
    if let Some(call_id) = message.and_then(|message| message.call_id()) {
        push(packet, chunk::CORRELATION, call_id);
    }
    push(packet, chunk::PAYLOAD, &traced.bytes);
    let length = u16::try_from(packet.len()).ok();
    match (
        length.filter(|length| usize::from(*length) <= LONGEST),
        packet.get_mut(4..6),
    ) {
        (Some(length), Some(field)) => {
            field.copy_from_slice(&length.to_be_bytes());
            true
        }
        _ => false,
    }
}

fn push_addresses(packet: &mut Vec<u8>, source: SocketAddr, destination: SocketAddr) {
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            push(packet, chunk::ADDRESS_FAMILY, &[IPV4]);
            push(packet, chunk::SOURCE_IPV4, &source.octets());
            push(packet, chunk::DESTINATION_IPV4, &destination.octets());
        }
        (source, destination) => {
            push(packet, chunk::ADDRESS_FAMILY, &[IPV6]);
            push(packet, chunk::SOURCE_IPV6, &ipv6(source));
            push(packet, chunk::DESTINATION_IPV6, &ipv6(destination));
        }
    }
}

fn ipv6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// Appends a chunk. A value that is too long makes the packet too long, too.
fn push(packet: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len() + 6).unwrap_or(u16::MAX);
    packet.extend([0, 0]);
    packet.extend(kind.to_be_bytes());
    packet.extend(length.to_be_bytes());
    packet.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_elements::trace::{Direction, Readers, Traced};
    use sip_transport::{Flow, Listener, ListenerId, Protocol, Time};

    const MESSAGE: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nCall-ID: c1\r\n\r\n";

    fn packet(
        direction: Direction,
        protocol: Protocol,
        addresses: [&str; 2],
        bytes: &[u8],
    ) -> (bool, Vec<u8>) {
        let [local, remote] = addresses.map(|address| address.parse().expect("an address"));
        let traced = Traced {
            at: Time::from_micros(1_700_000_000_000_258),
            direction,
            flow: Flow::to(ListenerId(0), remote),
            readers: Readers::default(),
            bytes: bytes.into(),
        };
        let listener = Listener {
            protocol,
            address: local,
            prefix_length: 24,
            advertised: String::new(),
            behind_balancer: false,
        };
        let seen = Seen::new(&traced, 0, &[listener]).expect("a listener");
        let agent = Agent {
            id: 2_001,
            key: b"key",
        };
        let mut packet = b"what was there before".to_vec();
        let fits = encode(&seen, agent, &mut packet);
        (fits, packet)
    }

    #[test]
    fn a_message_over_ipv4_has_these_bytes() {
        let addresses = ["192.0.2.1:5060", "198.51.100.7:40000"];
        let (fits, packet) = packet(Direction::Received, Protocol::Udp, addresses, MESSAGE);
        assert!(fits);
        let expected: &[&[u8]] = &[
            b"HEP3\x00\x9a",
            b"\0\0\0\x01\0\x07\x02",
            b"\0\0\0\x03\0\x0a\xc6\x33\x64\x07",
            b"\0\0\0\x04\0\x0a\xc0\x00\x02\x01",
            b"\0\0\0\x02\0\x07\x11",
            b"\0\0\0\x07\0\x08\x9c\x40",
            b"\0\0\0\x08\0\x08\x13\xc4",
            b"\0\0\0\x09\0\x0a\x65\x53\xf1\x00",
            b"\0\0\0\x0a\0\x0a\0\0\x01\x02",
            b"\0\0\0\x0b\0\x07\x01",
            b"\0\0\0\x0c\0\x0a\0\0\x07\xd1",
            b"\0\0\0\x0e\0\x09key",
            b"\0\0\0\x11\0\x08c1",
            b"\0\0\0\x0f\0\x2c",
            MESSAGE,
        ];
        assert_eq!(packet, expected.concat());
    }

    #[test]
    fn a_sent_message_over_tls_and_ipv6_has_its_addresses_and_tcp() {
        let addresses = ["[2001:db8::1]:5061", "[2001:db8::7]:40000"];
        let (fits, packet) = packet(Direction::Sent, Protocol::Tls, addresses, MESSAGE);
        assert!(fits);
        let ours = b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01";
        let theirs = b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07";
        let expected: &[&[u8]] = &[
            b"\0\0\0\x01\0\x07\x0a",
            b"\0\0\0\x05\0\x16",
            ours,
            b"\0\0\0\x06\0\x16",
            theirs,
            b"\0\0\0\x02\0\x07\x06",
            b"\0\0\0\x07\0\x08\x13\xc5",
            b"\0\0\0\x08\0\x08\x9c\x40",
        ];
        let expected = expected.concat();
        assert_eq!(packet.get(6..6 + expected.len()), Some(&*expected));
    }

    #[test]
    fn a_message_that_no_datagram_holds_is_refused() {
        let addresses = ["192.0.2.1:5060", "198.51.100.7:40000"];
        let of = |length: usize| {
            let mut bytes = MESSAGE.to_vec();
            bytes.resize(length, b'x');
            packet(Direction::Received, Protocol::Tcp, addresses, &bytes)
        };
        let (_, small) = of(MESSAGE.len());
        let overhead = small.len() - MESSAGE.len();
        let longest = LONGEST - overhead;
        assert!(of(longest).0);
        for length in [longest + 1, 65_536, 200_000] {
            assert!(!of(length).0, "{length}");
        }
    }
}
