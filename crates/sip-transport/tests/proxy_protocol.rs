//! PROXY protocol headers, byte by byte as in the specification.
use proptest::prelude::*;
use sip_transport::proxy_protocol::{Addresses, MAX_HEADER, ProxyError, ProxyHeader, read};

const SIGNATURE: &[u8] = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a";
const V4: &[u8] = b"\xc0\x00\x02\x0a\xc6\x33\x64\x01\x13\xc4\x13\xc5";
const V6: &[u8] = b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x0a\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x13\xc4\x13\xc5";

fn header(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("a length");
    [SIGNATURE, &[command, family], &length.to_be_bytes(), block].concat()
}

fn addresses(source: &str, destination: &str) -> Addresses {
    Addresses {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
    }
}

fn v4() -> Addresses {
    addresses("192.0.2.10:5060", "198.51.100.1:5061")
}

#[test]
fn addresses_are_read() {
    let v6 = Some(addresses("[2001:db8::a]:5060", "[2001:db8::1]:5061"));
    let tlv = b"\x03\x00\x04\xfd\x16\xee\x2e"; // A checksum, as a TLV.
    for (bytes, expected) in [
        (header(0x21, 0x11, V4), Some(v4())),
        (header(0x21, 0x12, V4), Some(v4())),
        (header(0x21, 0x21, V6), v6),
        (header(0x21, 0x22, V6), v6),
        (header(0x21, 0x11, &[V4, tlv].concat()), Some(v4())),
        (header(0x21, 0x21, &[V6, tlv].concat()), v6),
        (header(0x21, 0x31, &[b'/'; 216]), None),
        (header(0x21, 0x00, b""), None),
        (header(0x21, 0x00, tlv), None),
        (header(0x20, 0x00, b""), None),
        (header(0x20, 0x11, V4), None),
        (header(0x20, 0x99, b"whatever"), None),
    ] {
        let consumed = bytes.len();
        let followed = [&bytes[..], b"REGISTER"].concat();
        let read = read(&followed);
        assert_eq!(
            read,
            Ok(ProxyHeader::Header {
                consumed,
                addresses: expected
            }),
            "{bytes:x?}"
        );
    }
}

#[test]
fn what_is_no_header_closes_the_connection() {
    let too_long = u16::try_from(MAX_HEADER - 15)
        .expect("a length")
        .to_be_bytes();
    for (bytes, error) in [
        (
            b"REGISTER sip:example.org SIP/2.0\r\n".to_vec(),
            ProxyError::Missing,
        ),
        (b"\r\n\r\n\r\n\r\n".to_vec(), ProxyError::Missing),
        (b"\x16\x03\x01".to_vec(), ProxyError::Missing),
        (
            b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
            ProxyError::Version1,
        ),
        (b"PROXIMITY".to_vec(), ProxyError::Missing),
        (header(0x11, 0x11, V4), ProxyError::Unknown),
        (header(0x31, 0x11, V4), ProxyError::Unknown),
        (header(0x22, 0x11, V4), ProxyError::Unknown),
        (header(0x21, 0x41, V4), ProxyError::Unknown),
        (header(0x21, 0x13, V4), ProxyError::Unknown),
        (header(0x21, 0x10, V4), ProxyError::Unknown),
        (header(0x21, 0x11, &V4[..11]), ProxyError::TooShort),
        (header(0x21, 0x21, V4), ProxyError::TooShort),
        (header(0x21, 0x31, V4), ProxyError::TooShort),
        (
            [SIGNATURE, b"\x21\x11", &too_long].concat(),
            ProxyError::TooLong,
        ),
        (
            [SIGNATURE, b"\x20\x00\xff\xff"].concat(),
            ProxyError::TooLong,
        ),
    ] {
        assert_eq!(read(&bytes), Err(error), "{bytes:x?}");
    }
    assert!(ProxyError::Version1.to_string().contains("version 2"));
}

#[test]
fn a_header_may_be_as_long_as_its_bound() {
    let block = [V4, &vec![0; MAX_HEADER - 16 - V4.len()]].concat();
    let bytes = header(0x21, 0x11, &block);
    let expected = ProxyHeader::Header {
        consumed: MAX_HEADER,
        addresses: Some(v4()),
    };
    assert_eq!(read(&bytes), Ok(expected));
}

/// Bytes of headers and of noise.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let block = proptest::collection::vec(any::<u8>(), 0..260);
    prop_oneof![
        4 => (0x20..=0x22_u8, prop_oneof![Just(0x11), Just(0x21), Just(0x31), Just(0), any::<u8>()], block)
            .prop_map(|(command, family, block)| header(command, family, &block)),
        1 => "(PROXY |\r\n\r\n\0\r\nQUIT\n)?.{0,20}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn until_it_is_whole_a_header_is_incomplete_or_refused_for_good(stream in stream()) {
        let whole = read(&stream);
        let mut ended = None;
        for length in 0..=stream.len() {
            let now = read(&stream[..length]);
            match ended {
                None if now == Ok(ProxyHeader::Incomplete) => {}
                None => ended = Some(now),
                Some(end) => prop_assert_eq!(now, end),
            }
        }
        prop_assert_eq!(ended.unwrap_or(Ok(ProxyHeader::Incomplete)), whole);
        if let Ok(ProxyHeader::Header { consumed, .. }) = whole {
            prop_assert!(consumed <= stream.len() && consumed <= MAX_HEADER);
        }
    }
}
