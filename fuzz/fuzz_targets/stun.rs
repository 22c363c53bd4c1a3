//! Parses a datagram as a Binding request. The response is complete STUN, and at most 2.5 times as long as the request.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_transport::stun::{BindingRequest, is_stun};

fuzz_target!(|datagram: &[u8]| {
    let Some(request) = BindingRequest::parse(datagram) else {
        return;
    };
    assert!(is_stun(datagram));
    for source in ["192.0.2.1:5060", "[2001:db8::1]:5060"] {
        let mut response = Vec::new();
        request.write_response(&mut response, source.parse().expect("an address"));
        assert!(is_stun(&response));
        assert!(
            BindingRequest::parse(&response).is_none(),
            "an answer must not be answered"
        );
        let length = usize::from(u16::from_be_bytes([response[2], response[3]]));
        assert_eq!(length + 20, response.len());
        assert!(response.len() * 2 <= datagram.len() * 5);
    }
});
