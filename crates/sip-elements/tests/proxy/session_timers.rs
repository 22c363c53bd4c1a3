//! Session timers in forwarded messages (RFC 4028 section 8). The rules themselves are tested in `sip-dialog`.

use crate::wire::{
    ALICE, BOB, CAROL, Sent, US, Wire, cancel, established, request, request_in, settings, target,
    udp,
};
use std::time::Duration;

const SUPPORTED: &str = "Supported: timer\r\n";

/// Sends an INVITE from Alice with these header fields. Returns the copy that reaches Bob.
fn call(wire: &mut Wire, headers: &str) -> Sent {
    wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", headers));
    wire.expect(ALICE, "SIP/2.0 100");
    wire.expect(BOB, "INVITE")
}

fn to_bob() -> Wire {
    Wire::new(vec![target(BOB, 1000)])
}

/// The lines that a message has more than another one, and those that it has less.
fn difference<'t>(from: &'t str, to: &'t str) -> (Vec<&'t str>, Vec<&'t str>) {
    let lines = |text: &'t str| text.split("\r\n").collect::<Vec<_>>();
    let (from, to) = (lines(from), lines(to));
    let more = to.iter().filter(|line| !from.contains(line)).copied();
    let less = from.iter().filter(|line| !to.contains(line)).copied();
    (more.collect(), less.collect())
}

#[test]
fn a_call_between_phones_without_session_timers_has_none() {
    let mut wire = to_bob();
    let sent = call(&mut wire, "");
    assert_eq!(sent.header("Session-Expires"), ["1800"]);
    assert!(sent.header("Via")[0].ends_with(";rport") && !sent.text.contains(";se="));
    assert!(sent.header("Require").is_empty() && sent.header("Min-SE").is_empty());
    let answer = sent.reply("200 OK");
    wire.receive(BOB, &answer);
    let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
    let (more, less) = difference(&answer, &passed.text);
    assert!(
        more.iter().all(|line| line.starts_with("Record-Route")),
        "{more:?}"
    );
    assert!(
        less.iter()
            .all(|line| line.starts_with("Via") || line.starts_with("Record-Route"))
    );
    wire.finish();
}

#[test]
fn a_caller_with_session_timers_refreshes_if_the_callee_knows_none() {
    let mut wire = to_bob();
    let sent = call(&mut wire, SUPPORTED);
    assert!(
        sent.header("Via")[0].ends_with(";se=1800;rport"),
        "{}",
        sent.text
    );
    wire.receive(BOB, &sent.reply("180 Ringing"));
    let ringing = wire.expect(ALICE, "SIP/2.0 180");
    assert!(ringing.header("Session-Expires").is_empty());
    wire.receive(BOB, &sent.reply_with("200 OK", "Require: 100rel\r\n"));
    let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(passed.header("Session-Expires"), ["1800;refresher=uac"]);
    assert_eq!(passed.header("Require"), ["100rel", "timer"]);
    wire.finish();
}

#[test]
fn the_answer_has_the_same_bytes_whenever_it_arrives_and_wherever() {
    let mut wire = to_bob();
    let sent = call(&mut wire, &format!("{SUPPORTED}Session-Expires: 600\r\n"));
    let answer = sent.reply_with("200 OK", "Contact: <sip:bob@192.0.2.20:5060>\r\n");
    wire.receive(BOB, &answer);
    let first = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(first.header("Session-Expires"), ["600;refresher=uac"]);
    wire.assert_counts(0);
    // The response context is gone, then the transactions are, then the node has restarted.
    let mut restarted = wire.restarted();
    for pause in [1, 60] {
        wire.pass(Duration::from_secs(pause));
        wire.receive(BOB, &answer);
        assert_eq!(wire.expect(ALICE, "SIP/2.0 200 OK").text, first.text);
    }
    restarted.receive(BOB, &answer);
    assert_eq!(restarted.expect(ALICE, "SIP/2.0 200 OK").text, first.text);
    restarted.finish();
    wire.finish();
}

#[test]
fn an_answer_with_a_session_timer_stays_as_it_is() {
    for timer in [
        "Session-Expires: 600;refresher=uas\r\n",
        "x:  90 ;refresher=uac;y\r\nRequire: timer\r\n",
        "Session-Expires: 4294967296\r\n",
        "Session-Expires: 1;refresher=nobody\r\nx: 5\r\n",
    ] {
        let mut wire = to_bob();
        let sent = call(&mut wire, SUPPORTED);
        wire.receive(BOB, &sent.reply_with("200 OK", timer));
        let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
        let kept = passed
            .text
            .split_once("CSeq: 1 INVITE\r\n")
            .expect("CSeq")
            .1;
        assert_eq!(kept, format!("{timer}Content-Length: 0\r\n\r\n"));
        wire.finish();
    }
}

#[test]
fn every_copy_of_a_fork_and_every_retransmission_asks_for_the_same() {
    let mut wire = Wire::new(vec![target(BOB, 1000), target(CAROL, 1000)]);
    let headers = format!("{SUPPORTED}x: 90000;refresher=uac\r\n");
    wire.receive(ALICE, &request("INVITE", "sip:bob@example.org", &headers));
    wire.expect(ALICE, "SIP/2.0 100");
    let texts = |wire: &mut Wire| {
        let mut texts: Vec<String> = wire.take_sent().into_iter().map(|sent| sent.text).collect();
        texts.sort_unstable();
        texts
    };
    let copies = texts(&mut wire);
    assert_eq!(copies.len(), 2);
    for copy in &copies {
        assert!(copy.contains("\r\nx: 1800;refresher=uac\r\n"), "{copy}");
        assert!(copy.contains(";se=1800;rport\r\n"), "{copy}");
    }
    wire.pass(Duration::from_millis(600));
    assert_eq!(texts(&mut wire), copies);
}

#[test]
fn a_refresh_inside_the_dialog_is_handled_like_the_first_request() {
    let mut wire = to_bob();
    let routes = established(&mut wire, &format!("sip:bob@{BOB}"), "");
    let route = format!("Route: {}\r\n", routes[0]);
    let refresh = |method, cseq, headers: &str| {
        let headers = format!("{route}{SUPPORTED}{headers}");
        request_in(method, &format!("sip:bob@{BOB}"), "b1", cseq, &headers)
    };
    wire.receive(
        ALICE,
        &refresh("UPDATE", 2, "Session-Expires: 7200;refresher=uac\r\n"),
    );
    let update = wire.expect(BOB, "UPDATE");
    assert_eq!(update.header("Session-Expires"), ["1800;refresher=uac"]);
    wire.receive(BOB, &update.reply("200 OK"));
    let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(passed.header("Session-Expires"), ["1800;refresher=uac"]);

    wire.receive(ALICE, &refresh("UPDATE", 3, ""));
    let update = wire.expect(BOB, "UPDATE");
    assert!(update.header("Session-Expires").is_empty() && !update.text.contains(";se="));
    wire.receive(BOB, &update.reply("200 OK"));
    let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert!(passed.header("Session-Expires").is_empty());

    wire.receive(ALICE, &refresh("INVITE", 4, ""));
    wire.expect(ALICE, "SIP/2.0 100");
    let invite = wire.expect(BOB, "INVITE");
    assert_eq!(invite.header("Session-Expires"), ["1800"]);
    wire.receive(BOB, &invite.reply("200 OK"));
    let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
    assert_eq!(passed.header("Session-Expires"), ["1800;refresher=uac"]);
    wire.finish();
}

#[test]
fn a_422_from_downstream_and_the_retry_pass_unchanged() {
    let mut wire = to_bob();
    let headers = format!("{SUPPORTED}Session-Expires: 600\r\n");
    let sent = call(&mut wire, &headers);
    wire.receive(
        BOB,
        &sent.reply_with("422 Session Interval Too Small", "Min-SE: 1200\r\n"),
    );
    wire.expect(BOB, "ACK");
    let refusal = wire.expect(ALICE, "SIP/2.0 422 Session Interval Too Small");
    assert_eq!(refusal.header("Min-SE"), ["1200"]);
    assert!(refusal.header("Session-Expires").is_empty());
    wire.ignore_sent();

    let headers = format!("{SUPPORTED}Session-Expires: 1200\r\nMin-SE: 1200\r\n");
    let retry = request_in("INVITE", "sip:bob@example.org", "", 2, &headers);
    wire.receive(ALICE, &retry);
    wire.expect(ALICE, "SIP/2.0 100");
    let sent = wire.expect(BOB, "INVITE");
    assert_eq!(sent.header("Session-Expires"), ["1200"]);
    assert_eq!(sent.header("Min-SE"), ["1200"]);
}

#[test]
fn without_session_timers_nothing_is_added_or_changed() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.session_timers = None;
    let timers = "Supported: timer\r\nx: 1;refresher=uac\r\nMin-SE: soon\r\n";
    for headers in ["", timers] {
        let mut wire = Wire::with(settings.clone(), vec![target(BOB, 1000)]);
        let received = request("INVITE", "sip:bob@example.org", headers);
        let sent = call(&mut wire, headers);
        let (more, _) = difference(&received, &sent.text);
        let is_ours = |line: &&str| {
            [
                "INVITE",
                "Via",
                "Max-Forwards",
                "Max-Breadth",
                "Record-Route",
            ]
            .iter()
            .any(|name| line.starts_with(name))
        };
        assert!(more.iter().all(is_ours), "{more:?}");
        assert!(!sent.text.contains(";se="));
        let answer = sent.reply("200 OK").replace(";rport", ";se=1800;rport");
        wire.receive(BOB, &answer);
        let passed = wire.expect(ALICE, "SIP/2.0 200 OK");
        assert!(passed.header("Session-Expires").is_empty());
        wire.finish();
    }
}

#[test]
fn a_cancelled_call_takes_the_parameter_of_our_via_along() {
    let mut wire = to_bob();
    let sent = call(&mut wire, SUPPORTED);
    wire.receive(BOB, &sent.reply("180 Ringing"));
    wire.expect(ALICE, "SIP/2.0 180");
    wire.receive(ALICE, &cancel());
    let cancel = wire.expect(BOB, "CANCEL");
    assert_eq!(cancel.header("Via")[0], sent.header("Via")[0]);
    assert!(cancel.header("Session-Expires").is_empty());
}
