//! One call through several limits.

use super::*;

#[test]
fn the_places_of_a_call_take_40_bytes() {
    assert_eq!(size_of::<Permits>(), 40);
    assert_eq!(size_of::<Option<Permits>>(), 48);
}

#[test]
fn without_limits_calls_are_counted() {
    let limits = limits(&Description::default());
    let permits = limits.admit(&from("192.0.2.1"), at(0)).expect("a permit");
    let stats = limits.overall().stats();
    assert_eq!((stats.live, stats.highest, stats.admitted), (1, 1, 1));
    drop(permits);
    let stats = limits.overall().stats();
    assert_eq!((stats.live, stats.highest, stats.admitted), (0, 1, 1));
    assert_eq!(limits.each_stats().count(), 0);
}

#[test]
fn each_limit_refuses_with_its_name_and_bound() {
    let description = Description {
        overall: max_calls(4),
        networks: vec![network("carrier", &["10.0.0.0/8"], max_calls(1))],
        each_source: Some(each(rate(1.0, 2), 100)),
        each_subscriber: Some(each(max_calls(1), 100)),
        named: vec![named("test line", rate(0.5, 1))],
    };
    let limits = limits(&description);
    let test_line = limits.named("test line").map(|limit| &**limit);
    let alice = Call {
        subscriber: Some(b"alice@example.org"),
        ..from("192.0.2.1")
    };
    let tester = Call {
        rule: test_line,
        ..from("192.0.2.3")
    };
    let (carrier, other) = (from("10.9.9.9"), from("192.0.2.2"));
    let mut permits = Vec::new();
    for call in [&alice, &tester, &carrier, &other] {
        permits.push(limits.admit(call, at(0)).expect("a permit"));
    }
    assert_eq!(refused(&limits, &alice, 0), ("subscriber", Excess::Calls));
    assert_eq!(refused(&limits, &tester, 0), ("test line", Excess::Rate));
    assert_eq!(refused(&limits, &carrier, 0), ("carrier", Excess::Calls));
    assert_eq!(refused(&limits, &other, 0), ("overall", Excess::Calls));
    permits.pop();
    permits.push(limits.admit(&other, at(0)).expect("a permit"));
    assert_eq!(refused(&limits, &other, 0), ("source", Excess::Rate));
    let all: Vec<_> = limits
        .stats()
        .map(|stats| (stats.name, stats.live))
        .collect();
    assert_eq!(all, [("carrier", 1), ("test line", 1), ("overall", 4)]);
    drop(permits);
    assert!(limits.stats().all(|stats| stats.live == 0));
    let carrier = limits.named("carrier").map(|limit| limit.stats());
    let carrier = carrier.map(|stats| (stats.admitted, stats.refused_by_calls, stats.highest));
    assert_eq!(carrier, Some((1, 1, 1)));
}

#[test]
fn a_refused_call_charges_no_limit() {
    let description = Description {
        overall: max_calls(1),
        networks: vec![network("all", &["0.0.0.0/0"], rate(1.0, 2))],
        each_source: Some(each(rate(1.0, 2), 100)),
        each_subscriber: Some(each(rate(1.0, 2), 100)),
        named: vec![named("rule", rate(1.0, 2))],
    };
    let limits = limits(&description);
    let call = Call {
        subscriber: Some(b"alice@example.org"),
        rule: limits.named("rule").map(|limit| &**limit),
        ..from("192.0.2.1")
    };
    let permits = limits.admit(&call, at(0)).expect("a permit");
    for _ in 0..100 {
        assert_eq!(refused(&limits, &call, 0), ("overall", Excess::Calls));
    }
    assert_eq!(limits.source_calls(call.source), 1);
    drop(permits);
    drop(limits.admit(&call, at(0)).expect("a permit"));
    assert_eq!(refused(&limits, &call, 0), ("source", Excess::Rate));
    let stats = limits.overall().stats();
    assert_eq!((stats.admitted, stats.refused_by_calls), (2, 100));
    let rule = limits.named("rule").map(|limit| limit.stats().highest);
    assert_eq!(rule, Some(1), "refused calls are not live");
}

#[test]
fn a_limit_of_zero_refuses_every_call() {
    for (bounds, excess) in [(max_calls(0), Excess::Calls), (rate(0.0, 1), Excess::Rate)] {
        let overall = limits(&Description {
            overall: bounds,
            ..Description::default()
        });
        let blocked = limits(&Description {
            networks: vec![network("blocked", &["10.0.0.0/8"], bounds)],
            ..Description::default()
        });
        let source = limits(&Description {
            each_source: Some(each(bounds, 10)),
            ..Description::default()
        });
        for (limits, name) in [
            (overall, "overall"),
            (blocked, "blocked"),
            (source, "source"),
        ] {
            for second in [0, 1, 3600] {
                let found = refused(&limits, &from("10.1.1.1"), second * 1_000_000);
                assert_eq!(found, (name, excess));
            }
            assert!(limits.each_stats().all(|stats| stats.keys == 0));
            assert!(limits.stats().all(|stats| stats.live == 0));
        }
    }
}

#[test]
fn a_call_counts_towards_its_smallest_network_only() {
    let limits = limits(&Description {
        networks: vec![
            network("outer", &["10.0.0.0/8", "2001:db8::/32"], max_calls(1)),
            network("inner", &["10.1.0.0/16"], max_calls(1)),
        ],
        ..Description::default()
    });
    let name = |address: &str| {
        let limit = limits.network(address.parse().expect("an address"));
        limit.map(Limit::name)
    };
    assert_eq!(name("10.1.2.3"), Some("inner"));
    assert_eq!(name("::ffff:10.1.2.3"), Some("inner"));
    assert_eq!(name("10.2.2.3"), Some("outer"));
    assert_eq!(name("2001:db8::1"), Some("outer"));
    assert_eq!(name("192.0.2.1"), None);
    let inner = limits.admit(&from("10.1.2.3"), at(0)).expect("a permit");
    let outer = limits.admit(&from("10.2.2.3"), at(0)).expect("a permit");
    let other = refused(&limits, &from("2001:db8::1"), 0);
    assert_eq!(other, ("outer", Excess::Calls), "one limit, two networks");
    drop((inner, outer));
}

#[test]
fn addresses_of_an_ipv6_64_network_are_one_source() {
    let limits = limits(&Description {
        each_source: Some(each(max_calls(1), 10)),
        ..Description::default()
    });
    let one = limits
        .admit(&from("2001:db8:0:1::1"), at(0))
        .expect("a permit");
    let same = refused(&limits, &from("2001:db8:0:1:ffff::2"), 0);
    assert_eq!(same, ("source", Excess::Calls));
    let next = limits
        .admit(&from("2001:db8:0:2::1"), at(0))
        .expect("a permit");
    let mut sources = Vec::new();
    limits.for_each_source(|source, live| sources.push((source.to_string(), live)));
    sources.sort();
    let expected = [("2001:db8:0:1::", 1), ("2001:db8:0:2::", 1)];
    assert_eq!(
        sources,
        expected.map(|(source, live)| (source.to_owned(), live))
    );
    drop((one, next));
}

#[test]
fn very_long_names_that_begin_alike_share_a_limit() {
    let limits = limits(&Description {
        each_subscriber: Some(each(max_calls(1), 10)),
        ..Description::default()
    });
    let (one, other) = ([b'a'; 256], [b'a'; 300]);
    let call = |name| Call {
        subscriber: Some(name),
        ..from("192.0.2.1")
    };
    let permits = limits.admit(&call(&one), at(0)).expect("a permit");
    assert_eq!(
        refused(&limits, &call(&other), 0),
        ("subscriber", Excess::Calls)
    );
    assert_eq!(limits.subscriber_calls(&other), 1);
    drop(permits);
}

#[test]
fn restored_calls_count_beyond_the_maximum_and_charge_nothing() {
    let description = Description {
        overall: Declared {
            max_calls: Some(2),
            ..rate(1.0, 1)
        },
        networks: vec![network("blocked", &["10.0.0.0/8"], max_calls(0))],
        each_source: Some(each(max_calls(1), 10)),
        each_subscriber: Some(each(max_calls(0), 10)),
        named: Vec::new(),
    };
    let limits = limits(&description);
    let call = Call {
        subscriber: Some(b"alice@example.org"),
        ..from("10.0.0.1")
    };
    let mut restored: Vec<_> = (0..3).map(|_| limits.restore(&call)).collect();
    assert_eq!(limits.source_calls(call.source), 3);
    assert_eq!(limits.subscriber_calls(b"alice@example.org"), 3);
    assert_eq!(
        limits.network(call.source).map(|limit| limit.stats().live),
        Some(3)
    );
    let stats = limits.overall().stats();
    assert_eq!((stats.live, stats.highest, stats.admitted), (3, 3, 0));
    let new = from("192.0.2.1");
    assert_eq!(refused(&limits, &new, 0), ("overall", Excess::Calls));
    restored.pop();
    assert_eq!(refused(&limits, &new, 0), ("overall", Excess::Calls));
    restored.pop();
    drop(limits.admit(&new, at(0)).expect("a permit"));
    restored.clear();
    assert_eq!(limits.overall().stats().live, 0);
    assert_eq!(limits.sweep(at(1_000_000), 10).removed, 3);
}

#[test]
fn a_refusal_reads_well() {
    let limits = limits(&Description {
        networks: vec![network("carrier-a", &["10.0.0.0/8"], max_calls(0))],
        ..Description::default()
    });
    let refused = limits
        .admit(&from("10.0.0.1"), at(0))
        .expect_err("a refusal");
    assert_eq!(
        refused.to_string(),
        r#"limit "carrier-a": too many calls at the same time"#
    );
    assert_eq!(
        (refused.scope.label(), refused.excess.label()),
        ("network", "calls")
    );
}
