//! Any input: no panic, no endless loop, and every response is a message.
use proptest::prelude::*;
use sip_message::{
    Credentials, HeaderName, KeyHasher, Message, NameAddr, Patch, ResponseWriter, Uri, write_ack,
    write_cancel,
};

/// Does everything with a message that the server may do before it knows whether the message is sound.
fn use_everything(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else {
        return;
    };
    let source = "192.0.2.1:5060".parse().unwrap();
    let valid = message.validate().is_ok();
    let lines = message.headers().count();
    for header in message.headers() {
        let values: Vec<_> = message.values(header.name).collect();
        assert!(
            header.name == HeaderName::Other || values.len() <= header.value.len().max(bytes.len())
        );
        let _ = (
            NameAddr::parse(header.value),
            Credentials::parse(header.value),
            Uri::parse(header.value),
        );
    }
    let _ = KeyHasher::new((1, 2)).server_transaction(&message);

    let mut out = Vec::new();
    ResponseWriter::begin(&mut out, &message, source, 400, "Bad Request", Some(b"tag")).finish();
    let response = Message::parse(&out).unwrap();
    assert!(
        response
            .headers()
            .all(|header| header.name != HeaderName::Other)
    );
    assert_eq!(response.header(HeaderName::ContentLength), Some(&b"0"[..]));
    let mut request = Vec::new();
    write_ack(&mut request, &message, &response);
    write_cancel(&mut request, &message, b"");

    let mut unedited = Vec::new();
    Patch::new(&message).write(&mut unedited);
    assert!(
        bytes
            .windows(unedited.len())
            .any(|window| window == unedited)
    );

    let mut patch = Patch::new(&message);
    patch
        .request_uri(b"sip:new@example.org")
        .top_via_source(source)
        .prepend(HeaderName::Via, b"SIP/2.0/UDP me;branch=z9hG4bK1")
        .prepend(HeaderName::RecordRoute, b"<sip:me;lr>")
        .remove_first_values(HeaderName::Route, 1)
        .remove_last_value(HeaderName::Route)
        .max_forwards(7)
        .append(HeaderName::Path, b"<sip:me>")
        .body(b"body");
    let mut forwarded = Vec::new();
    patch.write(&mut forwarded);
    if valid {
        let forwarded = Message::parse(&forwarded).unwrap();
        assert_eq!(forwarded.validate(), Ok(()));
        assert_eq!(forwarded.top_via().unwrap().sent_by, b"me");
        assert_eq!(
            (forwarded.max_forwards(), forwarded.body()),
            (Some(Some(7)), &b"body"[..])
        );
        assert!(forwarded.headers().count() + 2 >= lines);
    }
}

fn torture() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture");
    let mut messages = Vec::new();
    for rfc in ["rfc4475", "rfc5118"] {
        for file in std::fs::read_dir(format!("{folder}/{rfc}")).unwrap() {
            messages.push(std::fs::read(file.unwrap().path()).unwrap());
        }
    }
    assert_eq!(messages.len(), 61);
    messages
}

/// Replaces, inserts, removes or repeats some bytes.
#[derive(Clone, Debug)]
struct Mutation {
    at: proptest::sample::Index,
    remove: usize,
    insert: Vec<u8>,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let special = proptest::sample::select(b"\r\n\t :;,<>\"\\@%[]=?*\0z09".to_vec());
    let octets = prop_oneof![3 => proptest::collection::vec(special, 0..4), 1 => proptest::collection::vec(any::<u8>(), 0..9)];
    (any::<proptest::sample::Index>(), 0_usize..12, octets)
        .prop_map(|(at, remove, insert)| Mutation { at, remove, insert })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn mutated_messages_do_no_harm(
        message in proptest::sample::select(torture()),
        mutations in proptest::collection::vec(mutation(), 1..6),
    ) {
        let mut bytes = message;
        for Mutation { at, remove, insert } in mutations {
            let at = at.index(bytes.len() + 1);
            let end = (at + remove).min(bytes.len());
            bytes.splice(at..end, insert);
        }
        use_everything(&bytes);
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        use_everything(&bytes);
        use_everything(&[b"INVITE sip:a SIP/2.0\r\n", &bytes[..]].concat());
        use_everything(&[b"SIP/2.0 200 OK\r\nVia: ", &bytes[..]].concat());
        let _ = (Uri::parse(&bytes), NameAddr::parse(&bytes), sip_message::Via::parse(&bytes));
    }
}

#[test]
fn every_truncated_torture_message_does_no_harm() {
    for message in torture() {
        for end in 0..message.len().min(1500) {
            use_everything(&message[..end]);
        }
    }
}
