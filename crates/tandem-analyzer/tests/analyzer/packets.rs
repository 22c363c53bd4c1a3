//! Packets of all kinds: link types, fragments, truncated packets, and packets of others.

use super::wire::{ALICE, BOUNDS, SERVER, Wire, request, udp};
use etherparse::{
    IpFragOffset, IpNumber, Ipv4Header, Ipv6FragmentHeader, Ipv6Header, PacketBuilder,
};
use tandem_analyzer::capture::LinkType;
use tandem_analyzer::{Bounds, Counter};

const VIA: &str = "192.0.2.7:5062;branch=z9hG4bK-a";

fn options() -> String {
    request("OPTIONS", &[VIA], "o", 1, "")
}

#[test]
fn a_message_is_found_behind_every_link_header() {
    let ip = udp(ALICE, SERVER, options().as_bytes());
    let addresses = [2; 12];
    let behind = |header: &[&[u8]]| [&header.concat(), &ip[..]].concat();
    let cases = [
        (LinkType::RawIp, ip.clone()),
        (LinkType::Ethernet, behind(&[&addresses, &[8, 0]])),
        (
            LinkType::Ethernet,
            behind(&[&addresses, &[0x81, 0, 0, 7, 8, 0]]),
        ),
        (
            LinkType::Ethernet,
            behind(&[&addresses, &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0]]),
        ),
        (LinkType::LinuxSll, behind(&[&[0; 14], &[8, 0]])),
        (LinkType::LinuxSll2, behind(&[&[8, 0], &[0; 18]])),
        (LinkType::Null, behind(&[&[2, 0, 0, 0]])),
        (LinkType::Null, behind(&[&[0, 0, 0, 2]])),
    ];
    for (link, bytes) in cases {
        let mut wire = Wire::new();
        wire.packet(link, &bytes, false);
        assert_eq!(wire.count(Counter::Messages), 1, "{link:?} {bytes:?}");
        // Cut anywhere, it is counted, and nothing panics.
        for length in 0..bytes.len() {
            let mut wire = Wire::new();
            wire.packet(link, &bytes[..length], true);
            assert_eq!(wire.count(Counter::Messages), 0, "{link:?} {length}");
            let counters = wire.counters();
            let dropped = Counter::ALL
                .iter()
                .filter(|counter| **counter != Counter::Packets);
            let dropped: u64 = dropped.map(|counter| counters.of(*counter)).sum();
            assert_eq!(dropped, 1, "{link:?} {length}");
        }
    }
}

#[test]
fn a_message_without_its_body_is_read_and_one_without_its_header_is_not() {
    let body = "Content-Type: application/sdp\r\n";
    let text = request("INVITE", &[VIA], "c", 1, body)
        .replace("Length: 0\r\n\r\n", "Length: 1000\r\n\r\n");
    let whole = udp(
        ALICE,
        SERVER,
        [text.as_bytes(), &[b'x'; 1_000]].concat().as_slice(),
    );
    let header = whole.len() - 1_000;
    for (length, messages, cut_off) in [
        (header + 1, 1, 0),
        (header, 1, 0),
        (header - 1, 0, 1),
        (header - 60, 0, 1),
    ] {
        let mut wire = Wire::new();
        wire.packet(LinkType::RawIp, &whole[..length], true);
        assert_eq!(wire.count(Counter::Messages), messages, "{length}");
        assert_eq!(wire.count(Counter::CutOff), cut_off, "{length}");
    }
}

#[test]
fn what_is_not_sip_is_counted_by_what_it_is() {
    let arp = [&[255; 12][..], &[8, 6], &[0; 28]].concat();
    let mut icmp = Vec::new();
    let builder = PacketBuilder::ipv4([192, 0, 2, 7], [192, 0, 2, 1], 64).icmpv4_echo_request(1, 2);
    builder.write(&mut icmp, b"ping").unwrap();
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    let rtp = [&[0x80, 0][..], &[9; 170]].concat();
    let mut wire = Wire::new();
    wire.packet(LinkType::Ethernet, &arp, false);
    wire.packet(LinkType::Other(105), &[0; 100], false);
    wire.ip(&icmp).ip(&[]).ip(&[0x45]).ip(&[0x75; 60]);
    wire.udp(ALICE, SERVER, "")
        .udp(ALICE, SERVER, "\r\n\r\n")
        .udp(ALICE, SERVER, "\0")
        .udp(ALICE, SERVER, stun);
    wire.udp(ALICE, "192.0.2.1:4000", rtp)
        .udp(ALICE, SERVER, "GET / HTTP/1.1\r\n\r\n");
    wire.udp(
        ALICE,
        SERVER,
        "OPTIONS sip:a SIP/2.0\r\nCSeq: 1 OPTIONS\r\n\r\n",
    );
    wire.udp(ALICE, SERVER, options().replace("1 OPTIONS", "1 INVITE"));
    for (counter, count) in [
        (Counter::NotIp, 2),
        (Counter::OtherProtocols, 1),
        (Counter::BrokenPackets, 3),
        (Counter::KeepAlives, 4),
        (Counter::NotSip, 2),
        (Counter::BrokenMessages, 2),
        (Counter::Messages, 0),
    ] {
        assert_eq!(wire.count(counter), count, "{counter:?}");
    }
}

#[test]
fn messages_in_one_datagram_are_split() {
    let messages: String = (1..=3)
        .map(|number| request("OPTIONS", &[VIA], "o", number, ""))
        .collect();
    let mut wire = Wire::new();
    wire.udp(ALICE, SERVER, &messages);
    assert_eq!(
        (wire.count(Counter::Packets), wire.count(Counter::Messages)),
        (1, 3)
    );
    // Trailing bytes that are not a message do not belong to the message before.
    wire.udp(ALICE, SERVER, options() + "\r\nand more");
    assert_eq!(wire.count(Counter::Messages), 4);
    assert_eq!(wire.count(Counter::NotSip), 0);
}

/// An IPv4 packet cut into fragments of this size, in order.
fn fragments_of(packet: &[u8], size: usize, identification: u16) -> Vec<Vec<u8>> {
    let (header, payload) = Ipv4Header::from_slice(packet).unwrap();
    let parts: Vec<&[u8]> = payload.chunks(size).collect();
    let cut = parts.iter().enumerate().map(|(number, part)| {
        let mut header = header.clone();
        header.identification = identification;
        header.dont_fragment = false;
        header.fragment_offset = IpFragOffset::try_new((number * size / 8) as u16).unwrap();
        header.more_fragments = number + 1 < parts.len();
        header.set_payload_len(part.len()).unwrap();
        [&header.to_bytes()[..], part].concat()
    });
    cut.collect()
}

#[test]
fn fragments_are_put_together_in_whatever_order_they_come() {
    let packet = udp(ALICE, SERVER, options().as_bytes());
    let parts = fragments_of(&packet, 64, 7);
    assert!(parts.len() > 3);
    let mut backwards = parts.clone();
    backwards.reverse();
    let mut twice = parts.clone();
    twice.insert(2, parts[1].clone());
    for parts in [parts, backwards, twice] {
        let mut wire = Wire::new();
        for part in &parts {
            assert_eq!(wire.count(Counter::Messages), 0);
            wire.ip(part);
        }
        assert_eq!(wire.count(Counter::Messages), 1);
        assert_eq!(wire.count(Counter::Fragments), parts.len() as u64);
    }
}

#[test]
fn fragments_of_ipv6_are_put_together() {
    let packet = udp(
        "[2001:db8::7]:5062",
        "[2001:db8::1]:5060",
        options().as_bytes(),
    );
    let (header, payload) = Ipv6Header::from_slice(&packet).unwrap();
    let mut wire = Wire::with(&["2001:db8::1"], BOUNDS);
    let parts: Vec<&[u8]> = payload.chunks(128).collect();
    for (number, part) in parts.iter().enumerate().rev() {
        let offset = IpFragOffset::try_new((number * 16) as u16).unwrap();
        let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, offset, number + 1 < parts.len(), 77);
        let mut header = header.clone();
        header.next_header = IpNumber::IPV6_FRAGMENTATION_HEADER;
        header.set_payload_length(part.len() + 8).unwrap();
        wire.ip(&[&header.to_bytes()[..], &fragment.to_bytes(), part].concat());
    }
    assert_eq!(wire.count(Counter::Messages), 1);
}

#[test]
fn fragments_wait_neither_for_ever_nor_in_any_number() {
    let packet = udp(ALICE, SERVER, options().as_bytes());
    let mut wire = Wire::new();
    for identification in 0..100 {
        wire.ip(&fragments_of(&packet, 64, identification)[0]);
    }
    let most = BOUNDS.fragmented as u64;
    assert_eq!(wire.count(Counter::FragmentsGivenUp), 100 - most);
    wire.wait(31_000_000).ip(&fragments_of(&packet, 64, 200)[0]);
    assert_eq!(wire.count(Counter::FragmentsGivenUp), 100);
    // A fragment that ends the packet where another one has more.
    let mut end = fragments_of(&packet, 64, 300);
    end[2][6] &= !0x20;
    let mut wire = Wire::with(
        &[SERVER],
        Bounds {
            fragmented: 1,
            ..BOUNDS
        },
    );
    wire.ip(&end[2]).ip(&end[3]);
    assert_eq!(wire.count(Counter::FragmentsRefused), 1);
}
