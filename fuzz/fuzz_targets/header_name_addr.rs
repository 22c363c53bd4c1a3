//! `From`, `To`, `Contact`, `Route` and similar header fields.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::NameAddr;

fuzz_target!(|bytes: &[u8]| {
    if let Some(address) = NameAddr::parse(bytes) {
        let _ = (address.uri(), address.tag(), address.expires());
        assert!(address.q().flatten().is_none_or(|q| q <= 1000));
        assert_eq!(
            NameAddr::parse(address.bytes).expect("the same").uri_bytes,
            address.uri_bytes
        );
    }
});
