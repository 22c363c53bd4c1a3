//! What a new configuration takes over from the one before.

use crate::requests::{Call, compile, known, list, rule};
use sip_routing::rule::{RuleDescription, RuleSet};

fn counts(rules: &RuleSet) -> Vec<(&str, u64)> {
    rules
        .iter()
        .map(|rule| (rule.name(), rule.matches()))
        .collect()
}

#[test]
fn counters_belong_to_the_name_and_go_on() {
    let named = |name, user| RuleDescription {
        user: list(&[user]),
        ..rule(name)
    };
    let before = compile(&[named("a", "bob"), named("b", "alice")]);
    let call = Call::default();
    assert_eq!(call.first(&before), Some("a"));
    assert_eq!(call.first(&before), Some("a"));

    let rules = [
        named("new", "x"),
        named("b", "y"),
        named("a", "z"),
        rule("rest"),
    ];
    let after = RuleSet::new(&rules, &known(), Some(&before)).expect("rules");
    assert_eq!(
        counts(&after),
        [("new", 0), ("b", 0), ("a", 2), ("rest", 0)]
    );

    // Workers that have not taken over the new set yet count for the same rule.
    assert_eq!(call.first(&before), Some("a"));
    assert_eq!(call.first(&after), Some("rest"));
    assert_eq!(
        counts(&after),
        [("new", 0), ("b", 0), ("a", 3), ("rest", 1)]
    );
}

#[test]
fn only_the_matching_rule_counts() {
    let rules = compile(&[
        RuleDescription {
            user: list(&["alice"]),
            ..rule("a")
        },
        rule("b"),
    ]);
    for _ in 0..3 {
        Call::default().first(&rules);
    }
    assert_eq!(counts(&rules), [("a", 0), ("b", 3)]);
}
