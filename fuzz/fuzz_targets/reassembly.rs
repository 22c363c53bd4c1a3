//! A stream in segments in any order, with some of them repeated. The messages are those of the stream in order.
//!
//! Input: the number of segments, three bytes for each (its cut, and its place in the order), the stream. A segment with
//! an odd place is repeated. The analysis gets the segments as IP packets.
#![no_main]
use libfuzzer_sys::fuzz_target;
use tandem_analyzer::capture::{LinkType, Moment, Packet, Time};
use tandem_analyzer::{Analysis, Bounds, Counter, Exports, Servers};

const BOUNDS: Bounds = Bounds {
    messages: 64,
    lifetime: 32_000_000_000,
    connections: 4,
    connection_bytes: 1 << 20,
    fragmented: 4,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(count % 16) * 3) else {
        return;
    };
    let mut places: Vec<(usize, u8)> = cuts
        .chunks(3)
        .map(|cut| (usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (stream.len() + 1), cut[2]))
        .collect();
    places.push((stream.len(), 0));
    places.sort_unstable();
    let mut from = 0;
    let mut segments = Vec::new();
    for (to, place) in places {
        segments.push((place, from, to));
        if place % 2 == 1 {
            segments.push((place.wrapping_mul(77), from, to));
        }
        from = to;
    }
    let in_order = counted(segments.iter().map(|(_, from, to)| (*from, &stream[*from..*to])));
    // In one piece, a stream that does not begin with SIP is skipped completely. In several pieces, a message may begin
    // where a piece begins.
    let whole = counted([(0, stream)].into_iter());
    segments.sort_unstable();
    let mixed = counted(segments.iter().map(|(_, from, to)| (*from, &stream[*from..*to])));
    // Splitting never finds fewer messages. If nothing was skipped, it finds the same.
    if whole.1 == 0 {
        assert_eq!(in_order, whole);
        assert_eq!(mixed, whole);
    }
});

/// The number of messages, and how often something was skipped.
fn counted<'s>(segments: impl Iterator<Item = (usize, &'s [u8])>) -> (u64, u64) {
    let servers = Servers::new(vec!["192.0.2.1:5060".parse().unwrap()]);
    let exports = Exports::default();
    let mut analysis = Analysis::new(servers, Vec::new(), vec![1], BOUNDS, (1, 2), exports);
    let mut frame = 0;
    let mut packet = |bytes: &[u8]| {
        frame += 1;
        let time = Time(frame as i64);
        analysis.packet(&Packet {
            moment: Moment { frame, time },
            link: LinkType::RawIp,
            bytes,
            truncated: false,
        });
    };
    const FIRST: u32 = u32::MAX - 100;
    packet(&segment(FIRST.wrapping_sub(1), true, b""));
    for (at, part) in segments {
        packet(&segment(FIRST.wrapping_add(at as u32), false, part));
    }
    let counters = analysis.counters();
    let messages = counters.of(Counter::Messages) + counters.of(Counter::BrokenMessages);
    (messages, counters.of(Counter::TcpNotSip))
}

/// An IPv4 packet from the client to the server.
fn segment(sequence: u32, syn: bool, payload: &[u8]) -> Vec<u8> {
    let length = (40 + payload.len()) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 7, 192, 0, 2, 1]);
    bytes.extend(40_000_u16.to_be_bytes());
    bytes.extend(5_060_u16.to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    bytes.extend([0, 0, 0, 0, 0x50, if syn { 2 } else { 0 }, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    bytes
}
