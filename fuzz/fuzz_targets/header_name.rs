//! Names of header fields.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::HeaderName;

fuzz_target!(|bytes: &[u8]| {
    let name = HeaderName::from_bytes(bytes);
    assert_eq!(name, HeaderName::from_bytes(&bytes.to_ascii_uppercase()));
    if !matches!(name, HeaderName::Other | HeaderName::Invalid) {
        assert!(bytes.len() == 1 || name.as_str().as_bytes().eq_ignore_ascii_case(bytes));
    }
});
