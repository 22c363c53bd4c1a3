//! The decoder finds messages in frames however they are split, and closes on protocol violations.
use crate::MESSAGE;
use proptest::prelude::*;
use sip_transport::websocket::{
    CloseCode, Decoder, Event, FrameError, FrameHeader, Opcode, Role, write_close, write_frame,
    write_message,
};
use std::borrow::Cow;

const MAX_MESSAGE: usize = 70_000;
const MASK: Option<[u8; 4]> = Some([0x12, 0x34, 0x56, 0x78]);

/// An owned copy of the decoder's events.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
}

/// Feeds chunks as if they arrived from `sender`. Returns the events, and the error that ends the stream.
fn decode(sender: Role, chunks: &[&[u8]]) -> (Vec<Found>, Option<FrameError>) {
    let mut decoder = Decoder::new(sender, MAX_MESSAGE);
    let (mut buffered, mut found) = (Vec::new(), Vec::new());
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        loop {
            let decoded = match decoder.next(&mut buffered) {
                Ok(decoded) => decoded,
                Err(error) => return (found, Some(error)),
            };
            let consumed = decoded.consumed;
            let event = match decoded.event {
                Event::Incomplete => None,
                Event::Message(message) => Some(Found::Message(message.into_owned())),
                Event::Ping(payload) => Some(Found::Ping(payload.to_vec())),
                Event::Pong => Some(Found::Pong),
                Event::Close(code) => Some(Found::Close(code.map(CloseCode::number))),
            };
            buffered.drain(..consumed);
            assert!(buffered.len() <= MAX_MESSAGE + 14 + chunk.len());
            match event {
                Some(event) => found.push(event),
                None => break,
            }
        }
    }
    (found, None)
}

/// A client frame with the given first byte.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, Opcode::Text, payload, MASK);
    frame[0] = first;
    frame
}

fn message(text: &str) -> Found {
    Found::Message(text.as_bytes().to_vec())
}

#[test]
fn the_examples_of_the_rfc_are_read_and_written() {
    // RFC 6455 section 5.7.
    let unmasked = b"\x81\x05Hello";
    let masked = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_eq!(
        decode(Role::Server, &[unmasked]),
        (vec![message("Hello")], None)
    );
    assert_eq!(
        decode(Role::Client, &[masked]),
        (vec![message("Hello")], None)
    );
    let fragments = b"\x01\x03Hel\x80\x02lo";
    assert_eq!(
        decode(Role::Server, &[fragments]),
        (vec![message("Hello")], None)
    );
    let ping = b"\x89\x05Hello";
    assert_eq!(
        decode(Role::Server, &[ping]),
        (vec![Found::Ping(b"Hello".to_vec())], None)
    );
    let mut written = Vec::new();
    write_message(&mut written, b"Hello", None);
    assert_eq!(written, unmasked);
    written.clear();
    write_message(&mut written, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d]));
    assert_eq!(written, masked);
    assert_eq!(
        FrameHeader::new(Opcode::Binary, 256, None).as_bytes(),
        b"\x82\x7e\x01\x00"
    );
    assert_eq!(
        FrameHeader::new(Opcode::Binary, 65536, None).as_bytes(),
        b"\x82\x7f\0\0\0\0\0\x01\0\0"
    );
}

#[test]
fn a_message_is_text_unless_its_body_is_none() {
    let mut written = Vec::new();
    write_message(&mut written, MESSAGE.as_bytes(), None);
    assert_eq!(written[0], 0x81);
    written.clear();
    write_message(
        &mut written,
        b"MESSAGE sip:h SIP/2.0\r\nl: 1\r\n\r\n\xff",
        None,
    );
    assert_eq!(written[0], 0x82);
}

#[test]
fn text_that_is_not_utf8_ends_the_connection_with_1007() {
    // RFC 6455 section 8.1: fragments may split a character.
    let divided = [frame(0x01, b"caf\xc3"), frame(0x80, b"\xa9")].concat();
    assert_eq!(
        decode(Role::Client, &[&divided]),
        (vec![message("caf\u{e9}")], None)
    );
    for bad in [
        frame(0x81, b"caf\xc3"),
        [frame(0x01, b"caf\xc3"), frame(0x80, b"e")].concat(),
        [frame(0x82, b"\xff"), frame(0x81, b"\xff")].concat(),
    ] {
        let (_, error) = decode(Role::Client, &[&bad]);
        assert_eq!(error, Some(FrameError::Text));
        let code = error.map(FrameError::close_code);
        assert_eq!(code, Some(CloseCode::INVALID_PAYLOAD));
    }
    let binary = decode(Role::Client, &[&frame(0x82, b"\xff")]);
    assert_eq!(binary, (vec![Found::Message(b"\xff".to_vec())], None));
}

#[test]
fn control_frames_may_stand_between_fragments() {
    let stream = [
        frame(0x02, b"OPTIONS "),
        frame(0x89, b"ping"),
        frame(0x00, b""),
        frame(0x8a, b""),
        frame(0x00, b"sip:h "),
        frame(0x80, b"SIP/2.0"),
        frame(0x81, b"next"),
    ]
    .concat();
    let expected = vec![
        Found::Ping(b"ping".to_vec()),
        Found::Pong,
        message("OPTIONS sip:h SIP/2.0"),
        message("next"),
    ];
    assert_eq!(decode(Role::Client, &[&stream]), (expected, None));
}

#[test]
fn only_a_message_in_fragments_is_copied() {
    let mut decoder = Decoder::new(Role::Client, MAX_MESSAGE);
    let mut whole = frame(0x81, b"abc");
    let decoded = decoder.next(&mut whole).expect("a frame");
    assert!(matches!(
        decoded.event,
        Event::Message(Cow::Borrowed(b"abc"))
    ));
    let mut fragments = [frame(0x01, b"ab"), frame(0x80, b"c")].concat();
    let decoded = decoder.next(&mut fragments).expect("a frame");
    assert!(matches!(&decoded.event, Event::Message(Cow::Owned(message)) if message == b"abc"));
}

#[test]
fn a_frame_that_is_too_big_is_refused_by_its_header() {
    let header = FrameHeader::new(Opcode::Text, 100_000_000, MASK);
    let length_is_there = &header.as_bytes()[..10];
    let (found, error) = decode(Role::Client, &[length_is_there]);
    assert_eq!((found, error), (vec![], Some(FrameError::TooBig)));
    assert_eq!(FrameError::TooBig.close_code(), CloseCode::TOO_BIG);
    assert_eq!(CloseCode::TOO_BIG.number(), 1009);

    let greatest = FrameHeader::new(Opcode::Binary, MAX_MESSAGE, MASK);
    assert_eq!(decode(Role::Client, &[greatest.as_bytes()]), (vec![], None));
    let one_more = FrameHeader::new(Opcode::Binary, MAX_MESSAGE + 1, MASK);
    assert_eq!(
        decode(Role::Client, &[one_more.as_bytes()]).1,
        Some(FrameError::TooBig)
    );
}

#[test]
fn fragments_are_bounded_together() {
    let half = vec![b'x'; MAX_MESSAGE / 2];
    let (first, second) = (frame(0x01, &half), frame(0x00, &half));
    let (found, error) = decode(Role::Client, &[&first, &second, &frame(0x80, b"")]);
    assert_eq!((found.len(), error), (1, None));
    let last = FrameHeader::new(Opcode::Text, 1, MASK).as_bytes().to_vec();
    let last = [&[0x80], &last[1..]].concat();
    let (found, error) = decode(Role::Client, &[&first, &second, &last]);
    assert_eq!((found, error), (vec![], Some(FrameError::TooBig)));
}

#[test]
fn what_breaks_the_protocol_ends_it() {
    let unmasked = b"\x81\x01a".to_vec();
    let long_ping = [&b"\x89\xfe\x00\x7e"[..], &[0; 4]].concat();
    for (stream, error) in [
        (unmasked, FrameError::Mask),
        (frame(0xc1, b"a"), FrameError::ReservedBits),
        (frame(0x91, b"a"), FrameError::ReservedBits),
        (frame(0x83, b"a"), FrameError::Opcode),
        (frame(0x8b, b"a"), FrameError::Opcode),
        (frame(0x80, b"a"), FrameError::Fragment),
        (
            [frame(0x01, b"a"), frame(0x81, b"b")].concat(),
            FrameError::Fragment,
        ),
        (frame(0x09, b"a"), FrameError::Control),
        (frame(0x08, b""), FrameError::Control),
        (long_ping, FrameError::Control),
        (b"\x81\xfe\x00\x7d".to_vec(), FrameError::Length),
        (b"\x81\xff\0\0\0\0\0\0\xff\xff".to_vec(), FrameError::Length),
        (b"\x81\xff\x80\0\0\0\0\x01\0\0".to_vec(), FrameError::Length),
        (frame(0x88, b"\x03"), FrameError::Close),
        (frame(0x88, b"\x03\xed"), FrameError::Close), // 1005 is never sent.
        (frame(0x88, b"\x03\xe8\xff"), FrameError::Reason),
    ] {
        assert_eq!(
            decode(Role::Client, &[&stream]),
            (vec![], Some(error)),
            "{stream:x?}"
        );
    }
    assert_eq!(
        decode(Role::Server, &[&frame(0x81, b"a")]).1,
        Some(FrameError::Mask)
    );
    assert_eq!(FrameError::Mask.close_code().number(), 1002);
    assert_eq!(FrameError::Reason.close_code().number(), 1007);
}

#[test]
fn a_close_gives_its_code_to_be_sent_back() {
    let bare = (vec![Found::Close(None)], None);
    assert_eq!(decode(Role::Client, &[&frame(0x88, b"")]), bare);
    let left = frame(0x88, b"\x03\xe9left the page");
    assert_eq!(
        decode(Role::Client, &[&left]),
        (vec![Found::Close(Some(1001))], None)
    );
    for (code, expected) in [
        (None, &b"\x88\x00"[..]),
        (Some(CloseCode::GOING_AWAY), b"\x88\x02\x03\xe9"),
    ] {
        let mut written = Vec::new();
        write_close(&mut written, code, None);
        assert_eq!(written, expected);
    }
}

/// A frame to send: a message in fragments of these lengths, or a control frame.
#[derive(Clone, Debug)]
enum Sent {
    Message(Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong,
}

fn sent() -> impl Strategy<Value = Sent> {
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..=most);
    prop_oneof![
        proptest::collection::vec(bytes(300), 1..4).prop_map(Sent::Message),
        (120..=130_usize).prop_map(|length| Sent::Message(vec![vec![7; length]])),
        (65_530..=65_540_usize).prop_map(|length| Sent::Message(vec![vec![7; length]])),
        bytes(125).prop_map(Sent::Ping),
        Just(Sent::Pong),
    ]
}

fn write(sent: &[Sent], mask: Option<[u8; 4]>) -> (Vec<u8>, Vec<Found>) {
    let (mut stream, mut expected) = (Vec::new(), Vec::new());
    for sent in sent {
        match sent {
            Sent::Message(fragments) => {
                for (i, fragment) in fragments.iter().enumerate() {
                    let opcode = if i == 0 {
                        Opcode::Binary
                    } else {
                        Opcode::Continuation
                    };
                    let start = stream.len();
                    write_frame(&mut stream, opcode, fragment, mask);
                    if i + 1 < fragments.len() {
                        stream[start] &= 0x7f;
                        write_frame(&mut stream, Opcode::Pong, b"between", mask);
                        expected.push(Found::Pong);
                    }
                }
                expected.push(Found::Message(fragments.concat()));
            }
            Sent::Ping(payload) => {
                write_frame(&mut stream, Opcode::Ping, payload, mask);
                expected.push(Found::Ping(payload.clone()));
            }
            Sent::Pong => {
                write_frame(&mut stream, Opcode::Pong, b"", mask);
                expected.push(Found::Pong);
            }
        }
    }
    (stream, expected)
}

fn cut<'a>(stream: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read_however_it_is_cut(
        sent in proptest::collection::vec(sent(), 0..6), mask: Option<[u8; 4]>, cuts: Vec<usize>
    ) {
        let sender = if mask.is_some() { Role::Client } else { Role::Server };
        let (stream, expected) = write(&sent, mask);
        prop_assert_eq!(decode(sender, &cut(&stream, &cuts)), (expected, None));
    }

    #[test]
    fn any_bytes_give_the_same_however_they_are_cut(
        stream in proptest::collection::vec(prop_oneof![Just(0x81), Just(0x01), Just(0x80), Just(0x82), 0..=255_u8], 0..60),
        cuts: Vec<usize>, sender in prop_oneof![Just(Role::Client), Just(Role::Server)]
    ) {
        let whole = decode(sender, &[&stream]);
        prop_assert_eq!(&decode(sender, &cut(&stream, &cuts)), &whole);
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(&decode(sender, &single), &whole);
    }
}
