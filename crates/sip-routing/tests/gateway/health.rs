//! What calls, probes and operators make of the state of a gateway.

use crate::setup::{START, build, descriptions, gateway};
use proptest::prelude::*;
use sip_routing::gateway::{Gateway, HealthRules, Outcome, State};
use sip_transport::Time;
use std::time::Duration;

/// Plays a script of words, and checks each `=state` in it. `5*word` repeats a word.
///
/// A call ends with `ok` (200), a status (`486`, `503`), `503/20` (with `Retry-After`), `late` (timeout), `lost` (transport error) or
/// `gone` (abandoned). The same with `p:` in front is a probe. `+30` lets seconds pass. `off` and `on` are the operator.
fn play(rules: HealthRules, script: &str) {
    let mut all = descriptions(&["gw"]);
    all.gateways[0].health = rules;
    let gateways = build(all);
    let (gateway, mut now) = (gateway(&gateways, "gw"), START);
    for word in script.split_whitespace() {
        let (times, word) = match word.split_once('*') {
            Some((times, word)) => (times.parse().expect("a number"), word),
            None => (1, word),
        };
        for _ in 0..times {
            step(gateway, &mut now, word, script);
        }
    }
}

fn step(gateway: &Gateway, now: &mut Time, word: &str, script: &str) {
    if let Some(state) = word.strip_prefix('=') {
        assert_eq!(gateway.state(*now).name(), state, "in {script}");
    } else if let Some(seconds) = word.strip_prefix('+') {
        *now = *now + Duration::from_secs(seconds.parse().expect("seconds"));
    } else if let Some(probe) = word.strip_prefix("p:") {
        gateway.probed(outcome(probe), *now);
    } else if word == "off" {
        assert!(gateway.disable(*now));
    } else if word == "on" {
        assert!(gateway.enable(*now));
    } else {
        gateway.call_ended(outcome(word), *now);
    }
}

fn outcome(word: &str) -> Outcome {
    match word {
        "ok" => Outcome::status(200),
        "late" => Outcome::Timeout,
        "lost" => Outcome::TransportError,
        "gone" => Outcome::Abandoned,
        _ => {
            let (status, seconds) = word.split_once('/').unwrap_or((word, "0"));
            let seconds = Duration::from_secs(seconds.parse().expect("seconds"));
            Outcome::Response {
                status: status.parse().expect("a status"),
                retry_after: Some(seconds).filter(|it| !it.is_zero()),
            }
        }
    }
}

#[test]
fn misses_and_answers_in_a_row_change_the_state() {
    for script in [
        "=unprobed p:ok =active",
        "=unprobed p:404 =active",
        "=unprobed ok =active",
        "=unprobed gone =unprobed 500 =unprobed",
        "4*p:late =unprobed p:late =inactive",
        "p:ok 4*p:late =active p:ok 4*p:late =active p:late =inactive",
        "p:ok 5*p:408 =inactive",
        "p:ok 5*p:503 =inactive",
        "p:ok 3*late lost 503 =inactive",
        "p:ok 4*late ok 4*late =active late =inactive",
        "p:ok 4*late 486 late =active",
        "p:ok 4*late 500 408 gone late =inactive",
        "p:ok 2*late 2*p:late =active lost =inactive",
        "5*p:late 4*p:ok =inactive p:late 4*p:ok =inactive p:ok =active",
        "5*p:late 4*p:ok late 4*p:ok =inactive p:ok =active 4*p:late =active",
    ] {
        play(HealthRules::default(), script);
    }
}

#[test]
fn a_gateway_that_asks_for_a_rest_gets_one_and_is_not_blamed_by_all_calls_under_way() {
    for script in [
        "p:ok 503/20 =resting +19 =resting +1 =active",
        "503/20 =resting +20 =unprobed",
        "p:ok 100*503/20 =resting +20 =active",
        "p:ok 503/20 +10 503/20 +10 =resting +9 =resting +1 =active",
        "p:ok 503/20 503/5 +19 =resting +1 =active",
        // Five minutes are the longest rest.
        "p:ok 503/86400 +299 =resting +1 =active",
        // An answer does not end a rest.
        "p:ok 503/20 p:ok ok =resting",
        // Each beginning of a rest is one miss.
        "p:ok 503/1 +1 503/1 +1 503/1 +1 503/1 +1 =active 503/1 =inactive",
        "p:ok 503/1 +1 503/1 +1 503/1 +1 503/1 +1 ok 503/1 =resting +1 =active",
        "p:ok 4*p:late p:503/1 =inactive",
        // Timeouts count during a rest, too.
        "p:ok 503/20 4*late =inactive",
        // A rest that an inactive gateway asks for only sets its answers back.
        "5*late 4*p:ok p:503/20 4*p:ok =inactive p:ok =active",
    ] {
        play(HealthRules::default(), script);
    }
}

#[test]
fn calls_bring_an_inactive_gateway_back_slowly() {
    for script in [
        "5*late 1000*ok =inactive +29 1000*ok =inactive",
        "5*late +30 1000*ok +30 1000*ok +30 1000*ok +30 1000*ok =inactive +30 ok =active",
        "5*late +30 ok +30 ok +30 ok +30 ok =inactive late +30 ok =inactive",
        "5*late +30 2*p:ok 1000*ok =inactive +30 p:ok 1000*ok =active",
    ] {
        play(HealthRules::default(), script);
    }
}

#[test]
fn a_disabled_gateway_stays_out_until_the_operator_puts_it_back() {
    for script in [
        "p:ok off =disabled 100*p:ok 100*ok =disabled +9999 =disabled on =unprobed",
        "5*p:late off on =unprobed",
        "p:ok 503/20 off on =unprobed",
        "off 5*p:late on =unprobed p:ok =active",
    ] {
        play(HealthRules::default(), script);
    }
}

#[test]
fn thresholds_and_weights_are_configurable() {
    let mut rules = HealthRules {
        misses: 3,
        answers: 2,
        interval: Duration::from_secs(10),
        longest_rest: Duration::ZERO,
        ..HealthRules::default()
    };
    rules.weights.timeout = 2;
    rules.weights.transport_error = 3;
    rules.weights.unavailable = 0;
    for script in [
        "p:ok late =active late =inactive",
        "p:ok lost =inactive p:ok =inactive p:ok =active",
        "p:ok 100*503 100*503/20 =active",
        "p:ok 2*p:503/20 =active p:503/20 =inactive",
        "p:ok lost +10 ok +9 ok =inactive +1 ok =active",
    ] {
        play(rules.clone(), script);
    }
    let first = HealthRules {
        misses: 1,
        answers: 1,
        ..HealthRules::default()
    };
    play(first, "late =inactive p:ok =active p:late =inactive");
}

#[test]
fn changes_are_returned_and_counted() {
    let gateways = build(descriptions(&["gw"]));
    let gateway = gateway(&gateways, "gw");
    let mut seen = Vec::new();
    let mut now = START;
    let scripts = [
        "p:ok", "503/20", "late", "p:late", "p:late", "p:late", "p:late",
    ];
    for word in scripts.into_iter().chain(["p:ok"; 6]) {
        now = now + Duration::from_secs(1);
        let change = match word.strip_prefix("p:") {
            Some(probe) => gateway.probed(outcome(probe), now),
            None => gateway.call_ended(outcome(word), now),
        };
        seen.extend(change.map(|it| (it.from, it.to)));
    }
    let expected = [
        (State::Unprobed, State::Active),
        (State::Active, State::Resting),
        (State::Resting, State::Inactive),
        (State::Inactive, State::Active),
    ];
    assert_eq!(seen, expected);
    gateway.disable(now);
    assert!(!gateway.disable(now), "it is out");
    gateway.enable(now + Duration::from_secs(5));
    assert!(!gateway.enable(now), "it is in");
    let statistics = gateway.view(now).statistics;
    assert_eq!((statistics.state_changes, statistics.rests), (5, 1));
    assert_eq!(statistics.changed_at, Some(now + Duration::from_secs(5)));
    assert_eq!(statistics.probes_answered, 7);
}

#[test]
fn what_a_disabled_gateway_answers_late_changes_nothing() {
    let gateways = build(descriptions(&["gw"]));
    let gateway = gateway(&gateways, "gw");
    gateway.disable(START);
    for _ in 0..5 {
        assert_eq!(gateway.probed(Outcome::Timeout, START), None);
    }
    assert_eq!(gateway.view(START).statistics.state_changes, 1);
}

#[test]
fn the_view_shows_how_far_the_gateway_is_from_a_change() {
    let gateways = build(descriptions(&["gw"]));
    let gateway = gateway(&gateways, "gw");
    gateway.call_ended(outcome("503/20"), START);
    gateway.call_ended(Outcome::Timeout, START);
    let view = gateway.view(START);
    assert_eq!((view.misses, view.answers), (2, 0));
    assert_eq!(view.rests_until, Some(START + Duration::from_secs(20)));
    for probe in ["late", "late", "late", "ok", "ok"] {
        gateway.probed(outcome(probe), START);
    }
    let view = gateway.view(START);
    assert_eq!((view.misses, view.answers, view.rests_until), (0, 2, None));
}

proptest! {
    /// Whatever calls and probes say, a gateway comes back only after several intervals: it cannot change its state with every call.
    #[test]
    fn no_sequence_of_signs_brings_a_gateway_back_quickly(
        answers in 1_u8..10,
        misses in 1_u8..10,
        calls in proptest::collection::vec((0_u64..3_000, 0_u8..10, 0_u8..10), 1..600),
    ) {
        let interval = Duration::from_secs(30);
        let mut all = descriptions(&["gw"]);
        all.gateways[0].health = HealthRules { answers, misses, interval, ..HealthRules::default() };
        let gateways = build(all);
        let gateway = gateway(&gateways, "gw");
        let (mut now, mut next_probe, mut left) = (START, START, None);
        for (pause, call, probe) in calls {
            now = now + Duration::from_millis(pause);
            let is_due = next_probe <= now;
            let outcome = |sign| if sign < 8 { Outcome::status(200) } else { Outcome::Timeout };
            let change = if is_due {
                next_probe = next_probe + interval;
                gateway.probed(outcome(probe), now)
            } else {
                gateway.call_ended(outcome(call), now)
            };
            match change.map(|it| it.to) {
                Some(State::Inactive) => left = Some(now),
                Some(State::Active) => if let Some(left) = left.take() {
                    let shortest = interval * u32::from(answers / 2);
                    // A probe that is up to 3 s late here is followed by one that is on time.
                    prop_assert!(now - left + Duration::from_secs(3) >= shortest, "{:?}", now - left);
                },
                _ => {}
            }
        }
    }
}
