//! STUN keep-alives: the test vectors of RFC 5769, and the responses to all kinds of datagrams.
use proptest::prelude::*;
use sip_transport::stun::{BindingRequest, is_stun};
use std::net::SocketAddr;

const TRANSACTION: &[u8; 12] = b"\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae";
const COOKIE: &[u8; 4] = b"\x21\x12\xa4\x42";

/// RFC 5769 section 2.1: a request with SOFTWARE, PRIORITY, ICE-CONTROLLED, USERNAME, MESSAGE-INTEGRITY and FINGERPRINT.
const SAMPLE_REQUEST: &[u8] = b"\x00\x01\x00\x58\x21\x12\xa4\x42\xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae\
    \x80\x22\x00\x10STUN test client\x00\x24\x00\x04\x6e\x00\x01\xff\x80\x29\x00\x08\x93\x2f\xf9\xb1\x51\x26\x3b\x36\
    \x00\x06\x00\x09\x65\x76\x74\x6a\x3a\x68\x36\x76\x59\x20\x20\x20\x00\x08\x00\x14\x9a\xea\xa7\x0c\xbf\xd8\xcb\x56\
    \x78\x1e\xf2\xb5\xb2\xd3\xf2\x49\xc1\xb5\x71\xa2\x80\x28\x00\x04\xe5\x7a\x3b\xcf";

/// A message with attributes, each (type, value).
fn message(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, value) in attributes {
        body.extend_from_slice(&kind.to_be_bytes());
        body.extend_from_slice(&u16::try_from(value.len()).expect("a length").to_be_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let length = u16::try_from(body.len()).expect("a length");
    [
        &kind.to_be_bytes()[..],
        &length.to_be_bytes(),
        COOKIE,
        TRANSACTION,
        &body,
    ]
    .concat()
}

fn answer(request: &[u8], source: &str) -> Option<Vec<u8>> {
    let source: SocketAddr = source.parse().expect("an address");
    let mut response = b"what is there already".to_vec();
    let before = response.len();
    BindingRequest::parse(request)?.write_response(&mut response, source);
    Some(response.split_off(before))
}

#[test]
fn a_bare_request_is_answered_with_its_source() {
    let request = message(0x0001, &[]);
    // The values of RFC 5769 sections 2.2 and 2.3.
    let v4 = message(0x0101, &[(0x0020, b"\x00\x01\xa1\x47\xe1\x12\xa6\x43")]);
    assert_eq!(answer(&request, "192.0.2.1:32853"), Some(v4.clone()));
    assert_eq!(answer(&request, "[::ffff:192.0.2.1]:32853"), Some(v4));
    let v6 = b"\x00\x02\xa1\x47\x01\x13\xa9\xfa\xa5\xd3\xf1\x79\xbc\x25\xf4\xb5\xbe\xd2\xb9\xd9";
    assert_eq!(
        answer(&request, "[2001:db8:1234:5678:11:2233:4455:6677]:32853"),
        Some(message(0x0101, &[(0x0020, v6)]))
    );
}

#[test]
fn attributes_that_must_be_understood_and_are_not_are_named() {
    let request = message(
        0x0001,
        &[
            (0x0003, &[0; 4]),
            (0x0006, b"user"),
            (0x8022, b"client"),
            (0x7fff, b"x"),
        ],
    );
    let expected = message(
        0x0111,
        &[
            (0x0009, b"\0\0\x04\x14Unknown Attribute"),
            (0x000a, b"\x00\x03\x7f\xff"),
        ],
    );
    assert_eq!(answer(&request, "192.0.2.1:1"), Some(expected));
}

#[test]
fn a_request_whose_fingerprint_is_wrong_is_not_answered() {
    assert!(answer(SAMPLE_REQUEST, "192.0.2.1:1").is_some());
    for place in [0, 1, 20, 40, SAMPLE_REQUEST.len() - 1] {
        let mut broken = SAMPLE_REQUEST.to_vec();
        broken[place] ^= 1;
        assert_eq!(answer(&broken, "192.0.2.1:1"), None, "{place}");
    }
    let mut not_last = [SAMPLE_REQUEST, b"\x80\x22\x00\x00"].concat();
    not_last[3] += 4;
    assert_eq!(answer(&not_last, "192.0.2.1:1"), None);
}

#[test]
fn a_fingerprint_is_answered_with_one() {
    let mut request = message(0x0001, &[(0x8022, b"client"), (0x8028, &[0; 4])]);
    let covered = request.len() - 8;
    let value = fingerprint(&request[..covered]);
    request[covered + 4..].copy_from_slice(&value);
    // The PRIORITY attribute of the RFC's sample is unknown to this server, so the response is an error.
    for (request, kind) in [(&request[..], 0x0101), (SAMPLE_REQUEST, 0x0111_u16)] {
        let response = answer(request, "192.0.2.1:32853").expect("an answer");
        assert_eq!(response[..2], kind.to_be_bytes());
        let (covered, attribute) = response.split_at(response.len() - 8);
        assert_eq!(attribute[..4], *b"\x80\x28\x00\x04");
        assert_eq!(attribute[4..], fingerprint(covered));
    }
}

fn fingerprint(covered: &[u8]) -> [u8; 4] {
    (crc32(covered) ^ 0x5354_554e).to_be_bytes()
}

/// The checksum of ISO 3309, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, octet| {
        (0..8).fold(crc ^ u32::from(*octet), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 * (crc & 1))
        })
    })
}

#[test]
fn what_is_no_request_is_not_answered() {
    let request = message(0x0001, &[]);
    for (bytes, why) in [
        (message(0x0011, &[]), "an indication"),
        (message(0x0101, &[]), "a response"),
        (message(0x0111, &[]), "an error"),
        (message(0x0003, &[]), "Allocate of TURN"),
        (request[..19].to_vec(), "cut"),
        ([&request[..], &[0; 4]].concat(), "longer than it says"),
        (
            message(0x0001, &[(0x8022, b"abcd")])[..22].to_vec(),
            "an attribute cut",
        ),
        (
            [&b"\0\x01\0\x02"[..], COOKIE, TRANSACTION, b"ab"].concat(),
            "no whole words",
        ),
        (
            [&b"\0\x01\0\x04"[..], COOKIE, TRANSACTION, b"\x80\x22\0\x09"].concat(),
            "an attribute that lies",
        ),
        (
            [&b"\0\x01\0\0"[..], b"\x21\x12\xa4\x43", TRANSACTION].concat(),
            "another cookie",
        ),
        ([&b"\x80\x01\0\0"[..], COOKIE, TRANSACTION].concat(), "RTP"),
    ] {
        assert_eq!(answer(&bytes, "192.0.2.1:1"), None, "{why}");
    }
}

#[test]
fn sip_is_not_taken_for_stun() {
    assert!(is_stun(&message(0x0001, &[])));
    assert!(is_stun(&message(0x0111, &[])));
    for text in [
        "OPTIONS sip:h SIP/2.0\r\n",
        "SIP/2.0 200 OK\r\nl: 0\r\n",
        "\r\n\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        assert!(!is_stun(text.as_bytes()), "{text}");
    }
}

proptest! {
    #[test]
    fn no_answer_is_a_lever(
        attributes in proptest::collection::vec((any::<u16>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..20)
    ) {
        let attributes: Vec<(u16, &[u8])> = attributes.iter().map(|(kind, value)| (*kind, &value[..])).collect();
        let request = message(0x0001, &attributes);
        if let Some(response) = answer(&request, "[2001:db8::1]:5060") {
            prop_assert!(response.len() * 2 <= request.len() * 5, "{} for {}", response.len(), request.len());
            prop_assert!(is_stun(&response));
            let length = usize::from(u16::from_be_bytes([response[2], response[3]]));
            prop_assert_eq!(length + 20, response.len());
        }
    }

    #[test]
    fn any_bytes_are_answered_or_not(head in 0..4_u8, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let stun = [&[0, head, 0, bytes.len() as u8], &COOKIE[..], TRANSACTION, &bytes].concat();
        let _ = answer(&stun, "192.0.2.1:1");
        let _ = answer(&bytes, "192.0.2.1:1");
    }
}
