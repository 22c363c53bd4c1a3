//! Capture files of every kind, whole and broken.

use super::wire::{ALICE, SERVER, request, udp};
use std::io;
use tandem_analyzer::capture::file::{self, End};
use tandem_analyzer::capture::{LinkType, Time};

/// The result of reading a packet.
type Read = (u64, LinkType, Time, Vec<u8>, bool);

fn read(bytes: &[u8]) -> (io::Result<End>, Vec<Read>) {
    let mut packets = Vec::new();
    let end = file::read(bytes, |packet| {
        let moment = packet.moment;
        packets.push((
            moment.frame,
            packet.link,
            moment.time,
            packet.bytes.to_vec(),
            packet.truncated,
        ));
        true
    });
    (end, packets)
}

/// Numbers in either byte order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.0 {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.0 {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }
}

fn pcap(order: Order, magic: u32, link: u32, packets: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
    let u32 = |value| order.u32(value);
    let mut bytes = [
        &u32(magic)[..],
        &order.u16(2),
        &order.u16(4),
        &u32(0),
        &u32(0),
        &u32(65_535),
        &u32(link),
    ]
    .concat();
    for (seconds, fraction, data, original) in packets {
        let length = data.len() as u32;
        bytes.extend([u32(*seconds), u32(*fraction), u32(length), u32(*original)].concat());
        bytes.extend_from_slice(data);
    }
    bytes
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let length = order.u32(padded as u32 + 12);
    let mut bytes = [&order.u32(kind)[..], &length, body].concat();
    bytes.resize(8 + padded, 0);
    bytes.extend(length);
    bytes
}

fn section(order: Order) -> Vec<u8> {
    let body = [
        &order.u32(0x1a2b_3c4d)[..],
        &order.u16(1),
        &order.u16(0),
        &[0xff; 8],
    ]
    .concat();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: Order, link: u16, resolution: u8, offset: i64) -> Vec<u8> {
    let offset = if order.0 {
        offset.to_be_bytes()
    } else {
        offset.to_le_bytes()
    };
    let mut body = [&order.u16(link)[..], &[0, 0], &order.u32(0)].concat();
    body.extend([&order.u16(9)[..], &order.u16(1), &[resolution, 0, 0, 0]].concat());
    body.extend([&order.u16(14)[..], &order.u16(8), &offset, &[0; 4]].concat());
    block(order, 1, &body)
}

fn enhanced(order: Order, interface: u32, ticks: u64, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u32;
    let numbers = [
        interface,
        (ticks >> 32) as u32,
        ticks as u32,
        length,
        length,
    ];
    let numbers = numbers.map(|number| order.u32(number)).concat();
    block(order, 6, &[&numbers[..], data].concat())
}

fn packet() -> Vec<u8> {
    let via = "192.0.2.7:5062;branch=z9hG4bK-a";
    udp(
        ALICE,
        SERVER,
        request("OPTIONS", &[via], "o", 1, "").as_bytes(),
    )
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_with_both_clocks() {
    let data = packet();
    for order in [Order(false), Order(true)] {
        for (magic, unit) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let long = data.len() as u32 + 10;
            let bytes = pcap(
                order,
                magic,
                101,
                &[(7, 123_456, &data, long - 10), (8, 999_999, &data, long)],
            );
            let (end, packets) = read(&bytes);
            assert_eq!(end.unwrap(), End::Whole);
            let first = (
                1,
                LinkType::RawIp,
                Time::new(7, 123_456 * unit),
                data.clone(),
                false,
            );
            let second = (
                2,
                LinkType::RawIp,
                Time::new(8, 999_999 * unit),
                data.clone(),
                true,
            );
            assert_eq!(packets, [first, second]);
        }
    }
}

#[test]
fn pcapng_is_read_with_any_clock_and_several_sections() {
    let data = packet();
    let mut bytes = Vec::new();
    for order in [Order(false), Order(true)] {
        bytes.extend(section(order));
        bytes.extend(interface(order, 1, 9, 0));
        bytes.extend(interface(order, 276, 6, -5));
        bytes.extend(interface(order, 101, 0x80 | 0x0a, 0));
        bytes.extend(enhanced(order, 0, 1_700_000_000_123_456_789, &data));
        // Other blocks are not packets.
        bytes.extend(block(order, 5, &[0; 12]));
        bytes.extend(enhanced(order, 1, 1_700_000_000_123_456, &data));
        bytes.extend(enhanced(order, 2, 1_024 * 3 + 512, &data));
    }
    let (end, packets) = read(&bytes);
    assert_eq!(end.unwrap(), End::Whole);
    let expected = [
        (LinkType::Ethernet, Time(1_700_000_000_123_456_789)),
        (LinkType::LinuxSll2, Time(1_699_999_995_123_456_000)),
        (LinkType::RawIp, Time::new(3, 500_000_000)),
    ];
    for (number, found) in packets.iter().enumerate() {
        let (link, time) = expected[number % 3];
        assert_eq!(found, &(number as u64 + 1, link, time, data.clone(), false));
    }
    assert_eq!(packets.len(), 6);
}

#[test]
fn a_file_that_ends_early_is_read_to_its_end() {
    let data = packet();
    let whole = pcap(
        Order(false),
        0xa1b2_c3d4,
        101,
        &[(7, 1, &data[..], data.len() as u32); 3],
    );
    let each = data.len() + 16;
    for length in 24..whole.len() {
        let (end, packets) = read(&whole[..length]);
        let expected = if (length - 24).is_multiple_of(each) {
            End::Whole
        } else {
            End::CutOff
        };
        assert_eq!(end.unwrap(), expected, "{length}");
        assert_eq!(packets.len(), (length - 24) / each, "{length}");
    }
}

#[test]
fn a_file_is_longer_than_any_buffer() {
    let data = packet();
    let each = (7, 1, &data[..], data.len() as u32);
    let whole = pcap(Order(false), 0xa1b2_c3d4, 101, &vec![each; 20_000]);
    let (end, packets) = read(&whole);
    assert_eq!((end.unwrap(), packets.len()), (End::Whole, 20_000));
    assert!(packets.iter().all(|(_, _, _, bytes, _)| *bytes == data));
    // The same for a packet.
    let long = vec![0; 3 << 20];
    let each = (7, 1, &long[..], long.len() as u32);
    let (end, packets) = read(&pcap(Order(false), 0xa1b2_c3d4, 101, &[each, each]));
    assert_eq!((end.unwrap(), packets.len()), (End::Whole, 2));
}

#[test]
fn what_is_no_capture_file_is_refused_with_a_reason() {
    let refused = |bytes: &[u8], expected: &str| {
        let (end, _) = read(bytes);
        let reason = end.expect_err(expected).to_string();
        assert!(reason.contains(expected), "{reason}");
    };
    refused(b"", "empty");
    refused(
        &[
            0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0,
        ],
        "zcat",
    );
    refused(
        b"INVITE sip:bob@example.org SIP/2.0\r\n\r\n",
        "not a capture file",
    );
    let data = packet();
    let mut huge = pcap(
        Order(false),
        0xa1b2_c3d4,
        101,
        &[(7, 1, &data, 1), (7, 1, &data, 1)],
    );
    let second = 24 + 16 + data.len();
    huge[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    huge.resize(80 << 20, 0);
    refused(&huge, "after packet 1");
    let order = Order(false);
    let unknown = [
        section(order),
        interface(order, 1, 6, 0),
        enhanced(order, 3, 0, &data),
    ]
    .concat();
    refused(&unknown, "interface that is not described");
}
