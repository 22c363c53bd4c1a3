//! Bad input to dialogs: the call and its record stay unharmed, and nothing grows.

use crate::bench::{ALICE, BOB, Bench, accept, only, settings, status};
use crate::live_calls::{acknowledged_call, call, from_alice, node_with};
use sip_dialog::{Change, Ended};
use sip_elements::Record;
use std::time::Duration;

const CAROL: &str = "192.0.2.30:5060";

/// How the calls ended that the control plane was told of since the last time.
fn ends(bench: &mut Bench) -> Vec<Change> {
    let records = bench.output.drain_records();
    let changes = records.filter_map(|record| match record {
        Record::Call(event) => Some(event.change),
        Record::Notice(_)
        | Record::Dialog { .. }
        | Record::Dialogs(_)
        | Record::Traced(_)
        | Record::Missed(_) => None,
    });
    let is_end = |change: &Change| matches!(change, Change::Ended(_));
    changes.filter(is_end).collect()
}

#[test]
fn a_bye_of_a_stranger_or_with_a_wrong_tag_is_refused_and_the_right_one_ends_the_call() {
    let mut bench = node_with(settings());
    let (_, answered) = acknowledged_call(&mut bench);
    let bye = from_alice(&answered, "BYE", 2, "");
    for (what, wrong) in [
        ("another From tag", bye.replace("tag=a1", "tag=a2")),
        ("another To tag", bye.replace("tag=b1", "tag=b2")),
        ("no To tag", bye.replace(";tag=b1", "")),
        ("another call", bye.replace("call-1", "call-2")),
        (
            "another target",
            bye.replace("sip:bob@192.0.2.20", "sip:bob@192.0.2.21"),
        ),
    ] {
        let wrong = wrong.replace("BYE2", &format!("x{}", what.len()));
        let refused = only(bench.receive(CAROL, &wrong));
        assert!([403, 481].contains(&status(&refused)), "{what}: {refused}");
        assert_eq!(bench.dialogs(), (0, 1), "{what}");
    }
    assert_eq!(ends(&mut bench), []);
    let bye = only(bench.receive(ALICE, &bye));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(bench.dialogs(), (0, 0));
    assert_eq!(ends(&mut bench), [Change::Ended(Ended::ByCaller)]);
}

#[test]
fn a_storm_of_re_invites_without_an_answer_takes_a_share_and_leaves_the_call_as_it_was() {
    let mut settings = settings();
    settings.limits.server_transactions = 100;
    settings.limits.client_transactions = 100;
    settings.limits.response_contexts = 100;
    let mut bench = node_with(settings);
    let (_, answered) = acknowledged_call(&mut bench);
    let before = (bench.exchange.dialog_stats(), bench.exchange.held_bytes());
    let (mut relayed, mut refused) = (0, 0);
    for cseq in 2..1_002 {
        let sent = bench.receive(ALICE, &from_alice(&answered, "INVITE", cseq, ""));
        relayed += usize::from(sent.iter().any(|(_, text)| text.starts_with("INVITE ")));
        refused += usize::from(sent.iter().any(|(_, text)| status(text) == 503));
    }
    assert_eq!((relayed, refused), (25, 975), "a quarter");
    assert_eq!(bench.metrics.shares_refused.value(), 975);
    assert_eq!(bench.dialogs(), (0, 1));
    for _ in 0..300 {
        bench.wait(Duration::from_secs(1));
    }
    assert_eq!(bench.exchange.transaction_stats().servers_live, 0);
    assert_eq!(bench.exchange.proxy_stats().live, 0);
    let after = (bench.exchange.dialog_stats(), bench.exchange.held_bytes());
    assert_eq!(after, before);
    assert_eq!(ends(&mut bench), []);
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2_000, "")));
    bench.receive(BOB, &accept(&bye));
    assert_eq!(ends(&mut bench), [Change::Ended(Ended::ByCaller)]);
}

#[test]
fn the_life_of_a_call_is_bounded_whatever_session_interval_its_answer_states() {
    let hour = Duration::from_secs(3_600);
    for (stated, expected) in [
        ("Session-Expires: 1;refresher=uac", 90),
        ("Session-Expires: 315360000;refresher=uas", 3_600),
        ("Session-Expires: 4294967296;refresher=uas", 3_600),
        ("Session-Expires: 1800;refresher=uas\nMin-SE: soon", 1_800),
        ("Session-Expires: -1", 3_600),
    ] {
        let mut settings = settings();
        settings.proxy.dialog_lifetime = hour;
        settings.session_timers = Some(sip_dialog::SessionTimerSettings {
            interval: hour / 2,
            min_interval: Duration::from_secs(90),
        });
        let mut bench = node_with(settings);
        let invite = call(&mut bench);
        let answer = accept(&invite).replace("Contact: ", &format!("{stated}\nContact: "));
        let answered = only(bench.receive(BOB, &answer));
        only(bench.receive(ALICE, &from_alice(&answered, "ACK", 1, "")));
        bench.wait(Duration::from_secs(expected - 1));
        assert_eq!(bench.dialogs(), (0, 1), "{stated}");
        bench.wait(Duration::from_secs(2));
        assert_eq!(bench.dialogs(), (0, 0), "{stated}");
        assert_eq!(
            ends(&mut bench),
            [Change::Ended(Ended::Expired)],
            "{stated}"
        );
    }
}

#[test]
fn a_hundred_thousand_invites_of_a_stranger_take_its_share_and_leave_nothing() {
    let mut bench = node_with(settings());
    let invite = crate::bench::request(
        "INVITE",
        "sip:bob@example.org",
        "sip:m@elsewhere.test",
        "i1",
        "",
    );
    let share = settings().limits.response_contexts as u64 / 16;
    let mut refused = 0;
    for number in 0..100_000_u64 {
        let invite = invite
            .replace("call-1", &format!("call-{number}"))
            .replace("4bKi1", &format!("4bKi{number}"));
        let sent = bench.receive(CAROL, &invite);
        refused += u64::from(sent.iter().any(|(_, text)| status(text) == 503));
        if number.is_multiple_of(100) {
            assert_eq!(ends(&mut bench), []);
        }
    }
    assert_eq!(refused, 100_000 - share);
    assert_eq!(bench.metrics.shares_refused.value(), refused);
    assert_eq!(bench.dialogs(), (share, 0));
    let mut ended = 0;
    for _ in 0..300 {
        bench.wait(Duration::from_secs(1));
        ended += ends(&mut bench).len() as u64;
    }
    assert_eq!((bench.dialogs(), ended), ((0, 0), share));
    assert_eq!(bench.exchange.transaction_stats().servers_live, 0);
    assert_eq!(bench.exchange.proxy_stats().live, 0);
    assert_eq!(bench.exchange.held_bytes(), (0, 0));
    assert_eq!(bench.exchange.held_sources(), 0);
}
