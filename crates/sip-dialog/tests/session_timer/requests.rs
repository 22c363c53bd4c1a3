//! What the copy of a request asks for (section 8.1).

use crate::{TIMERS, header};
use sip_dialog::{Rejection, SessionTimerSettings};
use sip_message::{Message, Patch};
use std::time::Duration;

/// A request with these lines at the end of its header.
fn request(method: &str, lines: &[&str]) -> String {
    let lines = header(lines);
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nCSeq: 1 {method}\r\n{lines}\r\nbody"
    )
}

/// The lines at the end of the header of the copy, and the parameter of our Via.
fn forwarded(
    timers: &SessionTimerSettings,
    method: &str,
    lines: &[&str],
) -> Result<(Vec<String>, String), Rejection> {
    let text = request(method, lines);
    let message = Message::parse(text.as_bytes()).expect("a message");
    let Some(requested) = timers.requested(&message)? else {
        return Ok((
            lines.iter().map(|line| (*line).to_owned()).collect(),
            String::new(),
        ));
    };
    let mut patch = Patch::new(&message);
    requested.patch(&mut patch);
    let (mut written, mut param) = (Vec::new(), Vec::new());
    patch.write(&mut written);
    requested.write_via_param(&mut param);
    let written = String::from_utf8(written).expect("text");
    let header = written.split("\r\n\r\n").next().expect("a header");
    let lines = header.split("\r\n").skip(3).map(str::to_owned).collect();
    Ok((lines, String::from_utf8(param).expect("text")))
}

/// Each row: the lines as received, the lines as forwarded, and whether our Via states the interval.
const FORWARDED: &[(&[&str], &[&str], &str)] = &[
    // No party asks.
    (&[], &["Session-Expires: 1800"], ""),
    (
        &["Supported: timer"],
        &["Supported: timer", "Session-Expires: 1800"],
        ";se=1800",
    ),
    (
        &["k: 100rel, TIMER", "Supported: path"],
        &[
            "k: 100rel, TIMER",
            "Supported: path",
            "Session-Expires: 1800",
        ],
        ";se=1800",
    ),
    // Not below the Min-SE of the caller.
    (
        &["Min-SE: 3600"],
        &["Min-SE: 3600", "Session-Expires: 3600"],
        "",
    ),
    // An acceptable interval stays, with its refresher.
    (
        &["Supported: timer", "Session-Expires: 600;refresher=uac"],
        &["Supported: timer", "Session-Expires: 600;refresher=uac"],
        ";se=600",
    ),
    (&["x: 120 ; refresher=uas"], &["x: 120 ; refresher=uas"], ""),
    // A longer interval is reduced, but not below Min-SE, and an unknown refresher stays.
    (
        &["Supported: timer", "x:  315360000;refresher=proxy"],
        &["Supported: timer", "x:  1800;refresher=proxy"],
        ";se=1800",
    ),
    (
        &["Session-Expires: 4294967295"],
        &["Session-Expires: 1800"],
        "",
    ),
    (
        &["Session-Expires: 7200", "Min-SE: 3600;x"],
        &["Session-Expires: 3600", "Min-SE: 3600;x"],
        "",
    ),
    // An interval below the request's own Min-SE is raised.
    (
        &["Supported: timer", "Session-Expires: 600", "Min-SE: 900"],
        &["Supported: timer", "Session-Expires: 900", "Min-SE: 900"],
        ";se=900",
    ),
    // Too small, and the caller could not understand 422: both are raised.
    (
        &["Session-Expires: 1"],
        &["Session-Expires: 120", "Min-SE: 120"],
        "",
    ),
    (
        &["Session-Expires: 0;refresher=uas"],
        &["Session-Expires: 120;refresher=uas", "Min-SE: 120"],
        "",
    ),
    (
        &["Min-SE: 90", "Session-Expires: 119"],
        &["Min-SE: 120", "Session-Expires: 120"],
        "",
    ),
    (
        &["Session-Expires: 100", "Min-SE: 200"],
        &["Session-Expires: 200", "Min-SE: 200"],
        "",
    ),
    // A Min-SE below 90 counts as 90 and stays, because the caller's interval does not need it.
    (
        &["Session-Expires: 300", "Min-SE: 1"],
        &["Session-Expires: 300", "Min-SE: 1"],
        "",
    ),
];

#[test]
fn an_invite_asks_for_what_section_8_1_allows() {
    for (received, expected, param) in FORWARDED {
        let found = forwarded(&TIMERS, "INVITE", received);
        let expected = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(found, Ok((expected, (*param).to_owned())), "{received:?}");
    }
}

#[test]
fn an_update_is_treated_like_an_invite_if_it_has_an_interval() {
    for (received, expected, param) in FORWARDED {
        let has_interval =
            |line: &&str| line.starts_with("Session-Expires") || line.starts_with("x:");
        let (expected, param) = if received.iter().any(has_interval) {
            (*expected, *param)
        } else {
            (*received, "")
        };
        let found = forwarded(&TIMERS, "UPDATE", received);
        let expected = expected.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(found, Ok((expected, param.to_owned())), "{received:?}");
    }
}

#[test]
fn a_caller_that_supports_timers_learns_that_its_interval_is_too_small() {
    for method in ["INVITE", "UPDATE"] {
        for interval in ["Session-Expires: 0", "x: 1;refresher=uac", "x: 119"] {
            for others in [&["Supported: timer"][..], &["k: a,timer", "Min-SE: 3600"]] {
                let lines = [&[interval], others].concat();
                assert_eq!(
                    forwarded(&TIMERS, method, &lines),
                    Err(Rejection::TooSmall { min_se: 120 }),
                    "{lines:?}"
                );
            }
        }
    }
}

#[test]
fn the_shortest_interval_is_90_seconds_whatever_the_settings_say() {
    let hasty = SessionTimerSettings {
        interval: Duration::from_secs(10),
        min_interval: Duration::from_secs(10),
    };
    let (lines, _) = forwarded(&hasty, "INVITE", &[]).expect("it is forwarded");
    assert_eq!(lines, ["Session-Expires: 90"]);
    let lines = ["Supported: timer", "Session-Expires: 89"];
    assert_eq!(
        forwarded(&hasty, "INVITE", &lines),
        Err(Rejection::TooSmall { min_se: 90 })
    );
}

#[test]
fn malformed_and_repeated_header_fields_are_rejected_by_name() {
    let rows: &[(&[&str], &str)] = &[
        (&["Session-Expires:"], "Session-Expires"),
        (&["Session-Expires: -1"], "Session-Expires"),
        (&["Session-Expires: soon"], "Session-Expires"),
        (&["Session-Expires: 4294967296"], "Session-Expires"),
        (&["x: 1800, 90"], "Session-Expires"),
        (&["x: 1800", "Session-Expires: 1800"], "Session-Expires"),
        (&["Min-SE: 90s"], "Min-SE"),
        (&["Min-SE: 99999999999999999999"], "Min-SE"),
        (&["Min-SE: 90", "Min-SE: 90"], "Min-SE"),
        (&["x: 1", "Supported: timer", "Min-SE:"], "Min-SE"),
    ];
    for method in ["INVITE", "UPDATE"] {
        for (lines, name) in rows {
            let Err(Rejection::Malformed(reason)) = forwarded(&TIMERS, method, lines) else {
                panic!("{lines:?}");
            };
            assert!(reason.starts_with(&format!("Bad {name}: ")), "{reason}");
        }
    }
}

#[test]
fn other_requests_have_no_session_timer() {
    for method in ["ACK", "BYE", "CANCEL", "OPTIONS", "SUBSCRIBE", "REFER"] {
        let lines = ["Supported: timer", "Session-Expires: 1", "Min-SE: x"];
        let expected = lines.map(str::to_owned).into();
        assert_eq!(
            forwarded(&TIMERS, method, &lines),
            Ok((expected, String::new())),
            "{method}"
        );
    }
}
