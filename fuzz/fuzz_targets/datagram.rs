//! Parses, checks, answers and patches a datagram. The output must be a valid message.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::{
    HeaderName, KeyHasher, Message, Patch, ResponseWriter, home_hash, write_ack, write_cancel,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    read(&message);
    answer(&message);
    forward(&message, bytes);
});

/// Calls every accessor.
fn read(message: &Message<'_>) {
    for header in message.headers() {
        assert!(header.name == HeaderName::Invalid || !header.name_bytes.is_empty());
        for value in message.values(header.name) {
            assert!(!value.starts_with(b" ") && !value.ends_with(b" "));
        }
        let _ = message.lists_token(header.name, b"token");
    }
    let _ = (
        message.method(),
        message.request_uri(),
        message.status(),
        message.reason(),
        message.body(),
    );
    let _ = (
        message.cseq(),
        message.max_forwards(),
        message.expires(),
        message.call_id().map(home_hash),
    );
    for address in [message.from(), message.to()].into_iter().flatten() {
        let _ = (address.uri(), address.tag(), address.q(), address.expires());
    }
    if let Some(via) = message.top_via() {
        let _ = (via.branch(), via.received(), via.rport());
    }
    let hasher = KeyHasher::new((1, 2));
    assert_eq!(
        hasher.server_transaction(message),
        hasher.server_transaction(&message.clone())
    );
    let _ = hasher.cancelled_transaction(message);
}

/// Writes a refusal, and the requests that belong to it.
fn answer(message: &Message<'_>) {
    let mut out = Vec::new();
    let source = "[2001:db8::1]:5060".parse().expect("an address");
    ResponseWriter::begin(&mut out, message, source, 400, "Bad Request", Some(b"tag")).finish();
    let response = Message::parse(&out).expect("the answer is a message");
    assert!(
        response
            .headers()
            .all(|header| header.name != HeaderName::Other)
    );
    assert_eq!(
        response.headers().last().expect("a header field").name,
        HeaderName::ContentLength
    );
    let mut ack = Vec::new();
    write_ack(&mut ack, message, &response);
    let mut cancel = Vec::new();
    write_cancel(&mut cancel, message, b"");
}

/// An unedited message stays the same. An edited one stays valid if it was valid.
fn forward(message: &Message<'_>, bytes: &[u8]) {
    let mut unedited = Vec::new();
    Patch::new(message).write(&mut unedited);
    assert!(
        bytes
            .trim_ascii_start()
            .starts_with(unedited.trim_ascii_start())
    );

    let mut patch = Patch::new(message);
    patch
        .request_uri(b"sip:new@example.org")
        .top_via_source("192.0.2.1:5060".parse().expect("an address"))
        .prepend(HeaderName::Via, b"SIP/2.0/UDP me;branch=z9hG4bK1")
        .prepend(HeaderName::RecordRoute, b"<sip:me;lr>")
        .remove_first_values(HeaderName::Route, 1)
        .remove_last_value(HeaderName::Contact)
        .max_forwards(7)
        .replace(HeaderName::Expires, b"60")
        .remove(HeaderName::UserAgent)
        .append(HeaderName::Path, b"<sip:me>")
        .body(b"body");
    let mut out = Vec::new();
    patch.write(&mut out);
    if message.validate().is_ok() {
        let forwarded = Message::parse(&out).expect("a patched message is a message");
        assert_eq!(forwarded.validate(), Ok(()));
        assert_eq!(forwarded.top_via().expect("our Via").sent_by, b"me");
        assert_eq!(forwarded.body(), b"body");
        assert_eq!(forwarded.expires(), Some(Some(60)));
        assert!(forwarded.header(HeaderName::UserAgent).is_none());
    }
}
