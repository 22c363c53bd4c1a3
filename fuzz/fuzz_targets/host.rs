//! Hosts. An address is never parsed as a name.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Host;

fuzz_target!(|bytes: &[u8]| {
    if let Some(host) = Host::parse(bytes) {
        assert!(host.matches(&host));
        if let (Host::Name(name), Ok(text)) = (host, std::str::from_utf8(bytes)) {
            assert_eq!(name, bytes);
            assert!(text.parse::<std::net::IpAddr>().is_err());
        }
    }
});
