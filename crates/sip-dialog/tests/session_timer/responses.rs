//! What a 2xx agrees on (section 8.2).

use crate::header;
use sip_dialog::Agreed;
use sip_message::{Message, Patch, Refresher};
use std::time::Duration;

/// A response with our Via on top. `param` is the one that the request left with, `lines` the end of its header.
fn response(status: &str, method: &str, param: &str, lines: &[&str]) -> String {
    let lines = header(lines);
    format!(
        "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP us;branch=z9hG4bK2{param};rport=5060\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
         CSeq: 1 {method}\r\n{lines}\r\nbody"
    )
}

/// What the response agrees on, and the end of its header as it goes upstream.
fn forwarded(response: &str) -> (Option<(u64, Option<Refresher>)>, Vec<String>) {
    let message = Message::parse(response.as_bytes()).expect("a message");
    let agreed = Agreed::of(&message);
    let mut patch = Patch::new(&message);
    if let Some(agreed) = agreed {
        agreed.patch(&mut patch, &message);
    }
    let mut written = Vec::new();
    patch.write(&mut written);
    let written = String::from_utf8(written).expect("text");
    let header = written.split("\r\n\r\n").next().expect("a header");
    let lines = header.split("\r\n").skip(4).map(str::to_owned).collect();
    let agreed = agreed.map(|agreed| (agreed.interval().as_secs(), agreed.refresher()));
    (agreed, lines)
}

/// Section 9, table 2, as a proxy between the two sees it, and what a hostile callee may answer. Each row: the parameter of our Via,
/// the lines as received, what is agreed on, and the lines that are added.
type Row = (
    &'static str,
    &'static [&'static str],
    Option<(u64, Option<Refresher>)>,
    &'static [&'static str],
);
const ANSWERS: &[Row] = &[
    // Neither side supports session timers.
    ("", &[], None, &[]),
    // Only the callee does, so it refreshes.
    (
        "",
        &["Session-Expires: 1800;refresher=uas"],
        Some((1800, Some(Refresher::Uas))),
        &[],
    ),
    // Only the caller does, so it must refresh.
    (
        ";se=1800",
        &[],
        Some((1800, Some(Refresher::Uac))),
        &["Session-Expires: 1800;refresher=uac", "Require: timer"],
    ),
    (
        ";se=90",
        &["Require: 100rel"],
        Some((90, Some(Refresher::Uac))),
        &["Session-Expires: 90;refresher=uac", "Require: timer"],
    ),
    (
        ";se=90",
        &["Require: Timer"],
        Some((90, Some(Refresher::Uac))),
        &["Session-Expires: 90;refresher=uac"],
    ),
    // Both do: the callee has decided.
    (
        ";se=1800",
        &["Require: timer", "x: 600;refresher=uac"],
        Some((600, Some(Refresher::Uac))),
        &[],
    ),
    (
        ";se=1800",
        &["Session-Expires: 1800;refresher=uas"],
        Some((1800, Some(Refresher::Uas))),
        &[],
    ),
    // No refresher, or an unknown one.
    (";se=1800", &["x: 1800"], Some((1800, None)), &[]),
    (
        ";se=1800",
        &["x: 1800;refresher=proxy"],
        Some((1800, None)),
        &[],
    ),
    // Too short: the header field stays, but the session lasts 90 seconds.
    (
        ";se=1800",
        &["x: 1;refresher=uac"],
        Some((90, Some(Refresher::Uac))),
        &[],
    ),
    (
        "",
        &["x: 315360000;refresher=uas"],
        Some((315_360_000, Some(Refresher::Uas))),
        &[],
    ),
    // Malformed: no session timer runs that the proxy knows of.
    (";se=1800", &["x: 4294967296;refresher=uac"], None, &[]),
    (";se=1800", &["x: soon"], None, &[]),
    // The callee has changed our Via.
    (
        ";se=1",
        &[],
        Some((90, Some(Refresher::Uac))),
        &["Session-Expires: 90;refresher=uac", "Require: timer"],
    ),
    (";se", &[], None, &[]),
    (";se=x", &[], None, &[]),
];

#[test]
fn a_2xx_agrees_on_what_section_8_2_says() {
    for method in ["INVITE", "UPDATE"] {
        for (param, lines, agreed, added) in ANSWERS {
            let expected: Vec<&str> = lines.iter().chain(*added).copied().collect();
            let found = forwarded(&response("200 OK", method, param, lines));
            assert_eq!(found.0, *agreed, "{param:?} {lines:?}");
            assert_eq!(found.1, expected, "{param:?} {lines:?}");
        }
    }
}

#[test]
fn other_responses_agree_on_nothing_and_stay_unchanged() {
    for (status, method) in [
        ("180 Ringing", "INVITE"),
        ("422 Session Interval Too Small", "INVITE"),
        ("302 Moved Temporarily", "UPDATE"),
        ("200 OK", "BYE"),
        ("200 OK", "SUBSCRIBE"),
    ] {
        for lines in [&[][..], &["Session-Expires: 90;refresher=uac"]] {
            let found = forwarded(&response(status, method, ";se=1800", lines));
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(found, (None, lines), "{status} {method}");
        }
    }
}

#[test]
fn the_interval_is_a_duration() {
    let text = response("200 OK", "INVITE", "", &["x: 600"]);
    let message = Message::parse(text.as_bytes()).expect("a message");
    let agreed = Agreed::of(&message).expect("it states one");
    assert_eq!(agreed.interval(), Duration::from_secs(600));
}
