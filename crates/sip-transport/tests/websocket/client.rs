//! The client's side of the opening handshake.
use crate::{ACCEPT, KEY};
use proptest::prelude::*;
use sip_transport::websocket::{
    BadTarget, ClientHandshake, Handshake, Opening, OpeningError, Origins, Upgrade,
};

const NONCE: [u8; 16] = *b"the sample nonce";

fn response() -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\nSec-WebSocket-Protocol: sip\r\n\r\n"
    )
}

fn open(chunks: &[&[u8]]) -> Result<Opening, OpeningError> {
    let mut handshake = ClientHandshake::new(NONCE, 1000);
    let mut buffered = Vec::new();
    for chunk in chunks {
        buffered.extend_from_slice(chunk);
        match handshake.next(&buffered)? {
            Opening::Incomplete => {}
            accepted @ Opening::Accepted { .. } => return Ok(accepted),
        }
    }
    Ok(Opening::Incomplete)
}

#[test]
fn a_request_says_all_that_a_server_wants_to_know() {
    let mut request = Vec::new();
    let written =
        ClientHandshake::new(NONCE, 1000).write_request(&mut request, "[::1]:8080", "/sip");
    assert_eq!(written, Ok(()));
    let text = String::from_utf8(request.clone()).expect("text");
    assert!(
        text.starts_with("GET /sip HTTP/1.1\r\nHost: [::1]:8080\r\n"),
        "{text}"
    );
    assert!(
        text.contains(&format!("\r\nSec-WebSocket-Key: {KEY}\r\n")),
        "{text}"
    );
    let mut answer = Vec::new();
    let upgrade = Handshake::new(1000).next(&request, &Origins::default(), false, &mut answer);
    let consumed = request.len();
    assert_eq!(upgrade, Upgrade::Accepted { consumed });
    let consumed = answer.len();
    assert_eq!(open(&[&answer]), Ok(Opening::Accepted { consumed }));
}

#[test]
fn a_target_that_would_be_more_than_one_is_not_written() {
    for (host, resource) in [
        ("", "/"),
        ("a b", "/"),
        ("a\r\nX: y", "/"),
        ("a", ""),
        ("a", "sip"),
        ("a", "/ HTTP/1.1\r\nX: y"),
        ("ä.example", "/"),
    ] {
        let mut request = Vec::new();
        let written = ClientHandshake::new(NONCE, 1000).write_request(&mut request, host, resource);
        assert_eq!(written, Err(BadTarget), "{host} {resource}");
        assert!(request.is_empty());
    }
}

#[test]
fn frames_may_follow_a_response_at_once() {
    let response = response();
    let consumed = response.len();
    let followed = format!("{response}\u{1}");
    assert_eq!(
        open(&[followed.as_bytes()]),
        Ok(Opening::Accepted { consumed })
    );
}

#[test]
fn a_response_that_does_not_agree_is_an_error() {
    for (piece, by, error) in [
        (
            "101 Switching Protocols",
            "200 OK",
            OpeningError::Status(200),
        ),
        (
            "101 Switching Protocols",
            "426 Upgrade Required",
            OpeningError::Status(426),
        ),
        ("WebSocket", "h2c", OpeningError::NoUpgrade),
        (
            "Connection: upgrade",
            "Connection: close",
            OpeningError::NoUpgrade,
        ),
        (ACCEPT, "s3pPLMBiTxaQ9kYGzzhZRbK+xOO=", OpeningError::Accept),
        ("Accept:", "Refuse:", OpeningError::Accept),
        ("Protocol: sip", "Protocol: xmpp", OpeningError::SubProtocol),
        (
            "Sec-WebSocket-Protocol: sip",
            "X: y",
            OpeningError::SubProtocol,
        ),
        (
            "upgrade: Web",
            "Sec-WebSocket-Extensions: permessage-deflate\r\nupgrade: Web",
            OpeningError::Extension,
        ),
        ("HTTP/1.1", "SIP/2.0", OpeningError::NotHttp),
        ("Connection:", "Connec tion:", OpeningError::NotHttp),
    ] {
        let response = response();
        assert!(response.contains(piece), "{piece}");
        assert_eq!(
            open(&[response.replacen(piece, by, 1).as_bytes()]),
            Err(error),
            "{by}"
        );
    }
    assert_eq!(open(&[&[b'H'; 1001]]), Err(OpeningError::TooLong));
    let fields = format!("HTTP/1.1 101 x\r\n{}", "a: b\r\n".repeat(65));
    assert_eq!(
        open(&[fields.as_bytes(), b"\r\n"]),
        Err(OpeningError::TooLong)
    );
    assert_eq!(
        open(&[b"\x15\x03\x01\x00\x02\x02\n"]),
        Err(OpeningError::NotHttp)
    );
}

proptest! {
    #[test]
    fn however_a_response_is_cut_it_is_accepted(cuts in proptest::collection::vec(0..200_usize, 0..8)) {
        let response = response();
        let bytes = response.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(open(&chunks), Ok(Opening::Accepted { consumed: bytes.len() }));
    }

    #[test]
    fn any_bytes_come_to_some_end(bytes in proptest::collection::vec(any::<u8>(), 0..1200)) {
        let _ = open(&[&bytes]);
    }
}
