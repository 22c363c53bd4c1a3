//! A stream that is split at any positions. The frames are those of the unsplit stream.
//!
//! Input: the number of cuts, two bytes for each cut, the stream.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::framing::{Frame, FrameError, Framer};

type Found = (Vec<(char, Vec<u8>)>, Option<FrameError>);

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(count % 16) * 2) else {
        return;
    };
    let mut cuts: Vec<usize> = cuts
        .chunks(2)
        .map(|cut| usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (stream.len() + 1))
        .collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let whole = frames([stream]);
    assert_eq!(
        frames(cuts.windows(2).map(|cut| &stream[cut[0]..cut[1]])),
        whole
    );
    assert_eq!(frames(stream.chunks(1)), whole);
});

fn frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Found {
    let mut framer = Framer::new(4096, 4096);
    let (mut buffered, mut found) = (Vec::new(), Vec::<(char, Vec<u8>)>::new());
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        loop {
            let (kind, length) = match framer.next(&buffered) {
                Ok(Frame::Incomplete) => break,
                Ok(Frame::Crlf(length)) => ('C', length),
                Ok(Frame::Message(length)) => ('M', length),
                // Two CRLFs that arrive separately are a CRLF and a ping. Together they are one ping.
                Ok(Frame::Ping(2)) => {
                    assert_eq!(found.pop(), Some(('C', b"\r\n".to_vec())));
                    buffered.drain(..2);
                    found.push(('P', b"\r\n\r\n".to_vec()));
                    continue;
                }
                Ok(Frame::Ping(length)) => ('P', length),
                Err(error) => return (found, Some(error)),
            };
            assert!(length > 0);
            found.push((kind, buffered.drain(..length).collect()));
        }
    }
    (found, None)
}
