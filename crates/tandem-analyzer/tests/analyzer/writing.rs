//! Capture files that this crate writes.

use etherparse::SlicedPacket;
use std::net::SocketAddr;
use tandem_analyzer::capture::file::{self, End};
use tandem_analyzer::capture::{LinkType, PcapWriter, Time};

const TIME: u64 = 1_700_000_000_123_456;

/// Writes one message and reads the packet back: its addresses, its payload, and whether it was written whole.
fn written_and_read(from: &str, to: &str, message: &[u8]) -> (String, String, Vec<u8>, bool) {
    let [from, to] = [from, to].map(|address| address.parse::<SocketAddr>().expect("an address"));
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes).expect("written");
    let whole = writer.message(TIME, from, to, message).expect("written");
    let mut found = None;
    let end = file::read(&bytes[..], |packet| {
        assert_eq!(packet.moment.time, Time::new(1_700_000_000, 123_456_000));
        assert_eq!((packet.link, packet.truncated), (LinkType::RawIp, false));
        let sliced = SlicedPacket::from_ip(packet.bytes).expect("an IP packet");
        let Some(etherparse::TransportSlice::Udp(udp)) = sliced.transport else {
            panic!("no UDP");
        };
        let (source, destination) = match sliced.net {
            Some(etherparse::NetSlice::Ipv4(ip)) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            Some(etherparse::NetSlice::Ipv6(ip)) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            _ => panic!("no IP"),
        };
        let source = SocketAddr::new(source, udp.source_port());
        let destination = SocketAddr::new(destination, udp.destination_port());
        found = Some((
            source.to_string(),
            destination.to_string(),
            udp.payload().to_vec(),
            whole,
        ));
        true
    });
    assert_eq!(end.expect("a capture file"), End::Whole);
    found.expect("a packet")
}

#[test]
fn a_message_is_read_back_with_its_time_and_addresses() {
    for (from, to) in [
        ("192.0.2.1:5060", "198.51.100.7:40000"),
        ("[2001:db8::1]:5061", "[2001:db8::7]:40000"),
    ] {
        let expected = (from.to_owned(), to.to_owned(), b"OPTIONS".to_vec(), true);
        assert_eq!(written_and_read(from, to, b"OPTIONS"), expected);
    }
    // A listener with an IPv6 address, and a peer with an IPv4 address.
    let (_, to, ..) = written_and_read("[2001:db8::1]:5061", "192.0.2.7:40000", b"OPTIONS");
    assert_eq!(to, "[::ffff:192.0.2.7]:40000");
}

#[test]
fn a_message_longer_than_a_datagram_is_cut() {
    let message = vec![b'x'; 70_000];
    for address in ["192.0.2.1:5060", "[2001:db8::1]:5061"] {
        let (_, _, payload, whole) = written_and_read(address, address, &message);
        assert_eq!((payload.len(), whole), (65_507, false));
    }
}
