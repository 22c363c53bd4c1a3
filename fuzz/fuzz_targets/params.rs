//! Parameter lists.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::Params;

fuzz_target!(|bytes: &[u8]| {
    let params = Params::new(bytes);
    for (name, value) in params.iter() {
        assert!(!name.is_empty());
        let first = params
            .find(name)
            .expect("a parameter that is there is found");
        assert!(
            first == value
                || params
                    .iter()
                    .filter(|(other, _)| other.eq_ignore_ascii_case(name))
                    .count()
                    > 1
        );
    }
});
