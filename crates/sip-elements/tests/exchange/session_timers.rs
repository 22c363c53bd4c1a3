//! Session intervals that are rejected (RFC 4028 section 8.1): who gets which response, and what becomes of its ACK.

use crate::bench::{
    ALICE, BOB, Bench, accept, answer_challenge, only, recorded, request, settings, status,
};
use sip_elements::metrics::DropReason;

/// A caller from another domain.
const MALLORY: &str = "192.0.2.66:5060";
const AS_MALLORY: &str = "sip:mallory@elsewhere.example";
const AS_ALICE: &str = "sip:alice@example.org";
const AS_BOB: &str = "sip:bob@example.org";

fn bench() -> Bench {
    let mut bench = Bench::new(settings()).with_subscribers();
    bench.register("bob", BOB);
    bench
}

/// The values of a header field.
fn header(message: &str, name: &str) -> Vec<String> {
    let prefix = format!("{name}: ");
    let lines = message.split("\r\n");
    let values = lines.filter_map(|line| line.strip_prefix(prefix.as_str()));
    values.map(str::to_owned).collect()
}

/// An INVITE from Mallory, with the branch in place of Alice's.
fn from_mallory(branch: &str, extra: &str) -> String {
    request("INVITE", AS_BOB, AS_MALLORY, branch, extra).replace(ALICE, MALLORY)
}

#[test]
fn an_interval_that_is_too_small_gets_422_if_the_caller_can_try_again() {
    let mut bench = bench();
    let extra = "Supported: timer\nSession-Expires: 89\n";
    let refusal = only(bench.receive(MALLORY, &from_mallory("s1", extra)));
    assert!(
        refusal.starts_with("SIP/2.0 422 Session Interval Too Small\r\n"),
        "{refusal}"
    );
    assert_eq!(header(&refusal, "Min-SE"), ["90"]);
    let extra = "Supported: timer\nSession-Expires: 90\nMin-SE: 90\n";
    let sent = bench.receive(MALLORY, &from_mallory("s2", extra));
    let forwarded = &sent.last().expect("a copy").1;
    assert!(forwarded.starts_with("INVITE "), "{sent:?}");
    assert_eq!(header(forwarded, "Session-Expires"), ["90"]);
}

#[test]
fn an_interval_that_is_too_small_is_raised_if_the_caller_could_not_try_again() {
    let mut bench = bench();
    let sent = bench.receive(MALLORY, &from_mallory("s1", "Session-Expires: 1\n"));
    let forwarded = &sent.last().expect("a copy").1;
    assert!(forwarded.starts_with("INVITE "), "{sent:?}");
    assert_eq!(header(forwarded, "Session-Expires"), ["90"]);
    assert_eq!(header(forwarded, "Min-SE"), ["90"]);
}

#[test]
fn what_is_malformed_gets_400_and_is_named() {
    for (extra, reason) in [
        ("Session-Expires: 4294967296\n", "Bad Session-Expires: "),
        (
            "Session-Expires: -1\nSupported: timer\n",
            "Bad Session-Expires: ",
        ),
        ("x: 90\nSession-Expires: 90\n", "Bad Session-Expires: "),
        ("Session-Expires: 90\nMin-SE: ninety\n", "Bad Min-SE: "),
    ] {
        let refusal = only(bench().receive(MALLORY, &from_mallory("s1", extra)));
        let line = format!("SIP/2.0 400 {reason}");
        assert!(refusal.starts_with(&line), "{refusal}");
    }
}

#[test]
fn a_subscriber_is_challenged_before_its_interval_is_judged() {
    let mut bench = bench();
    let timer = "Supported: timer\nSession-Expires: 30\n";
    let challenge = only(bench.receive(ALICE, &request("INVITE", AS_BOB, AS_ALICE, "i1", timer)));
    assert_eq!(status(&challenge), 407);
    let credentials = answer_challenge(&challenge, "alice", "INVITE", AS_BOB);
    let extra = format!("{timer}Proxy-Authorization: {credentials}\n");
    let invite = request("INVITE", AS_BOB, AS_ALICE, "i2", &extra);
    let refusal = only(bench.receive(ALICE, &invite));
    assert_eq!(status(&refusal), 422);
    let again = only(bench.receive(ALICE, &invite));
    assert_eq!(again, refusal, "a retransmission gets the same response");
}

#[test]
fn a_refresh_that_is_too_short_is_rejected_and_its_ack_goes_no_further() {
    let mut bench = bench();
    let sent = bench.receive(MALLORY, &from_mallory("s1", ""));
    let forwarded = sent.last().expect("a copy").1.clone();
    let answered = only(bench.receive(BOB, &accept(&forwarded)));
    let routes = recorded(&answered);
    let in_dialog = |method: &str, extra: &str| {
        let extra = format!("Route: {}\n{extra}", routes[0]);
        let target = format!("sip:bob@{BOB}");
        request(method, &target, AS_MALLORY, "d1", &extra)
            .replace(ALICE, MALLORY)
            .replace(
                &format!("To: <{target}>"),
                &format!("To: <{AS_BOB}>;tag=b1"),
            )
    };
    let refresh = in_dialog("INVITE", "Supported: timer\nSession-Expires: 1\n");
    let refusal = only(bench.receive(MALLORY, &refresh));
    assert_eq!(
        (status(&refusal), header(&refusal, "Min-SE")),
        (422, vec!["90".to_owned()])
    );
    let strays = || bench.metrics.drops[DropReason::StrayAck as usize].value();
    assert_eq!(strays(), 0);
    let ack = in_dialog("ACK", "");
    assert_eq!(bench.receive(MALLORY, &ack), [], "the transaction takes it");
    let update = in_dialog("UPDATE", "k: timer\nx: 1\n").replace("d1", "d2");
    assert_eq!(status(&only(bench.receive(MALLORY, &update))), 422);
}
