//! `Authorization` and `Proxy-Authorization`.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Credentials;

fuzz_target!(|bytes: &[u8]| {
    if let Some(credentials) = Credentials::parse(bytes) {
        assert!(credentials.nc.is_none() || credentials.nc_bytes.is_some_and(|nc| (1..=8).contains(&nc.len())));
    }
});
