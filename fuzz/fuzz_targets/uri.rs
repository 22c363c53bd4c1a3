//! URIs, alone and in pairs (separated by a line feed).
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Uri;

fuzz_target!(|bytes: &[u8]| {
    let mut uris = bytes.split(|&octet| octet == b'\n').filter_map(Uri::parse);
    let Some(one) = uris.next() else {
        return;
    };
    assert!(one.equivalent(&one));
    let mut key = Vec::new();
    one.write_address_of_record(&mut key);
    assert!(!key.is_empty() && key.iter().all(|&octet| octet > b' '));
    if let Some(other) = uris.next() {
        assert_eq!(one.equivalent(&other), other.equivalent(&one));
    }
});
