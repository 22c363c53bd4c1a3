//! Parses the beginning of a stream as a PROXY protocol header. A prefix is incomplete until the result is known. Then
//! the result does not change any more.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_transport::proxy_protocol::{MAX_HEADER, ProxyHeader, read};

fuzz_target!(|stream: &[u8]| {
    let end = read(stream);
    if let Ok(ProxyHeader::Header { consumed, .. }) = end {
        assert!(consumed <= stream.len() && consumed <= MAX_HEADER);
        assert_eq!(read(&stream[..consumed]), end);
        assert_eq!(read(&stream[..consumed - 1]), Ok(ProxyHeader::Incomplete));
    }
    let ended = (0..=stream.len())
        .map(|length| read(&stream[..length]))
        .find(|now| *now != Ok(ProxyHeader::Incomplete));
    assert_eq!(ended.unwrap_or(Ok(ProxyHeader::Incomplete)), end);
});
