//! Any message: nothing but the header fields of session timers changes, and what leaves keeps the rules of section 8.

use crate::{TIMERS, header};
use proptest::prelude::*;
use sip_dialog::{Agreed, Rejection};
use sip_message::{HeaderName, Message, Patch, SessionInterval};

/// Lines of the header, among them many that matter.
fn line() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("Session-Expires"),
        Just("x"),
        Just("Min-SE"),
        Just("Supported"),
        Just("k"),
        Just("Require"),
        Just("Subject"),
        Just("X-Other"),
    ];
    let value = prop_oneof![
        (0..10_000_u32).prop_map(|seconds| seconds.to_string()),
        (0..5_000_u32, "( ;|;)(refresher=(uac|uas|x)|y)")
            .prop_map(|(seconds, params)| format!("{seconds}{params}")),
        Just("timer".to_owned()),
        Just("100rel, timer".to_owned()),
        "[ -~]{0,20}",
    ];
    (name, value).prop_map(|(name, value)| format!("{name}: {value}"))
}

fn patched(message: &Message<'_>, edit: impl FnOnce(&mut Patch<'_, '_>)) -> String {
    let mut patch = Patch::new(message);
    edit(&mut patch);
    let mut written = Vec::new();
    patch.write(&mut written);
    String::from_utf8(written).expect("text")
}

/// The lines of a message that do not belong to session timers.
fn others(text: &str) -> Vec<&str> {
    let is_ours = |line: &&str| {
        ["Session-Expires:", "x:", "Min-SE:"]
            .iter()
            .any(|name| line.starts_with(name))
    };
    text.split("\r\n").filter(|line| !is_ours(line)).collect()
}

fn seconds(message: &Message<'_>, name: HeaderName) -> Option<u32> {
    SessionInterval::parse(message.header(name)?).map(|interval| interval.seconds)
}

proptest! {
    #[test]
    fn a_request_keeps_every_other_byte_and_the_rules(
        lines in prop::collection::vec(line(), 0..5),
        method in prop_oneof![Just("INVITE"), Just("UPDATE")],
        body in "[a-z\r\n]{0,20}",
    ) {
        let header = header(&lines);
        let text = format!("{method} sip:b SIP/2.0\r\nCSeq: 7 {method}\r\n{header}\r\n{body}");
        let received = Message::parse(text.as_bytes()).expect("a message");
        let supports = received.lists_token(HeaderName::Supported, b"timer");
        let stated = seconds(&received, HeaderName::SessionExpires);
        let requested = match TIMERS.requested(&received) {
            Ok(Some(requested)) => requested,
            Ok(None) => {
                prop_assert!(method == "UPDATE" && received.header(HeaderName::SessionExpires).is_none());
                return Ok(());
            }
            Err(Rejection::TooSmall { min_se }) => {
                prop_assert!(supports && stated.is_some_and(|stated| stated < min_se));
                return Ok(());
            }
            Err(Rejection::Malformed(_)) => return Ok(()),
        };
        let written = patched(&received, |patch| requested.patch(patch));
        prop_assert_eq!(others(&written), others(&text));
        prop_assert_eq!(&patched(&received, |patch| requested.patch(patch)), &written);
        let sent = Message::parse(written.as_bytes()).expect("a message");
        let interval = seconds(&sent, HeaderName::SessionExpires).expect("the copy has one");
        let min_se = seconds(&sent, HeaderName::MinSe).unwrap_or(90).max(90);
        prop_assert!(interval >= min_se);
        prop_assert!(interval >= 120);
        if let Some(stated) = stated {
            prop_assert!(interval <= stated || interval == min_se);
        }
        if supports {
            prop_assert_eq!(received.header(HeaderName::MinSe), sent.header(HeaderName::MinSe));
        } else {
            let before = seconds(&received, HeaderName::MinSe);
            prop_assert!(before.is_none_or(|before| before <= min_se));
        }
        // Another proxy with the same settings finds nothing to change.
        let again = TIMERS.requested(&sent).expect("acceptable").expect("it has an interval");
        prop_assert_eq!(&patched(&sent, |patch| again.patch(patch)), &written);
    }

    #[test]
    fn a_response_only_gets_lines_at_the_end_of_its_header(
        lines in prop::collection::vec(line(), 0..5),
        interval in prop::option::of(0..10_000_u32),
        body in "[a-z\r\n]{0,20}",
    ) {
        let param = interval.map_or(String::new(), |interval| format!(";se={interval}"));
        let header = header(&lines);
        let start = format!("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP us;branch=z9{param}\r\nCSeq: 7 INVITE\r\n{header}");
        let text = format!("{start}\r\n{body}");
        let received = Message::parse(text.as_bytes()).expect("a message");
        let written = patched(&received, |patch| {
            if let Some(agreed) = Agreed::of(&received) {
                agreed.patch(patch, &received);
            }
        });
        let added = written.strip_prefix(&start).and_then(|rest| rest.strip_suffix(&format!("\r\n{body}")));
        prop_assert!(added.is_some(), "{}", written);
        let is_silent = received.header(HeaderName::SessionExpires).is_none();
        prop_assert_eq!(added.is_some_and(str::is_empty), !(is_silent && interval.is_some()));
    }
}
