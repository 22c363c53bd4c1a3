//! Input: a datagram. A glance finds the same as the parser of complete messages.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::{Glance, HeaderName, Message, ParseError};

fuzz_target!(|bytes: &[u8]| {
    let (message, glance) = match (Message::parse(bytes), Glance::parse(bytes)) {
        (Ok(message), Ok(glance)) => (message, glance),
        (Err(ParseError::TooManyHeaders), _) => return,
        (message, glance) => return assert_eq!(message.err(), glance.err()),
    };
    assert_eq!(glance.method.is_some(), message.is_request());
    assert_eq!(glance.status, message.status());
    assert_eq!(glance.method.unwrap_or(message.method()), message.method());
    assert_eq!(glance.call_id, message.call_id());
    assert_eq!(glance.cseq, message.header(HeaderName::CSeq));
    assert_eq!(glance.to, message.header(HeaderName::To));
    let mut vias = message.values(HeaderName::Via);
    assert_eq!((glance.top_via, glance.second_via), (vias.next(), vias.next()));
    let has = |name| message.header(name).is_some();
    let credentials = has(HeaderName::Authorization) || has(HeaderName::ProxyAuthorization);
    assert_eq!(glance.has_credentials, credentials);
    assert!(glance.length <= bytes.len() && glance.length > 0);
    let body = message.body();
    let end = body.as_ptr().addr() + body.len() - bytes.as_ptr().addr();
    assert_eq!(glance.length, end);
});
