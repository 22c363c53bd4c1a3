//! A glance finds the same values as the full parser.

use proptest::prelude::*;
use sip_message::{Glance, HeaderName, Message, ParseError};
use std::path::Path;

/// Checks that both find the same values in any bytes.
fn assert_agrees(bytes: &[u8]) {
    let message = match (Message::parse(bytes), Glance::parse(bytes)) {
        (Ok(message), Ok(glance)) => (message, glance),
        (Err(ParseError::TooManyHeaders), _) => return,
        (message, glance) => return assert_eq!(message.err(), glance.err()),
    };
    let (message, glance) = message;
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(glance.method.is_some(), message.is_request(), "{text}");
    assert_eq!(glance.status, message.status(), "{text}");
    if let Some(method) = glance.method {
        assert_eq!(method, message.method(), "{text}");
    }
    assert_eq!(glance.call_id, message.call_id(), "{text}");
    assert_eq!(glance.cseq, message.header(HeaderName::CSeq), "{text}");
    assert_eq!(glance.sequence(), message.cseq(), "{text}");
    assert_eq!(glance.to, message.header(HeaderName::To), "{text}");
    let mut vias = message.values(HeaderName::Via);
    assert_eq!(
        (glance.top_via, glance.second_via),
        (vias.next(), vias.next()),
        "{text}"
    );
    let has = |name| message.header(name).is_some();
    let credentials = has(HeaderName::Authorization) || has(HeaderName::ProxyAuthorization);
    assert_eq!(glance.has_credentials, credentials, "{text}");
    let body = message.body();
    let end = body.as_ptr().addr() + body.len() - bytes.as_ptr().addr();
    assert_eq!(glance.length, end, "{text}");
}

#[test]
fn a_cr_without_lf_ends_no_line() {
    for bytes in [
        &b"SIP/2.0 125\r"[..],
        b"SIP/2.0 125\r\n",
        b"OPTIONS sip:a SIP/2.0\r",
    ] {
        assert_agrees(bytes);
    }
    let alone = Glance::parse(b"SIP/2.0 125\r");
    assert_eq!(alone.err(), Some(ParseError::NotSip));
}

#[test]
fn the_torture_messages_look_the_same_cut_anywhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture");
    let mut count = 0;
    for rfc in std::fs::read_dir(folder).expect("the messages").flatten() {
        for file in std::fs::read_dir(rfc.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let bytes = std::fs::read(file.path()).expect("a message");
            for end in 0..=bytes.len() {
                assert_agrees(&bytes[..end]);
            }
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

proptest! {
    /// Lines of all sorts, in any order.
    #[test]
    fn lines_in_any_order_look_the_same(
        lines in prop::collection::vec(prop::sample::select(vec![
            "Via: SIP/2.0/UDP a;branch=1", "v: SIP/2.0/UDP b , SIP/2.0/TCP c;x=\"a,b\"", "VIA :", "Via", " SIP/2.0/UDP folded", "\tx",
            "Call-ID: a@b", "i: other", "Call-ID", "CSeq: 1 INVITE", "cseq: 7\r\n INVITE", "To: <sip:a>;tag=x", "t:y", "Contact: z",
            "Content-Length: 4", "l: 2", "Content-Length: x", "content-length : 1", "CONTENT-LENGTH: 3",
            "CALL-ID: c", "call-id :d", "AUTHORIZATION:", "pRoXy-authorization: x", "Content-Type: y", "Content-Length: 0", "Authorization: Digest", "Proxy-Authorization : a", "Accept: b",
            "From: c", "", ": nameless", "no field", "p", "Max-Forwards: 70",
        ]), 0..12),
        end in prop::sample::select(vec!["\r\n", "\n"]),
        first in prop::sample::select(vec!["INVITE sip:a SIP/2.0", "SIP/2.0 200 OK", "\r\n\r\nBYE sip:a SIP/2.0", "nonsense", ""]),
    ) {
        let text = [vec![first], lines].concat().join(end) + end;
        assert_agrees(text.as_bytes());
        assert_agrees((text + end + "body").as_bytes());
    }
}
