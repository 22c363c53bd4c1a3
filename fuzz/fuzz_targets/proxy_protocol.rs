//! The beginning of a stream taken for a PROXY protocol header: what is incomplete stays so until it ends, and then for good.
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
