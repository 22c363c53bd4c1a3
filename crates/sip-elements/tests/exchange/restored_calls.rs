//! A node that is started again: it knows the dialogs that it has recorded, and they end as they would have.

use crate::bench::{ALICE, BOB, Bench, accept_at, only, settings};
use crate::live_calls::{acknowledged_call, from_alice};
use sip_dialog::Ended;
use sip_elements::{Exchange, ExchangeOptions, Record, Settings};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a database holds: the states by id.
type Saved = BTreeMap<u128, Box<[u8]>>;

fn persistent() -> Settings {
    let mut settings = settings();
    settings.dialogs.persist = true;
    settings
}

/// Writes what the node has recorded since the last time.
fn save(bench: &mut Bench, saved: &mut Saved) {
    for record in bench.output.drain_records() {
        if let Record::Dialog { id, state, .. } = record {
            match state {
                Some(state) => saved.insert(id, state),
                None => saved.remove(&id),
            };
        }
    }
}

/// The same node after a restart.
fn restarted(before: &Bench, settings: Settings, saved: &Saved) -> Bench {
    let mut bench = crate::live_calls::node_with(settings);
    bench.now = before.now + Duration::from_secs(5);
    for state in saved.values() {
        assert!(bench.exchange.restore(bench.now, state));
    }
    bench
}

#[test]
fn a_restored_dialog_ends_with_its_bye() {
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    let (_, answered) = acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    assert_eq!(saved.len(), 1);

    let mut bench = restarted(&bench, persistent(), &saved);
    assert_eq!(bench.dialogs(), (0, 1));
    bench.wait(Duration::from_secs(60));
    assert_eq!(bench.dialogs(), (0, 1));
    let bye = only(bench.receive(ALICE, &from_alice(&answered, "BYE", 2, "")));
    bench.receive(BOB, &crate::bench::accept(&bye));
    assert_eq!(bench.dialogs(), (0, 0));
    assert_eq!(bench.ended_by(Ended::ByCaller), 1);
    let records: Vec<Record> = bench.output.drain_records().collect();
    let [
        Record::Call(event),
        Record::Dialog {
            id, state: None, ..
        },
    ] = &records[..]
    else {
        panic!("{records:?}")
    };
    assert_eq!((&*event.call.call_id, *id), (&b"call-1"[..], event.call.id));
    assert_eq!(event.call.source.to_string(), ALICE);
    assert!(saved.contains_key(id), "the same id as before");
}

fn save_and_expect(bench: &mut Bench, saved: &mut Saved, left: usize) {
    save(bench, saved);
    assert_eq!(saved.len(), left);
}

#[test]
fn an_early_dialog_is_not_recorded_and_a_failed_one_leaves_nothing() {
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    let invite = crate::live_calls::call(&mut bench);
    save_and_expect(&mut bench, &mut saved, 0);
    bench.receive(
        BOB,
        &crate::bench::accept(&invite).replace("200 OK", "486 Busy"),
    );
    save_and_expect(&mut bench, &mut saved, 0);
}

#[test]
fn a_target_that_changed_before_the_restart_is_still_reached() {
    const MOVED: &str = "192.0.2.29:5060";
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    let (_, answered) = acknowledged_call(&mut bench);
    let sent = bench.receive(ALICE, &from_alice(&answered, "UPDATE", 2, ""));
    let (_, forwarded) = sent.into_iter().next_back().expect("a copy");
    bench.receive(BOB, &accept_at(&forwarded, &format!("sip:bob@{MOVED}")));
    save(&mut bench, &mut saved);
    let to_moved = |cseq| {
        from_alice(&answered, "INFO", cseq, "").replace(
            &format!("INFO sip:bob@{BOB}"),
            &format!("INFO sip:bob@{MOVED}"),
        )
    };

    let mut forgetful = restarted(&bench, persistent(), &Saved::new());
    let refused = only(forgetful.receive(ALICE, &to_moved(3)));
    assert!(refused.starts_with("SIP/2.0 481 "), "{refused}");

    let mut bench = restarted(&bench, persistent(), &saved);
    let sent = bench.receive(ALICE, &to_moved(3));
    assert_eq!(sent.last().expect("a copy").0.to_string(), MOVED);
    // A stranger gains nothing from it.
    let elsewhere = to_moved(4).replace(MOVED, "203.0.113.7:5060");
    let refused = only(bench.receive(ALICE, &elsewhere));
    assert!(refused.starts_with("SIP/2.0 481 "), "{refused}");
}

#[test]
fn a_restored_dialog_lives_no_longer_than_it_would_have() {
    let hour = Duration::from_secs(3_600);
    let mut settings = persistent();
    settings.proxy.dialog_lifetime = hour;
    settings.dialogs.bye_at_end = true;
    let mut bench = crate::live_calls::node_with(settings.clone());
    let mut saved = Saved::new();
    acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    bench.now = bench.now + hour / 2;
    let mut restored = restarted(&bench, settings.clone(), &saved);
    let sent = restored.wait(hour / 2);
    assert_eq!(sent.len(), 2, "two BYEs: {sent:#?}");
    assert_eq!(restored.dialogs(), (0, 0));
    assert_eq!(restored.ended_by(Ended::Expired), 1);
}

#[test]
fn a_call_whose_life_was_over_while_its_node_was_down_has_a_record() {
    let hour = Duration::from_secs(3_600);
    let mut settings = persistent();
    settings.proxy.dialog_lifetime = hour;
    settings.dialogs.bye_at_end = true;
    let mut bench = crate::live_calls::node_with(settings.clone());
    let mut saved = Saved::new();
    acknowledged_call(&mut bench);
    let answered = bench.now;
    save(&mut bench, &mut saved);
    bench.now = bench.now + hour * 3;
    let mut restored = restarted(&bench, settings, &saved);
    let sent = restored.wait(Duration::from_millis(1));
    assert_eq!(
        sent,
        [],
        "no BYE to addresses that may have other users by now"
    );
    assert_eq!(restored.dialogs(), (0, 0));
    assert_eq!(restored.ended_by(Ended::Expired), 1);
    let events = restored.events();
    let ended = events.last().and_then(|event| event.call.ended);
    assert_eq!(ended, Some(answered + hour));
}

/// The machine wrote the state while its clock was years ahead.
#[test]
fn a_clock_that_is_set_back_lets_no_restored_dialog_live_longer_than_a_new_one() {
    let hour = Duration::from_secs(3_600);
    let mut settings = persistent();
    settings.proxy.dialog_lifetime = hour;
    let mut bench = crate::live_calls::node_with(settings.clone());
    let actual = bench.now;
    bench.now = actual + hour * 24 * 365 * 10;
    bench.receive(BOB, &crate::bench::register("bob", BOB, 2, ""));
    let mut saved = Saved::new();
    let (_, answered) = acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    bench.now = actual;
    let mut restored = restarted(&bench, settings, &saved);
    restored.wait(Duration::from_secs(3_599));
    assert_eq!(restored.dialogs(), (0, 1));
    let sent = restored.receive(ALICE, &from_alice(&answered, "INFO", 2, ""));
    assert!(sent.iter().any(|(_, text)| text.starts_with("INFO ")));
    restored.wait(Duration::from_secs(2));
    assert_eq!(restored.dialogs(), (0, 0));
    assert_eq!(restored.ended_by(Ended::Expired), 1);
}

#[test]
fn bytes_that_are_no_state_restore_nothing() {
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    let state = saved.values().next().expect("a state");
    let mut other = crate::live_calls::node_with(persistent());
    for length in 0..state.len() {
        assert!(
            !other.exchange.restore(other.now, &state[..length]),
            "{length}"
        );
    }
    let mut newer = state.clone();
    newer[0] = 4;
    assert!(!other.exchange.restore(other.now, &newer));
    assert_eq!(other.dialogs(), (0, 0));
    // What a newer version appends is skipped.
    let longer = [&state[..], b"later"].concat();
    assert!(other.exchange.restore(other.now, &longer));
    assert_eq!(other.dialogs(), (0, 1));
}

#[test]
fn a_state_of_a_former_version_is_restored() {
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    let state = saved.values().next().expect("a state");
    // The first had neither the name of a gateway nor that of a limit. Neither had those who diverted the call. All are empty here.
    for (version, missing) in [(1, 6), (2, 2)] {
        let (former, names) = state.split_at(state.len() - missing);
        assert!(names.iter().all(|byte| *byte == 0));
        let mut other = crate::live_calls::node_with(persistent());
        let former = [&[version], &former[1..]].concat();
        assert!(other.exchange.restore(other.now, &former));
        assert_eq!(other.dialogs(), (0, 1), "version {version}");
    }
}

#[test]
fn the_home_of_a_state_and_no_other_worker_restores_it() {
    let mut bench = crate::live_calls::node_with(persistent());
    let mut saved = Saved::new();
    acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    let state = saved.values().next().expect("a state");
    for workers in 1..=5 {
        let home = Exchange::home_of_dialog(state, workers).expect("a home");
        assert!(home < workers);
        for worker in 0..workers {
            let mut exchange = Exchange::new(ExchangeOptions {
                worker,
                workers,
                shared: Arc::clone(&bench.shared),
                settings: Arc::new(persistent()),
                metrics: Arc::default(),
                seed: [7; 32],
                now: bench.now,
            });
            assert_eq!(exchange.restore(bench.now, state), worker == home);
        }
    }
    assert_eq!(Exchange::home_of_dialog(&state[1..], 5), None);
    assert_eq!(Exchange::home_of_dialog(b"", 5), None);
}

#[test]
fn the_answer_to_a_session_refresh_before_the_restart_prolongs_the_dialog_once() {
    let with_timers = || {
        let mut settings = persistent();
        settings.session_timers = Some(sip_dialog::SessionTimerSettings {
            interval: Duration::from_secs(600),
            min_interval: Duration::from_secs(90),
        });
        settings
    };
    let mut bench = crate::live_calls::node_with(with_timers());
    let mut saved = Saved::new();
    let (_, answered) = acknowledged_call(&mut bench);
    save(&mut bench, &mut saved);
    bench.wait(Duration::from_secs(300));
    let sent = bench.receive(ALICE, &from_alice(&answered, "INVITE", 2, ""));
    let (_, forwarded) = sent.into_iter().next_back().expect("a copy");

    let mut bench = restarted(&bench, with_timers(), &saved);
    let expires = |saved: &Saved, bench: &mut Bench| {
        let mut saved = saved.clone();
        save(bench, &mut saved);
        saved.into_values().next().expect("a state")
    };
    let before = expires(&saved, &mut bench);
    let answer = crate::bench::accept(&forwarded)
        .replace("Contact: ", "Session-Expires: 600;refresher=uac\nContact: ");
    let passed = only(bench.receive(BOB, &answer));
    assert!(passed.starts_with("SIP/2.0 200 "), "{passed}");
    let after = expires(&saved, &mut bench);
    assert_ne!(before, after, "the dialog is prolonged, and saved");
    bench.wait(Duration::from_secs(100));
    only(bench.receive(BOB, &answer));
    assert_eq!(
        bench.output.drain_records().count(),
        0,
        "a repetition prolongs nothing"
    );
    let forged = answer.replace("CSeq: 2 ", "CSeq: 3 ");
    assert_eq!(bench.receive(BOB, &forged), []);
}
