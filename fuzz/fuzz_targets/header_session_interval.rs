//! `Session-Expires` and `Min-SE`.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::SessionInterval;

fuzz_target!(|bytes: &[u8]| {
    if let Some(interval) = SessionInterval::parse(bytes) {
        let params = interval.params.as_bytes();
        let written = [interval.seconds.to_string().as_bytes(), params].concat();
        let again = SessionInterval::parse(&written).expect("what was read can be read again");
        assert_eq!(again.seconds, interval.seconds);
        assert_eq!(again.refresher(), interval.refresher());
    }
});
