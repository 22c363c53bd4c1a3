//! A stream of frames that is split at any positions. The messages are those of the unsplit stream, and the buffered data
//! is bounded.
//!
//! Input: a byte that selects the side, the number of cuts, two bytes for each cut, the stream.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_transport::websocket::{CloseCode, Decoder, Event, FrameError, Role};

const MAX_MESSAGE: usize = 300;
const LONGEST_HEADER: usize = 14;

fuzz_target!(|bytes: &[u8]| {
    let [side, count, rest @ ..] = bytes else {
        return;
    };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(count % 16) * 2) else {
        return;
    };
    let sender = if side & 1 == 0 {
        Role::Client
    } else {
        Role::Server
    };
    let mut cuts: Vec<usize> = cuts
        .chunks(2)
        .map(|cut| usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (stream.len() + 1))
        .collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let whole = decode(sender, [stream]);
    assert_eq!(
        decode(sender, cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]])),
        whole
    );
    assert_eq!(decode(sender, stream.chunks(1)), whole);
});

type Found = (Vec<(char, Vec<u8>)>, Option<FrameError>);

fn decode<'a>(sender: Role, chunks: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut decoder = Decoder::new(sender, MAX_MESSAGE);
    let (mut buffered, mut found) = (Vec::new(), Vec::new());
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        loop {
            let decoded = match decoder.next(&mut buffered) {
                Ok(decoded) => decoded,
                Err(error) => return (found, Some(error)),
            };
            let event = match decoded.event {
                Event::Incomplete => None,
                Event::Message(message) => {
                    assert!(message.len() <= MAX_MESSAGE);
                    Some(('M', message.into_owned()))
                }
                Event::Ping(payload) => Some(('P', payload.to_vec())),
                Event::Pong => Some(('p', Vec::new())),
                Event::Close(code) => {
                    let number = code.map_or(0, CloseCode::number);
                    Some(('C', number.to_be_bytes().to_vec()))
                }
            };
            let consumed = decoded.consumed;
            buffered.drain(..consumed);
            let Some(event) = event else {
                assert!(buffered.len() < MAX_MESSAGE + LONGEST_HEADER);
                break;
            };
            found.push(event);
        }
    }
    (found, None)
}
