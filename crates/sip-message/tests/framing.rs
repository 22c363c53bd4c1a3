//! The framer finds messages in a stream however it is split, and closes streams that cannot be framed.
use proptest::prelude::*;
use sip_message::framing::{Frame, FrameError, Framer};

const MAX_HEADER: usize = 300;
const MAX_BODY: usize = 100;

/// Feeds chunks as they would arrive. Returns the frames as (kind, bytes), and the error that ended the stream.
fn frames(chunks: &[&[u8]]) -> (Vec<(char, Vec<u8>)>, Option<FrameError>) {
    let mut framer = Framer::new(MAX_HEADER, MAX_BODY);
    let (mut buffered, mut found) = (Vec::new(), Vec::new());
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        loop {
            let (kind, length) = match framer.next(&buffered) {
                Ok(Frame::Incomplete) => break,
                Ok(Frame::Ping(length)) => ('P', length),
                Ok(Frame::Crlf(length)) => ('C', length),
                Ok(Frame::Message(length)) => ('M', length),
                Err(error) => return (found, Some(error)),
            };
            assert!(length > 0 && length <= buffered.len());
            found.push((kind, buffered.drain(..length).collect()));
        }
    }
    (found, None)
}

fn kinds(bytes: &[u8]) -> (String, Option<FrameError>) {
    let (frames, error) = frames(&[bytes]);
    (frames.iter().map(|(kind, _)| kind).collect(), error)
}

/// Merges CRLFs. Two CRLFs that arrive apart are a CRLF and a ping; together they are one ping. This is the only difference.
fn joined(mut frames: Vec<(char, Vec<u8>)>) -> Vec<(char, Vec<u8>)> {
    let mut index = 1;
    while index < frames.len() {
        if frames[index] == ('P', b"\r\n".to_vec()) && frames[index - 1].0 == 'C' {
            frames.remove(index - 1);
            frames[index - 1].1 = b"\r\n\r\n".to_vec();
        } else {
            index += 1;
        }
    }
    frames
}

const MESSAGE: &str = "OPTIONS sip:h SIP/2.0\r\nl: 4\r\n\r\n\r\n\r\n";

#[test]
fn messages_follow_each_other() {
    let stream = MESSAGE.repeat(3);
    let (frames, error) = frames(&[stream.as_bytes()]);
    assert_eq!(frames, vec![('M', MESSAGE.as_bytes().to_vec()); 3]);
    assert_eq!(error, None);
}

#[test]
fn keep_alives_and_line_ends_are_distinguished() {
    for (bytes, expected) in [
        ("\r\n\r\n", "P"),
        ("\r\n", "C"),
        ("\r\n\r\n\r\n", "PC"),
        ("\n", "C"),
        ("\r", ""),
        ("\r\nOPTIONS sip:h SIP/2.0\r\nl:0\r\n\r\n\r\n\r\n", "CMP"),
    ] {
        assert_eq!(
            kinds(bytes.as_bytes()),
            (expected.to_owned(), None),
            "{bytes:?}"
        );
    }
}

#[test]
fn a_ping_that_arrives_in_two_parts_is_answered_once() {
    let (frames, _) = frames(&[b"\r\n", b"\r\n", b"\r\n"]);
    assert_eq!(
        frames.iter().map(|(kind, _)| *kind).collect::<String>(),
        "CPC"
    );
}

#[test]
fn folded_and_compact_content_lengths_count() {
    for header in [
        "l: 2",
        "Content-Length:\r\n 2",
        "CONTENT-LENGTH  : 2",
        "l: 2\r\nl: 2",
        "X-Y: z\r\n \r\nl:2",
    ] {
        let bytes = format!("OPTIONS sip:h SIP/2.0\r\n{header}\r\n\r\nab");
        assert_eq!(
            kinds(bytes.as_bytes()),
            ("M".to_owned(), None),
            "{header:?}"
        );
    }
    assert_eq!(kinds(b"SIP/2.0 200 OK\nl: 1\n\nx"), ("M".to_owned(), None));
}

#[test]
fn what_can_not_be_framed_closes_the_stream() {
    for (bytes, error) in [
        (
            "OPTIONS sip:h SIP/2.0\r\nTo: x\r\n\r\n",
            FrameError::MissingContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\n\r\n",
            FrameError::MissingContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl: -1\r\n\r\n",
            FrameError::BadContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl:\r\n\r\n",
            FrameError::BadContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl: 1\r\nContent-Length: 2\r\n\r\n",
            FrameError::BadContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl: 99999999999999999999\r\n\r\n",
            FrameError::BadContentLength,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl: 101\r\n\r\n",
            FrameError::BodyTooLong,
        ),
        (
            "OPTIONS sip:h SIP/2.0\r\nl: 4294967295\r\n\r\n",
            FrameError::BodyTooLong,
        ),
        ("GET / HTTP/1.1\r\n", FrameError::NotSip),
        ("\x16\x03\x01", FrameError::NotSip),
        ("\rx", FrameError::NotSip),
        (" OPTIONS", FrameError::NotSip),
    ] {
        assert_eq!(
            kinds(bytes.as_bytes()),
            (String::new(), Some(error)),
            "{bytes:?}"
        );
    }
}

#[test]
fn the_header_is_bounded_however_it_arrives() {
    let header = |length: usize| {
        let rest = "OPTIONS sip:h SIP/2.0\r\nl: 0\r\nX-Y: \r\n\r\n".len();
        format!(
            "OPTIONS sip:h SIP/2.0\r\nl: 0\r\nX-Y: {}\r\n\r\n",
            "x".repeat(length - rest)
        )
    };
    assert_eq!(kinds(header(MAX_HEADER).as_bytes()), ("M".to_owned(), None));
    let long = header(MAX_HEADER + 1);
    assert_eq!(kinds(long.as_bytes()).1, Some(FrameError::HeaderTooLong));
    let bytes: Vec<&[u8]> = long.as_bytes().chunks(1).collect();
    assert_eq!(frames(&bytes).1, Some(FrameError::HeaderTooLong));
    let endless = "x".repeat(MAX_HEADER + 1);
    assert_eq!(kinds(endless.as_bytes()).1, Some(FrameError::HeaderTooLong));
}

/// Anything between one long line and thousands of tiny chunks: the framer looks at each byte a limited number of times. With
/// quadratic work this test takes minutes.
#[test]
fn work_is_linear_in_the_length_of_the_stream() {
    let header = format!(
        "OPTIONS sip:h SIP/2.0\r\nl: 0\r\n{}\r\n",
        "X-Y: z\r\n".repeat(400_000)
    );
    let mut framer = Framer::new(header.len(), 0);
    let mut last = Frame::Incomplete;
    for end in 1..=header.len() {
        last = framer.next(&header.as_bytes()[..end]).unwrap();
        assert!(last == Frame::Incomplete || end == header.len());
    }
    assert_eq!(last, Frame::Message(header.len()));
}

/// Pieces of messages, keep-alives and noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => (0_usize..20, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(extra, body)| {
            let header = format!("OPTIONS sip:h SIP/2.0\r\nX-Y: {}\r\nContent-Length: {}\r\n\r\n", "y".repeat(extra), body.len());
            [header.as_bytes(), &body].concat()
        }),
        1 => Just(b"SIP/2.0 200 OK\nl:\n 2\n\n\r\n".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'l'), Just(b':'), any::<u8>()], 0..6),
    ]
}

proptest! {
    #[test]
    fn the_frames_do_not_depend_on_how_the_stream_is_cut(
        pieces in proptest::collection::vec(piece(), 0..8),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let stream = pieces.concat();
        let (whole, error) = frames(&[&stream]);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]]).collect();
        let (cut, cut_error) = frames(&chunks);
        prop_assert_eq!(joined(cut), joined(whole.clone()));
        prop_assert_eq!(cut_error, error);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        let (single, single_error) = frames(&bytes);
        prop_assert_eq!(joined(single), joined(whole));
        prop_assert_eq!(single_error, error);
    }
}
