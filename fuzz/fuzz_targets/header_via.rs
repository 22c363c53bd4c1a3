//! `Via`.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Via;

fuzz_target!(|bytes: &[u8]| {
    if let Some(via) = Via::parse(bytes) {
        assert!(!via.transport.is_empty() && !via.sent_by.is_empty());
        let _ = (via.branch(), via.received(), via.rport());
        assert_eq!(
            Via::parse(via.bytes).expect("the same").sent_by,
            via.sent_by
        );
    }
});
