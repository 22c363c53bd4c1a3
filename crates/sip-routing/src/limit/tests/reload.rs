//! The next configuration takes over what the previous one has counted.

use super::*;

#[test]
fn live_calls_buckets_and_counts_survive_a_reload() {
    let mut description = Description {
        overall: rate(1.0, 5),
        networks: vec![network("carrier", &["10.0.0.0/8"], max_calls(2))],
        each_source: Some(each(rate(1.0, 2), 10)),
        each_subscriber: Some(each(max_calls(2), 10)),
        named: vec![named("rule", max_calls(2))],
    };
    let before = limits(&description);
    let call = Call {
        subscriber: Some(b"alice@example.org"),
        rule: before.named("rule").map(|limit| &**limit),
        ..from("10.0.0.1")
    };
    let permits = before.admit(&call, at(0)).expect("a permit");
    description.overall = rate(10.0, 50);
    let after = Limits::new(&description, Some(&before)).expect("a description");
    let counts = |limits: &Limits| -> Vec<_> {
        let stats = limits.stats();
        stats.map(|stats| (stats.live, stats.admitted)).collect()
    };
    assert_eq!(counts(&after), [(1, 1); 3]);
    assert_eq!(after.source_calls(call.source), 1);
    assert_eq!(after.subscriber_calls(b"alice@example.org"), 1);
    let call = Call {
        rule: after.named("rule").map(|limit| &**limit),
        ..call
    };
    let second = after.admit(&call, at(0)).expect("a permit");
    assert_eq!(refused(&after, &call, 0), ("source", Excess::Rate));
    // A worker that still has the previous configuration counts with the others.
    assert_eq!(
        refused(&before, &from("10.0.0.2"), 0),
        ("carrier", Excess::Calls)
    );
    drop(permits);
    assert_eq!(counts(&after), [(1, 2); 3]);
    drop((before, second));
    assert_eq!(counts(&after), [(0, 2); 3]);
}

#[test]
fn a_lowered_maximum_lets_no_new_call_in_until_enough_have_ended() {
    let with = |most| Description {
        each_source: Some(each(max_calls(most), 10)),
        overall: max_calls(most),
        ..Description::default()
    };
    let before = limits(&with(3));
    let call = from("192.0.2.1");
    let mut permits: Vec<_> = (0..3)
        .map(|_| before.admit(&call, at(0)).expect("a permit"))
        .collect();
    let after = Limits::new(&with(2), Some(&before)).expect("a description");
    for _ in 0..2 {
        assert_eq!(refused(&after, &call, 0), ("source", Excess::Calls));
        permits.pop();
    }
    let permit = after.admit(&call, at(0)).expect("a permit");
    assert_eq!(refused(&after, &call, 0), ("source", Excess::Calls));
    let raised = Limits::new(&with(3), Some(&after)).expect("a description");
    drop((
        permits,
        permit,
        raised.admit(&call, at(0)).expect("a permit"),
    ));
    assert_eq!(raised.overall().stats().live, 0);
}

#[test]
fn a_limit_keeps_its_counts_when_its_networks_change() {
    let with = |networks: &[&str]| Description {
        networks: vec![network("carrier", networks, max_calls(1))],
        ..Description::default()
    };
    let before = limits(&with(&["10.0.0.0/8"]));
    let permits = before.admit(&from("10.0.0.1"), at(0)).expect("a permit");
    let after = Limits::new(&with(&["192.0.2.0/24"]), Some(&before)).expect("a description");
    assert_eq!(
        refused(&after, &from("192.0.2.1"), 0),
        ("carrier", Excess::Calls)
    );
    drop(permits);
    assert!(after.admit(&from("192.0.2.1"), at(0)).is_ok());
}

#[test]
fn a_removed_limit_ends_with_its_last_call() {
    let description = Description {
        networks: vec![network("carrier", &["10.0.0.0/8"], max_calls(1))],
        each_source: Some(each(max_calls(1), 10)),
        ..Description::default()
    };
    let before = limits(&description);
    let call = from("10.0.0.1");
    let permits = before.admit(&call, at(0)).expect("a permit");
    let after = Limits::new(&Description::default(), Some(&before)).expect("a description");
    drop(before);
    assert!(after.admit(&call, at(0)).is_ok());
    assert_eq!(after.overall().stats().live, 1);
    drop(permits);
    assert_eq!(after.overall().stats().live, 0);
}

#[test]
fn a_limit_that_a_reload_gives_networks_is_no_limit_of_rules_any_more() {
    let of_rule = Description {
        named: vec![named("it", max_calls(2))],
        ..Description::default()
    };
    let of_network = Description {
        networks: vec![network("it", &["10.0.0.0/8"], max_calls(2))],
        ..Description::default()
    };
    let before = limits(&of_rule);
    assert!(before.of_rule("it").is_some());
    let after = Limits::new(&of_network, Some(&before)).expect("a description");
    assert!(after.of_rule("it").is_none());
    assert!(after.named("it").is_some());
}
