//! Dialogs of calls: when one begins, what confirms it, and everything that ends it. After each step, created = ended + live.

use crate::bench::{BOB, Bench, accept_at, only, recorded, request, settings, status};
use sip_dialog::{CallEvent, Change, Ended};
use sip_elements::metrics::Takeover;
use sip_elements::{ControlMessage, Record, Settings};
use sip_transport::{Counter, Node};
use std::sync::Arc;
use std::time::Duration;

const CAROL: &str = "192.0.2.30:5060";
const ALICE: &str = crate::bench::ALICE;
const AS_ALICE: &str = "sip:alice@example.org";
const AS_BOB: &str = "sip:bob@example.org";

/// A node that tells about calls and challenges nothing, with Bob's phone.
pub(crate) fn node() -> Bench {
    node_with(settings())
}

pub(crate) fn node_with(mut settings: Settings) -> Bench {
    settings.challenge.clear();
    settings.dialogs.events = Arc::new(true.into());
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = crate::bench::register("bob", BOB, 1, "");
    assert_eq!(status(&only(bench.receive(BOB, &contact))), 200);
    bench
}

impl Bench {
    /// The numbers of early and confirmed dialogs. Checks that no dialog was lost.
    pub(crate) fn dialogs(&self) -> (u64, u64) {
        let stats = self.exchange.dialog_stats();
        assert_eq!(stats.created, stats.ended + stats.early + stats.confirmed);
        let ended = self.metrics.dialogs_ended.iter();
        let ended: u64 = ended.map(Counter::value).sum();
        let disowned = &self.metrics.takeovers[Takeover::DialogDisowned as usize];
        assert_eq!(stats.ended, ended + disowned.value());
        assert_eq!(stats.created, self.metrics.dialogs_created.value());
        let (believed, counted) = self.exchange.held_bytes();
        assert_eq!(believed, counted);
        (stats.early, stats.confirmed)
    }

    pub(crate) fn ended_by(&self, ended: Ended) -> u64 {
        self.metrics.dialogs_ended[ended as usize].value()
    }

    pub(crate) fn events(&mut self) -> Vec<CallEvent> {
        let records = self.output.drain_records();
        let events = records.filter_map(|record| match record {
            Record::Call(event) => Some(event),
            Record::Notice(_)
            | Record::Dialog { .. }
            | Record::Dialogs(_)
            | Record::Traced(_)
            | Record::Missed(_) => None,
        });
        events.collect()
    }

    pub(crate) fn changes(&mut self) -> Vec<Change> {
        self.events().iter().map(|event| event.change).collect()
    }
}

pub(crate) fn invite(extra: &str) -> String {
    request("INVITE", AS_BOB, AS_ALICE, "i1", extra)
}

/// Alice calls. Returns the INVITE that Bob gets.
pub(crate) fn call(bench: &mut Bench) -> String {
    let sent = bench.receive(ALICE, &invite(""));
    let (to, forwarded) = sent.into_iter().next_back().expect("a copy");
    assert_eq!(to.to_string(), BOB, "{forwarded}");
    forwarded
}

fn accept(invite: &str) -> String {
    accept_at(invite, &format!("sip:bob@{BOB}"))
}

fn ringing(invite: &str) -> String {
    accept(invite).replace("200 OK", "180 Ringing")
}

pub(crate) fn refuse(invite: &str, status: &str) -> String {
    accept(invite).replace("200 OK", status)
}

fn routes(values: impl Iterator<Item = String>) -> String {
    let mut lines = String::new();
    for value in values {
        lines.extend(["Route: ", &value, "\n"]);
    }
    lines
}

/// A request of Alice inside the dialog that a 2xx has made.
pub(crate) fn from_alice(answered: &str, method: &str, cseq: u32, extra: &str) -> String {
    let routes = routes(recorded(answered).into_iter().rev());
    let uri = format!("sip:bob@{BOB}");
    let branch = format!("{method}{cseq}");
    request(method, &uri, AS_ALICE, &branch, &format!("{routes}{extra}"))
        .replace(&format!("To: <{uri}>"), &format!("To: <{AS_BOB}>;tag=b1"))
        .replace("CSeq: 1", &format!("CSeq: {cseq}"))
}

/// A request of Bob inside the dialog of an INVITE.
pub(crate) fn from_bob(invite: &str, method: &str, cseq: u32) -> String {
    let routes = routes(recorded(invite).into_iter());
    format!(
        "{method} sip:alice@{ALICE} SIP/2.0\nVia: SIP/2.0/UDP {BOB};branch=z9hG4bKbob{method}{cseq}\nMax-Forwards: 70\n\
         From: <{AS_BOB}>;tag=b1\nTo: <{AS_ALICE}>;tag=a1\nCall-ID: call-1\nCSeq: {cseq} {method}\n{routes}Content-Length: 0\n\n"
    )
}

/// A call that Bob has answered and Alice has acknowledged. Returns the INVITE that Bob got, and the 2xx that Alice got.
pub(crate) fn acknowledged_call(bench: &mut Bench) -> (String, String) {
    let invite = call(bench);
    let answered = only(bench.receive(BOB, &accept(&invite)));
    let ack = only(bench.receive(ALICE, &from_alice(&answered, "ACK", 1, "")));
    assert!(ack.starts_with("ACK "), "{ack}");
    (invite, answered)
}

#[test]
fn a_call_begins_rings_is_answered_and_ends_with_the_bye_of_its_caller() {
    let mut bench = node();
    let invite = call(&mut bench);
    assert_eq!(bench.dialogs(), (1, 0));
    assert_eq!(bench.changes(), [Change::Started]);
    bench.wait(Duration::from_secs(1));
    for _ in 0..2 {
        bench.receive(BOB, &ringing(&invite));
        assert_eq!(bench.dialogs(), (1, 0));
    }
    assert_eq!(bench.changes(), [Change::Ringing]);
    bench.wait(Duration::from_secs(1));
    let answered = only(bench.receive(BOB, &accept(&invite)));
    assert_eq!(bench.dialogs(), (0, 1));
    bench.receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
    assert_eq!(bench.changes(), [Change::Answered]);
    bench.wait(Duration::from_secs(60));
    assert_eq!(bench.dialogs(), (0, 1));

    let bye = from_alice(&answered, "BYE", 2, "Reason: Q.850;cause=16\n");
    let bye = only(bench.receive(ALICE, &bye));
    assert_eq!(bench.dialogs(), (0, 1), "until it is answered");
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 0));
    let events = bench.events();
    let [CallEvent { change, call }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(*change, Change::Ended(Ended::ByCaller));
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    assert_eq!(text(&call.call_id), "call-1");
    assert_eq!(
        (text(&call.from), text(&call.from_tag)),
        (AS_ALICE.into(), "a1".into())
    );
    assert_eq!(
        (text(&call.to), text(&call.to_tag)),
        (AS_BOB.into(), "b1".into())
    );
    assert_eq!(text(&call.request_uri), AS_BOB);
    assert_eq!(text(&call.reason), "Q.850;cause=16");
    assert_eq!(call.source.to_string(), ALICE);
    let (destination, _) = call.destination.expect("it was tried");
    assert_eq!(destination.to_string(), BOB);
    assert_eq!((call.status, call.attempts), (200, 1));
    let rang = call.ringing.expect("it rang") - call.started;
    let took = call.answered.expect("an answer") - call.started;
    assert_eq!((rang.as_secs(), took.as_secs()), (1, 2));
    assert_eq!(call.ended, Some(bench.now));
}

#[test]
fn without_events_nothing_is_recorded() {
    let mut settings = settings();
    settings.challenge.clear();
    let mut bench = Bench::new(settings).with_subscribers();
    let contact = crate::bench::register("bob", BOB, 1, "");
    bench.receive(BOB, &contact);
    acknowledged_call(&mut bench);
    assert_eq!(bench.dialogs(), (0, 1));
    assert_eq!(bench.events(), []);
}

#[test]
fn the_callee_hangs_up() {
    let mut bench = node();
    let (invite, _) = acknowledged_call(&mut bench);
    let bye = only(bench.receive(BOB, &from_bob(&invite, "BYE", 1)));
    bench.receive(ALICE, &accept(&bye));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::ByCallee)),
        ((0, 0), 1)
    );
}

#[test]
fn both_parties_hang_up_at_once_and_one_call_ends() {
    let mut bench = node();
    let (invite, answered) = acknowledged_call(&mut bench);
    let to_bob = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    let to_alice = only(bench.receive(BOB, &from_bob(&invite, "BYE", 1)));
    bench.receive(BOB, &accept(&to_bob));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::ByCaller)),
        ((0, 0), 1)
    );
    bench.receive(ALICE, &accept(&to_alice));
    assert_eq!(bench.exchange.dialog_stats().ended, 1);
    // A BYE that comes later is still relayed: the proof allows it. It ends nothing more.
    let late = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 3, "")));
    bench.receive(BOB, &refuse(&late, "481 Gone"));
    assert_eq!(
        (bench.dialogs(), bench.exchange.dialog_stats().ended),
        ((0, 0), 1)
    );
}

#[test]
fn the_bye_of_a_stranger_or_with_a_wrong_tag_ends_nothing() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    let bye = from_alice(&answered, "BYE", 2, "");
    let without_route: String = bye
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("Route"))
        .collect();
    for (what, wrong) in [
        ("no proof", without_route),
        ("another From tag", bye.replace("tag=a1", "tag=a2")),
        ("another To tag", bye.replace("tag=b1", "tag=b2")),
        ("another call", bye.replace("call-1", "call-2")),
    ] {
        let sent = bench.receive(CAROL, &wrong.replace("BYE2", &format!("x{}", what.len())));
        for (_, forwarded) in sent.iter().filter(|(_, text)| text.starts_with("BYE")) {
            bench.receive(BOB, &accept(forwarded));
        }
        assert_eq!(bench.dialogs(), (0, 1), "{what}");
    }
}

#[test]
fn a_refusal_ends_an_early_dialog() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &refuse(&invite, "486 Busy Here"));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::Refused)),
        ((0, 0), 1)
    );
    let events = bench.events();
    assert_eq!(events.last().map(|event| event.call.status), Some(486));
}

#[test]
fn an_invite_without_an_answer_ends_with_408() {
    let mut bench = node();
    call(&mut bench);
    for _ in 0..64 {
        bench.wait(Duration::from_millis(600));
    }
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::NoAnswer)),
        ((0, 0), 1)
    );
    let events = bench.events();
    assert_eq!(events.last().map(|event| event.call.status), Some(408));
}

#[test]
fn a_phone_that_rings_too_long_is_no_answer() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &ringing(&invite));
    let cancel = bench.wait(Duration::from_secs(186));
    let cancel = cancel.iter().find(|(_, text)| text.starts_with("CANCEL"));
    assert!(cancel.is_some());
    bench.receive(BOB, &refuse(&invite, "487 Request Terminated"));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::NoAnswer)),
        ((0, 0), 1)
    );
}

#[test]
fn a_target_that_cannot_be_reached_ends_an_early_dialog() {
    let mut bench = node();
    let sent = bench.receive_on(
        sip_transport::Flow::to(
            sip_transport::ListenerId(0),
            ALICE.parse().expect("address"),
        ),
        &invite(""),
    );
    let (flow, forwarded) = sent.into_iter().next_back().expect("a copy");
    bench.undeliverable(flow, forwarded.as_bytes());
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::Refused)),
        ((0, 0), 1)
    );
}

#[test]
fn a_caller_cancels() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &ringing(&invite));
    let cancel = request("CANCEL", AS_BOB, AS_ALICE, "i1", "Reason: SIP;cause=487\n");
    bench.receive(ALICE, &cancel);
    assert_eq!(bench.dialogs(), (1, 0), "until the INVITE is answered");
    bench.receive(BOB, &refuse(&invite, "487 Request Terminated"));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::ByCaller)),
        ((0, 0), 1)
    );
    let events = bench.events();
    assert_eq!(
        &*events.last().expect("an event").call.reason,
        b"SIP;cause=487"
    );
}

#[test]
fn an_answer_that_crosses_the_cancel_confirms_the_dialog() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &ringing(&invite));
    bench.receive(ALICE, &request("CANCEL", AS_BOB, AS_ALICE, "i1", ""));
    let answered = only(bench.receive(BOB, &accept(&invite)));
    assert_eq!(status(&answered), 200);
    assert_eq!(bench.dialogs(), (0, 1));
    bench.receive(ALICE, &from_alice(&answered, "ACK", 1, ""));
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::ByCaller)),
        ((0, 0), 1)
    );
}

#[test]
fn an_answer_without_an_ack_ends_after_64_t1() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &accept(&invite));
    bench.wait(Duration::from_millis(31_900));
    assert_eq!(bench.dialogs(), (0, 1));
    bench.wait(Duration::from_millis(200));
    assert_eq!((bench.dialogs(), bench.ended_by(Ended::NoAck)), ((0, 0), 1));
}

#[test]
fn the_callee_hangs_up_because_no_ack_came() {
    let mut bench = node();
    let invite = call(&mut bench);
    bench.receive(BOB, &accept(&invite));
    let bye = only(bench.receive(BOB, &from_bob(&invite, "BYE", 1)));
    bench.receive(ALICE, &accept(&bye));
    assert_eq!((bench.dialogs(), bench.ended_by(Ended::NoAck)), ((0, 0), 1));
}

#[test]
fn a_retransmitted_answer_makes_no_second_dialog() {
    let mut bench = node();
    let invite = call(&mut bench);
    for _ in 0..3 {
        only(bench.receive(BOB, &accept(&invite)));
        assert_eq!(bench.dialogs(), (0, 1));
        bench.wait(Duration::from_secs(4));
    }
    assert_eq!(bench.exchange.dialog_stats().created, 1);
}

#[test]
fn an_answer_whose_texts_do_not_fit_makes_one_dialog_that_its_bye_ends() {
    let mut settings = settings();
    settings.limits.held_bytes = 8_000;
    let mut bench = node_with(settings);
    let invite = call(&mut bench);
    let target = format!("sip:{}@{BOB}", "b".repeat(3_000));
    let mut answered = String::new();
    for _ in 0..3 {
        answered = only(bench.receive(BOB, &accept_at(&invite, &target)));
        assert_eq!(bench.dialogs(), (0, 1));
    }
    let in_dialog = |method, cseq| {
        let request = from_alice(&answered, method, cseq, "");
        request.replacen(&format!("sip:bob@{BOB}"), &target, 1)
    };
    only(bench.receive(ALICE, &in_dialog("ACK", 1)));
    let bye = only(bench.receive(ALICE, &in_dialog("BYE", 2)));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 0));
    assert_eq!(bench.ended_by(Ended::ByCaller), 1);
}

#[test]
fn another_to_tag_in_a_second_answer_makes_a_dialog_of_its_own() {
    let mut bench = node();
    let invite = call(&mut bench);
    let first = only(bench.receive(BOB, &accept(&invite)));
    let other = |text: &str| text.replace("tag=b1", "tag=b2");
    for _ in 0..2 {
        only(bench.receive(BOB, &other(&accept(&invite))));
        assert_eq!(bench.dialogs(), (0, 2));
    }
    let second = only(bench.receive(BOB, &other(&accept(&invite))));
    for answered in [&first, &second] {
        let ack = from_alice(answered, "ACK", 1, "");
        let ack = if *answered == second {
            other(&ack)
        } else {
            ack
        };
        only(bench.receive(ALICE, &ack));
    }
    let events = bench.events();
    let mut ids: Vec<u128> = events.iter().map(|event| event.call.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 2);
    let now = u128::from(bench.now.as_micros()) / 1_000;
    assert!(
        ids.iter().all(|id| id >> 80 == now),
        "they begin with the time"
    );
    // Alice ends the second one.
    let bye = other(&from_alice(&second, "BYE", 2, ""));
    let bye = only(bench.receive(ALICE, &bye));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 1));
    bench.wait(Duration::from_secs(60));
    assert_eq!(bench.dialogs(), (0, 1), "the other one is acknowledged");
    let events = bench.events();
    let ended = events.last().expect("an event");
    assert_eq!(
        (&*ended.call.to_tag, ended.change),
        (&b"b2"[..], Change::Ended(Ended::ByCaller))
    );
}

#[test]
fn a_further_answer_that_is_repeated_after_the_bye_begins_no_dialog_again() {
    let mut bench = node();
    let invite = call(&mut bench);
    only(bench.receive(BOB, &accept(&invite)));
    let other = |text: &str| text.replace("tag=b1", "tag=b2");
    let second = only(bench.receive(BOB, &other(&accept(&invite))));
    only(bench.receive(ALICE, &other(&from_alice(&second, "ACK", 1, ""))));
    let bye = other(&from_alice(&second, "BYE", 2, ""));
    let bye = only(bench.receive(ALICE, &bye));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 1));
    bench.receive(BOB, &other(&accept(&invite)));
    assert_eq!(bench.dialogs(), (0, 1));
    assert_eq!(bench.exchange.dialog_stats().created, 2);
}

#[test]
fn a_callee_that_invents_tags_makes_few_dialogs() {
    let mut bench = node();
    let invite = call(&mut bench);
    for number in 0..1_000 {
        let answer = accept(&invite).replace("tag=b1", &format!("tag=b{number}"));
        bench.receive(BOB, &answer);
    }
    assert_eq!(bench.dialogs(), (0, 17));
    bench.wait(Duration::from_secs(33));
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::NoAck)),
        ((0, 0), 17)
    );
}

#[test]
fn a_storm_of_re_invites_makes_no_dialog_and_loses_none() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    for cseq in 2..500 {
        let sent = bench.receive(ALICE, &from_alice(&answered, "INVITE", cseq, ""));
        let (_, forwarded) = sent.into_iter().next_back().expect("a copy");
        bench.receive(BOB, &accept(&forwarded));
        bench.wait(Duration::from_millis(20));
    }
    assert_eq!(
        (bench.dialogs(), bench.exchange.dialog_stats().created),
        ((0, 1), 1)
    );
}

#[test]
fn a_dialog_lives_as_long_as_configured_and_each_refresh_renews_that() {
    let hour = Duration::from_secs(3_600);
    let mut settings = settings();
    settings.proxy.dialog_lifetime = hour;
    let mut bench = node_with(settings);
    let (_, answered) = acknowledged_call(&mut bench);
    bench.wait(hour / 2);
    let sent = bench.receive(ALICE, &from_alice(&answered, "UPDATE", 2, ""));
    let (_, forwarded) = sent.into_iter().next_back().expect("a copy");
    bench.receive(BOB, &accept(&forwarded));
    bench.wait(hour * 3 / 4);
    assert_eq!(bench.dialogs(), (0, 1), "it was refreshed");
    bench.wait(hour / 2);
    assert_eq!(
        (bench.dialogs(), bench.ended_by(Ended::Expired)),
        ((0, 0), 1)
    );
}

#[test]
fn a_full_table_refuses_the_next_call() {
    let mut settings = settings();
    settings.limits.dialogs = 16;
    let mut bench = node_with(settings);
    let mut refused = 0;
    for number in 0..40 {
        let invite = invite("")
            .replace("call-1", &format!("call-{number}"))
            .replace("4bKi1", &format!("4bKi{number}"));
        let sent = bench.receive(ALICE, &invite);
        let last = &sent.last().expect("an answer").1;
        refused += u64::from(status(last) == 503);
        assert!(
            !last.starts_with("SIP/2.0 503") || last.contains("Retry-After"),
            "{last}"
        );
    }
    assert_eq!(bench.metrics.dialogs_refused.value(), refused);
    let (early, _) = bench.dialogs();
    assert_eq!((early + refused, early), (40, 14), "an eighth is reserved");
    assert_eq!(bench.exchange.proxy_stats().live, early);
}

#[test]
fn a_hundred_thousand_calls_that_are_never_answered_leave_nothing() {
    let mut settings = settings();
    settings.proxy.trusted_peers = ["192.0.2.10/32".parse().expect("a network")]
        .into_iter()
        .collect();
    let mut bench = node_with(settings);
    let template = invite("");
    let mut most = 0;
    for number in 0..100_000_u32 {
        let invite = template
            .replace("call-1", &format!("call-{number}"))
            .replace("4bKi1", &format!("4bKi{number}"));
        bench.receive(ALICE, &invite);
        if number.is_multiple_of(1_000) {
            bench.wait(Duration::from_millis(500));
            most = most.max(bench.dialogs().0);
            bench.events();
        }
    }
    assert!(most > 40_000, "{most}");
    for _ in 0..80 {
        bench.wait(Duration::from_millis(500));
        bench.events();
    }
    let stats = bench.exchange.dialog_stats();
    assert_eq!((bench.dialogs(), stats.bytes), ((0, 0), 0));
    assert_eq!(
        stats.created + bench.metrics.dialogs_refused.value(),
        100_000
    );
}

#[test]
fn calls_go_on_while_the_node_drains() {
    let mut bench = node();
    let (_, answered) = acknowledged_call(&mut bench);
    bench
        .exchange
        .control(bench.now, ControlMessage::Drain(true), &mut bench.output);
    assert_eq!(bench.dialogs(), (0, 1));
    let refused = only(bench.receive(
        ALICE,
        &invite("").replace("i1", "i2").replace("call-1", "c2"),
    ));
    assert_eq!(status(&refused), 503);
    assert_eq!(bench.dialogs(), (0, 1));
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 0));
}

#[test]
fn an_invite_that_is_not_record_routed_makes_no_dialog() {
    let mut settings = settings();
    settings.proxy.record_route = false;
    let mut bench = node_with(settings);
    call(&mut bench);
    assert_eq!(bench.dialogs(), (0, 0));
}
