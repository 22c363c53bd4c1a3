//! Wrong descriptions are rejected with a message that says what to do.

use super::*;

fn check(description: &Description, message: &str) {
    let error = Limits::new(description, None).expect_err("an error");
    assert_eq!(error.to_string(), message);
}

fn overall(calls_per_second: Option<f64>, burst: Option<u32>) -> Description {
    Description {
        overall: Declared {
            calls_per_second,
            burst,
            max_calls: None,
        },
        ..Description::default()
    }
}

#[test]
fn impossible_rates_and_bursts_are_rejected() {
    for (rate, text) in [
        (-1.0, "-1"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (0.0001, "0.0001"),
        (100_000.5, "100000.5"),
    ] {
        let expected = format!(
            r#"limit "overall": {text} calls per second is not possible; allowed are 0 (no calls) and 0.001 to 100000"#
        );
        check(&overall(Some(rate), None), &expected);
    }
    for burst in [0, 1_000_001] {
        let expected = format!(
            r#"limit "overall": a burst of {burst} calls is not possible; allowed are 1 to 1000000"#
        );
        check(&overall(Some(1.0), Some(burst)), &expected);
        check(&overall(Some(0.0), Some(burst)), &expected);
    }
    check(
        &overall(None, Some(5)),
        r#"limit "overall" has a burst but no calls per second; set both, or remove the burst"#,
    );
}

#[test]
fn without_a_burst_a_second_may_arrive_at_once() {
    for (calls_per_second, burst) in [(0.5, 1), (1.0, 1), (2.5, 3), (100.0, 100)] {
        let limits = limits(&overall(Some(calls_per_second), None));
        let calls = (0..1000).take_while(|_| limits.admit(&from("::1"), at(0)).is_ok());
        assert_eq!(calls.count(), burst, "{calls_per_second}");
    }
}

#[test]
fn tables_without_room_are_rejected() {
    for max_keys in [0, MAX_KEYS + 1] {
        let description = Description {
            each_subscriber: Some(each(Declared::default(), max_keys)),
            ..Description::default()
        };
        let expected = format!(
            r#"limit "subscriber": a table of {max_keys} entries is not possible; allowed are 1 to 16777216"#
        );
        check(&description, &expected);
    }
}

#[test]
fn names_are_unique_and_not_reserved() {
    let networks = |name| vec![network(name, &["10.0.0.0/8"], Declared::default())];
    let rules = |name| vec![named(name, Declared::default())];
    let description = |networks, named| Description {
        networks,
        named,
        ..Description::default()
    };
    check(
        &description(networks("a"), rules("a")),
        r#"two limits have the name "a"; rename one of them"#,
    );
    check(
        &description(networks(" "), vec![]),
        "limit 1 of the networks has no name; give it one",
    );
    check(
        &description(vec![], rules("")),
        "limit 1 of the rules has no name; give it one",
    );
    for (name, meaning) in [
        ("overall", "the limit of all calls"),
        ("source", "the limit of each source address"),
        ("subscriber", "the limit of each subscriber"),
        ("none", "rules whose calls pass all limits"),
    ] {
        let expected =
            format!(r#"the name "{name}" is reserved for {meaning}; choose another name"#);
        check(&description(vec![], rules(name)), &expected);
    }
}

#[test]
fn equal_networks_are_rejected_and_nested_ones_are_not() {
    let two = |one: &[&str], other: &[&str]| Description {
        networks: vec![
            network("a", one, Declared::default()),
            network("b", other, Declared::default()),
        ],
        ..Description::default()
    };
    check(
        &two(&["10.0.0.0/8"], &["10.1.2.3/8"]),
        r#"limit "b": network 10.1.2.3/8 is already in limit "a"; remove it from one of them"#,
    );
    check(
        &two(&["10.0.0.0/8"], &["::ffff:10.0.0.0/104"]),
        r#"limit "b": network ::ffff:10.0.0.0/104 is already in limit "a"; remove it from one of them"#,
    );
    check(
        &two(&["::/0", "::/0"], &["10.0.0.0/8"]),
        r#"limit "a": network ::/0 is already in limit "a"; remove it from one of them"#,
    );
    check(
        &two(&["10.0.0.0/8"], &[]),
        r#"limit "b" has no network; list at least one, such as 192.0.2.0/24"#,
    );
    limits(&two(&["10.0.0.0/8", "::/0"], &["10.0.0.0/9", "0.0.0.0/0"]));
}
