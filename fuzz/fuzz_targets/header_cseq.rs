//! `CSeq`.
#![no_main]
use libfuzzer_sys::fuzz_target;
use sip_message::CSeq;

fuzz_target!(|bytes: &[u8]| {
    if let Some(cseq) = CSeq::parse(bytes) {
        let written = [
            cseq.number.to_string().as_bytes(),
            b" ",
            cseq.method.as_bytes(),
        ]
        .concat();
        assert_eq!(CSeq::parse(&written), Some(cseq));
    }
});
