//! Session descriptions that the control plane replaces: requests and responses wait for it.

use crate::bench::{ALICE, BOB, Bench, only, request, settings, status};
use sip_elements::metrics::DROPS;
use sip_elements::{
    ControlMessage, DescribedId, Description, NotDescribed, Question, SessionDescriptions,
};
use sip_transport::selection::Candidate;
use sip_transport::{Node, Protocol};
use std::net::SocketAddr;
use std::time::Duration;

type Sent = Vec<(SocketAddr, String)>;

/// A bench whose control plane sees session descriptions. Bob is registered. The caller is behind a trusted peer.
fn bench() -> Bench {
    let mut settings = settings();
    let peer = "192.0.2.10/32".parse().expect("a network");
    settings.proxy.trusted_peers = [peer].into_iter().collect();
    settings.proxy.session_descriptions = SessionDescriptions::Ask;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench
}

/// The message with a session description.
fn offering(message: &str, body: &str) -> String {
    let length = format!(
        "Content-Type: Application/SDP;x=y\nContent-Length: {}\n\n{body}",
        body.len()
    );
    message.replace("Content-Length: 0\n\n", &length)
}

fn invite(branch: &str) -> String {
    let (callee, caller) = ("sip:bob@example.org", "sip:carol@elsewhere.net");
    offering(
        &request("INVITE", callee, caller, branch, ""),
        "alice's offer",
    )
}

/// The ticket of the only open question, and the body of its message.
fn asked(bench: &mut Bench) -> (DescribedId, String) {
    let question = bench.question();
    let Some(Question::Describe {
        ticket, message, ..
    }) = question
    else {
        panic!("{question:?}");
    };
    let message = String::from_utf8(message.to_vec()).expect("text");
    let (_, body) = message.split_once("\r\n\r\n").expect("a body");
    (ticket, body.to_owned())
}

fn answer(bench: &mut Bench, ticket: DescribedId, body: &str) -> Sent {
    let description = Description::Replace(body.as_bytes().into());
    described(bench, ticket, Ok(description))
}

fn described(
    bench: &mut Bench,
    ticket: DescribedId,
    result: Result<Description, NotDescribed>,
) -> Sent {
    let answer = ControlMessage::Described { ticket, result };
    bench.exchange.control(bench.now, answer, &mut bench.output);
    bench.sent()
}

/// Sends the INVITE to bob and returns it as he receives it.
fn call(bench: &mut Bench) -> String {
    assert_eq!(status(&only(bench.receive(ALICE, &invite("i1")))), 100);
    let (ticket, _) = asked(bench);
    only(answer(bench, ticket, "the relay's offer"))
}

/// Bob's response to a request.
fn response(request: &str, status: u16, body: &str) -> String {
    let response = crate::bench::accept(request).replace("200 OK", &format!("{status} Text"));
    if body.is_empty() {
        response
    } else {
        offering(&response, body)
    }
}

fn statuses(sent: &Sent) -> Vec<u16> {
    sent.iter().map(|(_, message)| status(message)).collect()
}

#[test]
fn an_invite_waits_and_leaves_with_the_new_description() {
    let mut bench = bench();
    assert_eq!(status(&only(bench.receive(ALICE, &invite("i1")))), 100);
    let (ticket, body) = asked(&mut bench);
    assert_eq!(body, "alice's offer");
    assert_eq!(
        status(&only(bench.receive(ALICE, &invite("i1")))),
        100,
        "a retransmission waits, too"
    );
    assert!(bench.question().is_none(), "and asks nothing");
    let forwarded = only(answer(&mut bench, ticket, "the relay's offer"));
    assert!(
        forwarded.starts_with(&format!("INVITE sip:bob@{BOB} ")),
        "{forwarded}"
    );
    assert!(
        forwarded.contains("\r\nContent-Length: 17\r\n"),
        "{forwarded}"
    );
    assert!(
        forwarded.ends_with("\r\n\r\nthe relay's offer"),
        "{forwarded}"
    );
    assert_eq!(
        answer(&mut bench, ticket, "again"),
        [],
        "a question is answered once"
    );
    let retransmitted = only(bench.wait(Duration::from_millis(500)));
    assert_eq!(retransmitted, forwarded);
}

#[test]
fn without_media_control_an_invite_is_refused() {
    let mut bench = bench();
    bench.receive(ALICE, &invite("i1"));
    let (ticket, _) = asked(&mut bench);
    let refused = only(described(&mut bench, ticket, Err(NotDescribed)));
    assert_eq!(status(&refused), 503);
    bench.receive(ALICE, &invite("i2"));
    let (ticket, _) = asked(&mut bench);
    let late = bench.wait(Duration::from_secs(5));
    assert!(
        late.iter()
            .any(|(_, sent)| sent.starts_with("SIP/2.0 500 Media control did not answer in time")),
        "{late:#?}"
    );
    assert_eq!(answer(&mut bench, ticket, "too late"), []);
}

#[test]
fn a_cancelled_invite_that_waits_gets_487() {
    let mut bench = bench();
    bench.receive(ALICE, &invite("i1"));
    let (ticket, _) = asked(&mut bench);
    let (callee, caller) = ("sip:bob@example.org", "sip:carol@elsewhere.net");
    let cancelled = bench.receive(ALICE, &request("CANCEL", callee, caller, "i1", ""));
    assert_eq!(statuses(&cancelled), [487, 200]);
    assert_eq!(answer(&mut bench, ticket, "too late"), []);
}

#[test]
fn the_responses_of_a_call_wait_and_leave_in_order() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    assert_eq!(bench.receive(BOB, &response(&forwarded, 183, "early")), []);
    assert_eq!(bench.receive(BOB, &response(&forwarded, 180, "")), []);
    assert_eq!(bench.receive(BOB, &response(&forwarded, 200, "answer")), []);
    let (ticket, body) = asked(&mut bench);
    assert_eq!(body, "early");
    assert!(bench.question().is_none(), "one question at a time");
    let sent = answer(&mut bench, ticket, "the relay's early");
    assert_eq!(statuses(&sent), [183, 180]);
    assert!(sent[0].1.ends_with("\r\n\r\nthe relay's early"));
    assert_eq!(answer(&mut bench, ticket, "stale"), []);
    let (ticket, body) = asked(&mut bench);
    assert_eq!(body, "answer");
    let sent = only(described(&mut bench, ticket, Ok(Description::Keep)));
    assert_eq!(status(&sent), 200);
    assert!(sent.ends_with("\r\n\r\nanswer"));
    let (believed, counted) = bench.exchange.held_bytes();
    assert_eq!(believed, counted);
}

#[test]
fn a_response_passes_unchanged_if_media_control_fails_or_is_late() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    bench.receive(BOB, &response(&forwarded, 183, "early"));
    let (ticket, _) = asked(&mut bench);
    let sent = only(described(&mut bench, ticket, Err(NotDescribed)));
    assert!(sent.ends_with("\r\n\r\nearly"), "{sent}");
    bench.receive(BOB, &response(&forwarded, 200, "answer"));
    assert_eq!(bench.wait(Duration::from_secs(2)), []);
    let sent = only(bench.wait(Duration::from_secs(1)));
    assert!(sent.ends_with("\r\n\r\nanswer"), "{sent}");
    assert_eq!(bench.metrics.questions_expired.value(), 1);
}

#[test]
fn a_repeated_200_is_described_again() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    let accepted = response(&forwarded, 200, "answer");
    bench.receive(BOB, &accepted);
    assert_eq!(
        bench.receive(BOB, &accepted),
        [],
        "while the first one waits"
    );
    let mut again = || {
        let (ticket, _) = asked(&mut bench);
        only(answer(&mut bench, ticket, "the relay's answer"))
    };
    let first = again();
    assert_eq!(again(), first);
    bench.wait(Duration::from_secs(1));
    assert_eq!(bench.receive(BOB, &accepted), []);
    let (ticket, _) = asked(&mut bench);
    assert_eq!(
        only(answer(&mut bench, ticket, "the relay's answer")),
        first
    );
    assert_eq!(bench.exchange.proxy_stats().live, 1);
    bench.wait(Duration::from_secs(33));
    assert_eq!(bench.exchange.proxy_stats().live, 0);
}

#[test]
fn a_call_that_was_accepted_before_it_was_cancelled_is_accepted() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    bench.receive(BOB, &response(&forwarded, 200, "answer"));
    let (callee, caller) = ("sip:bob@example.org", "sip:carol@elsewhere.net");
    let cancelled = bench.receive(ALICE, &request("CANCEL", callee, caller, "i1", ""));
    assert_eq!(statuses(&cancelled), [200], "for the CANCEL");
    let (ticket, _) = asked(&mut bench);
    let sent = answer(&mut bench, ticket, "the relay's answer");
    assert_eq!(statuses(&sent), [200]);
}

#[test]
fn a_refusal_behind_an_early_answer_waits_for_it() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    bench.receive(BOB, &response(&forwarded, 183, "early"));
    let (ticket, _) = asked(&mut bench);
    let sent = bench.receive(BOB, &response(&forwarded, 486, ""));
    let [(_, ack)] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert!(ack.starts_with("ACK "), "{ack}");
    let sent = answer(&mut bench, ticket, "the relay's early");
    assert_eq!(statuses(&sent), [183, 486]);
    bench.wait(Duration::from_secs(40));
    assert_eq!(bench.exchange.proxy_stats().live, 0);
}

#[test]
fn the_waiting_responses_of_a_call_are_bounded() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    for number in 0..100 {
        let early = response(&forwarded, 183, &format!("early {number}"));
        assert_eq!(bench.receive(BOB, &early), []);
    }
    bench.receive(BOB, &response(&forwarded, 486, ""));
    let place = DROPS.iter().position(|name| *name == "waiting_full");
    let dropped = &bench.metrics.drops[place.expect("counted")];
    assert_eq!(dropped.value(), 92);
    let mut passed = Vec::new();
    while let Some(Question::Describe { ticket, .. }) = bench.question() {
        passed.extend(statuses(&answer(&mut bench, ticket, "early")));
    }
    assert_eq!(passed, [vec![183; 8], vec![486]].concat());
}

#[test]
fn messages_without_a_description_do_not_wait() {
    let mut bench = bench();
    let (callee, caller) = ("sip:bob@example.org", "sip:carol@elsewhere.net");
    let plain = request("INVITE", callee, caller, "i1", "");
    let sent = bench.receive(ALICE, &plain);
    assert_eq!(sent.len(), 2, "{sent:#?}");
    let ringing = bench.receive(BOB, &response(&sent[1].1, 180, ""));
    assert_eq!(statuses(&ringing), [180]);
    assert!(bench.question().is_none());
}

/// The call would otherwise be answered twice.
#[test]
fn the_other_phones_are_cancelled_while_a_200_waits() {
    const OTHER: &str = "192.0.2.21:5060";
    let mut bench = bench();
    bench.register("bob", OTHER);
    bench.receive(ALICE, &invite("i1"));
    let (ticket, _) = asked(&mut bench);
    let forked = answer(&mut bench, ticket, "the relay's offer");
    let at = |address: &str| {
        let to_it = |(to, _): &&(SocketAddr, String)| to.to_string() == address;
        forked.iter().find(to_it).expect("forked").1.clone()
    };
    let (here, there) = (at(BOB), at(OTHER));
    assert_eq!(
        statuses(&bench.receive(OTHER, &response(&there, 180, ""))),
        [180]
    );
    let cancelled = bench.receive(BOB, &response(&here, 200, "answer"));
    let [(to, cancel)] = &cancelled[..] else {
        panic!("{cancelled:#?}")
    };
    assert_eq!(to.to_string(), OTHER);
    assert!(cancel.starts_with("CANCEL "), "{cancel}");
    let (ticket, _) = asked(&mut bench);
    assert_eq!(
        statuses(&answer(&mut bench, ticket, "the relay's answer")),
        [200]
    );
}

#[test]
fn the_next_server_is_tried_although_other_responses_waited_with_the_503() {
    let mut settings = settings();
    let peer = "192.0.2.10/32".parse().expect("a network");
    settings.proxy.trusted_peers = [peer].into_iter().collect();
    settings.proxy.session_descriptions = SessionDescriptions::Ask;
    settings.registrar.follow_contact = true;
    let mut bench = Bench::new(settings).with_subscribers();
    bench.register("bob", BOB);
    bench.register_contact("bob", "192.0.2.30:5060", "sip:bob@pbx.example.net");
    bench.receive(ALICE, &invite("i1"));
    let (ticket, _) = asked(&mut bench);
    let to_bob = only(answer(&mut bench, ticket, "the relay's offer"));
    let question = bench.question();
    let Some(Question::Resolve { ticket, .. }) = question else {
        panic!("{question:?}");
    };
    let servers = ["192.0.2.41:5060", "192.0.2.42:5060"].map(|address| Candidate {
        protocol: Protocol::Udp,
        address: address.parse().expect("an address"),
    });
    let resolved = ControlMessage::Resolved {
        ticket,
        result: Ok(servers.to_vec()),
    };
    bench
        .exchange
        .control(bench.now, resolved, &mut bench.output);
    let to_first = only(bench.sent());
    bench.receive(BOB, &response(&to_bob, 183, "early"));
    bench.receive("192.0.2.41:5060", &response(&to_first, 503, ""));
    bench.receive(BOB, &response(&to_bob, 486, ""));
    let (ticket, _) = asked(&mut bench);
    let sent = answer(&mut bench, ticket, "the relay's early");
    let next = sent
        .iter()
        .find(|(to, _)| to.to_string() == "192.0.2.42:5060");
    assert!(
        next.is_some_and(|(_, sent)| sent.starts_with("INVITE ")),
        "{sent:#?}"
    );
}

#[test]
fn after_a_missed_deadline_nothing_waits_any_longer() {
    let mut bench = bench();
    let forwarded = call(&mut bench);
    for body in ["first", "second", "third"] {
        bench.receive(BOB, &response(&forwarded, 183, body));
    }
    bench.receive(BOB, &response(&forwarded, 200, "answer"));
    let late = bench.wait(Duration::from_secs(3));
    assert_eq!(statuses(&late), [183, 183, 183, 200]);
}

#[test]
fn a_description_that_makes_a_message_too_long_is_not_used() {
    let mut bench = bench();
    let long = "x".repeat(300 << 10);
    bench.receive(ALICE, &invite("i1"));
    let (ticket, _) = asked(&mut bench);
    assert_eq!(statuses(&answer(&mut bench, ticket, &long)), [500]);
    let callee = invite("i2").replace("call-1", "call-2");
    bench.receive(ALICE, &callee);
    let (ticket, _) = asked(&mut bench);
    let forwarded = only(answer(&mut bench, ticket, "the relay's offer"));
    bench.receive(BOB, &response(&forwarded, 200, "answer"));
    let (ticket, _) = asked(&mut bench);
    let sent = only(answer(&mut bench, ticket, &long));
    assert!(sent.ends_with("\r\n\r\nanswer"), "{sent}");
}
