//! The opening handshake of either side, split at any positions. The result is that of the unsplit handshake.
//!
//! Input: a byte that selects the side, the number of cuts, two bytes for each cut, the stream.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_transport::websocket::{ClientHandshake, Handshake, Opening, OpeningError, Origins, Upgrade};

const MAX_HEADER: usize = 2048;

fuzz_target!(|bytes: &[u8]| {
    let [side, count, rest @ ..] = bytes else {
        return;
    };
    let Some((cuts, stream)) = rest.split_at_checked(usize::from(count % 16) * 2) else {
        return;
    };
    let mut cuts: Vec<usize> = cuts
        .chunks(2)
        .map(|cut| usize::from(u16::from_le_bytes([cut[0], cut[1]])) % (stream.len() + 1))
        .collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    if side & 1 == 0 {
        let whole = server(stream, &[stream.len()]);
        assert_eq!(server(stream, &cuts), whole);
        if let (Upgrade::Accepted { consumed }, _) = whole {
            assert!(consumed <= stream.len() && consumed <= MAX_HEADER);
        }
    } else {
        assert_eq!(client(stream, &cuts), client(stream, &[stream.len()]));
    }
});

fn server(stream: &[u8], cuts: &[usize]) -> (Upgrade, Vec<u8>) {
    let mut handshake = Handshake::new(MAX_HEADER);
    let origins = Origins {
        listed: vec!["https://h".to_owned()],
        ..Origins::default()
    };
    let mut response = Vec::new();
    for cut in cuts {
        match handshake.next(&stream[..*cut], &origins, false, &mut response) {
            Upgrade::Incomplete => assert!(response.is_empty()),
            end => {
                assert!(response.starts_with(b"HTTP/1.1 "));
                return (end, response);
            }
        }
    }
    (Upgrade::Incomplete, response)
}

fn client(stream: &[u8], cuts: &[usize]) -> Result<Opening, OpeningError> {
    let mut handshake = ClientHandshake::new(*b"the sample nonce", MAX_HEADER);
    for cut in cuts {
        match handshake.next(&stream[..*cut])? {
            Opening::Incomplete => {}
            accepted => return Ok(accepted),
        }
    }
    Ok(Opening::Incomplete)
}
