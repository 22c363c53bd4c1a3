//! `WWW-Authenticate` and `Proxy-Authenticate`.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Challenge;

fuzz_target!(|bytes: &[u8]| {
    if let Some(challenge) = Challenge::parse(bytes) {
        assert!(
            !challenge
                .realm
                .windows(2)
                .any(|pair| pair[0] != b'\\' && pair[1] == b'"')
        );
    }
});
