//! Connections: segments out of order, repeated, overlapping and missing.

use super::wire::{BOUNDS, SERVER, Wire, request, response};
use etherparse::PacketBuilder;
use proptest::prelude::*;
use tandem_analyzer::{Bounds, Counter, Step};

const CLIENT: [u8; 4] = [192, 0, 2, 7];
const OWN: [u8; 4] = [192, 0, 2, 1];
const VIA: &str = "192.0.2.7:40000;branch=z9hG4bK-a";

/// A connection with both sides captured.
struct Tcp {
    client_port: u16,
    server_port: u16,
}

const USUAL: Tcp = Tcp {
    client_port: 40_000,
    server_port: 5060,
};

impl Tcp {
    /// From the client.
    fn up(&self, sequence: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
        segment(
            (CLIENT, self.client_port),
            (OWN, self.server_port),
            sequence,
            None,
            flags,
            payload,
        )
    }

    /// From the server, with an acknowledgment.
    fn down(&self, sequence: u32, acknowledgment: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
        let (from, to) = ((OWN, self.server_port), (CLIENT, self.client_port));
        segment(from, to, sequence, Some(acknowledgment), flags, payload)
    }
}

fn segment(
    from: ([u8; 4], u16),
    to: ([u8; 4], u16),
    sequence: u32,
    acknowledgment: Option<u32>,
    flags: &str,
    payload: &[u8],
) -> Vec<u8> {
    let mut builder = PacketBuilder::ipv4(from.0, to.0, 64).tcp(from.1, to.1, sequence, 65_000);
    if let Some(acknowledgment) = acknowledgment {
        builder = builder.ack(acknowledgment);
    }
    for flag in flags.chars() {
        builder = match flag {
            'S' => builder.syn(),
            'F' => builder.fin(),
            _ => builder.rst(),
        };
    }
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).expect("it fits");
    bytes
}

fn options(number: u32) -> Vec<u8> {
    request("OPTIONS", &[VIA], "o", number, "").into_bytes()
}

fn stream(count: u32) -> Vec<u8> {
    (1..=count).flat_map(options).collect()
}

#[test]
fn several_messages_in_a_segment_and_one_in_several_are_found() {
    let bytes = stream(3);
    for cut in 1..bytes.len() {
        let mut wire = Wire::new();
        wire.ip(&USUAL.up(99, "S", b""))
            .ip(&USUAL.up(100, "", &bytes[..cut]));
        wire.ip(&USUAL.up(100 + cut as u32, "", &bytes[cut..]));
        assert_eq!(wire.count(Counter::Messages), 3, "{cut}");
    }
}

#[test]
fn a_message_comes_when_its_last_octet_does() {
    let bytes = options(1);
    let (begin, end) = bytes.split_at(100);
    let answer = response(200, "OPTIONS", &[VIA], "o", 1, "s").into_bytes();
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(100, "", begin))
        .wait(1_000)
        .ip(&USUAL.up(200, "", end));
    wire.wait(30).ip(&USUAL.down(7, 300, "", &answer));
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 30));
    // The same if the end arrives before the beginning.
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(99, "S", b""))
        .ip(&USUAL.up(200, "", end))
        .wait(1_000)
        .ip(&USUAL.up(100, "", begin));
    wire.wait(40).ip(&USUAL.down(7, 300, "", &answer));
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 40));
    assert_eq!(wire.count(Counter::TcpOutOfOrder), 1);
}

#[test]
fn what_comes_again_counts_once() {
    let bytes = stream(2);
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(100, "", &bytes))
        .ip(&USUAL.up(100, "", &bytes));
    wire.ip(&USUAL.up(120, "", &bytes[20..40]));
    assert_eq!(wire.count(Counter::Messages), 2);
    assert_eq!(wire.count(Counter::TcpRetransmitted), 2);
}

#[test]
fn sequence_numbers_go_round() {
    let bytes = stream(4);
    let first = u32::MAX - 300;
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(first.wrapping_sub(1), "S", b""));
    let mut parts: Vec<(u32, &[u8])> = Vec::new();
    for (number, part) in bytes.chunks(50).enumerate() {
        parts.push((first.wrapping_add(number as u32 * 50), part));
    }
    for pair in parts.chunks(2) {
        for (sequence, part) in pair.iter().rev() {
            wire.ip(&USUAL.up(*sequence, "", part));
        }
    }
    assert_eq!(wire.count(Counter::Messages), 4);
}

#[test]
fn a_capture_that_begins_later_begins_with_the_next_message() {
    let bytes = options(1);
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(100, "", &bytes[30..]));
    assert_eq!(
        (
            wire.count(Counter::Messages),
            wire.count(Counter::TcpNotSip)
        ),
        (0, 1)
    );
    wire.ip(&USUAL.up(100 + bytes.len() as u32 - 30, "", &options(2)));
    assert_eq!(wire.count(Counter::Messages), 1);
}

#[test]
fn a_segment_that_was_not_captured_costs_its_messages_only() {
    let message = options(1);
    let length = message.len() as u32;
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(100, "", &message));
    // The second is missing. The third waits for it until the server acknowledges it.
    wire.ip(&USUAL.up(100 + 2 * length, "", &options(3)));
    assert_eq!(wire.count(Counter::Messages), 1);
    wire.wait(500).ip(&USUAL.down(7, 100 + 3 * length, "", b""));
    assert_eq!(wire.count(Counter::Messages), 2);
    assert_eq!(wire.count(Counter::TcpLost), 1);
    // Its time is the capture time.
    let answer = response(200, "OPTIONS", &[VIA], "o", 3, "s");
    wire.wait(20)
        .ip(&USUAL.down(7, 100 + 3 * length, "", answer.as_bytes()));
    assert_eq!(wire.times(Step::Answered, "OPTIONS"), (1, 520));
    // The last one is missing as well: nothing waits.
    wire.ip(&USUAL.down(400, 100 + 4 * length, "", b""))
        .ip(&USUAL.up(100 + 4 * length, "", &options(5)));
    assert_eq!(wire.count(Counter::Messages), 4);
    assert_eq!(wire.analysis.held().2, 0);
}

#[test]
fn the_same_ports_may_serve_again() {
    let mut wire = Wire::new();
    for first in [100, 4_000_000_000] {
        let bytes = options(1);
        wire.ip(&USUAL.up(first - 1, "S", b""))
            .ip(&USUAL.up(first, "F", &bytes));
        wire.ip(&USUAL.down(first, first + bytes.len() as u32 + 1, "SF", b""));
    }
    assert_eq!(wire.count(Counter::Messages), 2);
    assert_eq!(wire.count(Counter::TcpLost), 0);
    // Also without SYN, and after a reset.
    wire.ip(&USUAL.up(77, "", &options(2)))
        .ip(&USUAL.up(77, "R", b""))
        .ip(&USUAL.up(5, "", &options(3)));
    wire.ip(&USUAL.up(3_000_000_000, "", &options(4)));
    assert_eq!(wire.count(Counter::Messages), 5);
}

#[test]
fn ended_connections_are_forgotten() {
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(99, "S", b""))
        .ip(&USUAL.down(49, 100, "S", b""));
    wire.ip(&USUAL.up(100, "F", &options(1)));
    assert_eq!(wire.analysis.held().1, 1);
    wire.ip(&USUAL.down(50, 101 + options(1).len() as u32, "F", b""));
    assert_eq!(wire.analysis.held().1, 0);
}

#[test]
fn what_waits_is_bounded() {
    let bounds = Bounds {
        connection_bytes: 10_000,
        connections: 4,
        ..BOUNDS
    };
    let mut wire = Wire::with(&[SERVER], bounds);
    wire.ip(&USUAL.up(99, "S", b""));
    for number in 0..100_u32 {
        wire.ip(&USUAL.up(1_000 + number * 1_000, "", &[b'x'; 500]));
        assert!(wire.analysis.held().2 <= 10_000);
    }
    assert!(wire.count(Counter::TcpFull) > 0);
    // The same for connections: the most recently used ones stay.
    for port in 1..=20 {
        let other = Tcp {
            client_port: port,
            ..USUAL
        };
        wire.ip(&other.up(99, "S", b""))
            .ip(&other.up(100, "", &options(1)));
        assert!(wire.analysis.held().1 <= 4);
    }
    assert_eq!(wire.count(Counter::TcpForgotten), 17);
    assert_eq!(wire.count(Counter::Messages), 20);
    assert_eq!(wire.analysis.held().2, 0);
}

#[test]
fn what_is_not_sip_is_skipped() {
    let mut wire = Wire::new();
    wire.ip(&USUAL.up(100, "", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    wire.ip(&USUAL.up(126, "", &[0x16, 3, 1, 2, 0]));
    wire.ip(&USUAL.up(131, "", &options(1)));
    let no_length = String::from_utf8(options(2))
        .unwrap()
        .replace("Content-Length: 0\r\n", "");
    let next = 131 + options(1).len() as u32;
    wire.ip(&USUAL.up(next, "", no_length.as_bytes()));
    wire.ip(&USUAL.up(next + no_length.len() as u32, "", &options(3)));
    assert_eq!(wire.count(Counter::Messages), 2);
    assert_eq!(wire.count(Counter::TcpNotSip), 3);
}

#[test]
fn a_connection_that_the_server_opened_is_known_by_its_via() {
    let phone = Tcp {
        client_port: 5062,
        server_port: 33_333,
    };
    let (came, left) = (
        "192.0.2.9:5062;branch=z9hG4bK-a",
        "192.0.2.1:5060;branch=z9hG4bK-s",
    );
    let mut wire = Wire::new();
    wire.udp(
        "192.0.2.9:5062",
        SERVER,
        request("INVITE", &[came], "c", 1, ""),
    );
    let invite = request("INVITE", &[left, came], "c", 1, "");
    wire.wait(10).ip(&phone.down(100, 1, "", invite.as_bytes()));
    let ok = response(200, "INVITE", &[left, came], "c", 1, "b");
    wire.ip(&phone.up(1, "", ok.as_bytes()));
    wire.wait(20).udp(
        SERVER,
        "192.0.2.9:5062",
        response(200, "INVITE", &[came], "c", 1, "b"),
    );
    // The phone's own request over that connection names the phone in Via.
    let bye = request("BYE", &[VIA], "c", 7, "");
    wire.ip(&phone.up(1 + ok.len() as u32, "", bye.as_bytes()));
    let bye = request("BYE", &["192.0.2.1:5060;branch=z9hG4bK-t", VIA], "c", 7, "");
    wire.wait(30).udp(SERVER, "192.0.2.9:5062", bye);
    assert_eq!(wire.times(Step::Forwarded, "INVITE"), (1, 10));
    assert_eq!(wire.times(Step::SuccessRelayed, "INVITE"), (1, 20));
    assert_eq!(wire.times(Step::Forwarded, "BYE"), (1, 30));
    assert_eq!(wire.count(Counter::ForeignMessages), 0);
}

proptest! {
    /// A stream, however it is cut, reordered within limits and repeated: each message is found once.
    #[test]
    fn any_order_gives_the_same_messages(
        count in 1_u32..6,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        keys in prop::collection::vec(any::<u16>(), 40),
        first in any::<u32>(),
    ) {
        let bytes = stream(count);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|cut| (cut[0], cut[1]));
        // Each segment once, and some twice with more bytes before and after.
        let wider = cuts.windows(2).step_by(2).map(|cut| (cut[0].saturating_sub(9), (cut[1] + 9).min(bytes.len())));
        let mut segments: Vec<((usize, usize), u16)> = parts.chain(wider).zip(keys.iter().copied().cycle()).collect();
        segments.sort_by_key(|(_, key)| *key);
        let mut wire = Wire::new();
        wire.ip(&USUAL.up(first.wrapping_sub(1), "S", b""));
        for ((from, to), _) in segments {
            wire.ip(&USUAL.up(first.wrapping_add(from as u32), "", &bytes[from..to]));
        }
        prop_assert_eq!(wire.count(Counter::Messages), u64::from(count));
        prop_assert_eq!(wire.analysis.held().2, 0);
    }
}
