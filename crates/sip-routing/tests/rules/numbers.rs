//! Rules and prefixes see the same number, however a caller writes it.

use crate::requests::{Call, compile, list, rule};
use proptest::prelude::*;
use sip_routing::prefix::{Builder, PrefixTable};
use sip_routing::rule::RuleDescription;

/// Which of these patterns matches a user first.
fn first<'p>(patterns: &[&'p str], user: &str) -> Option<&'p str> {
    let rules: Vec<RuleDescription> = patterns
        .iter()
        .map(|pattern| RuleDescription {
            user: list(&[pattern]),
            ..rule(pattern)
        })
        .collect();
    let rules = compile(&rules);
    let uri = format!("sip:{user}@h");
    let call = Call {
        uri: &uri,
        ..Call::default()
    };
    let name = call.first(&rules)?.to_owned();
    patterns.iter().copied().find(|pattern| *pattern == name)
}

/// The table that has a route for each number.
fn every_number() -> PrefixTable {
    let mut builder = Builder::new(["world"]);
    builder.row(1, "", "default", "world");
    builder.build().expect("a table")
}

#[test]
fn a_number_in_disguise_does_not_evade_a_rule() {
    for (pattern, user) in [
        ("+88*", "+8-81623456789A"),
        ("+88*", "+8-81623456789d"),
        ("+88*", "%2B8%2D8162%41"),
        ("+49900*", "++49900123"),
        ("+49900*", "+4+9900123"),
        ("+49900*", "(+49)900123"),
        ("+49900*", "-+49-900123"),
        ("+49900*", "+49-900-123xyz"),
        ("+49900*", "+49-900123p1"),
        ("+49900*", "+49%20900123"),
        ("+49900*", "+49/900123"),
        ("+49900*", "+49-900%3B1"),
        ("+49900*", "+49-900123\u{a0}"),
        ("+49900123", "++49900123;ext=1"),
        ("0900*", "0-900123A"),
        ("0900*", "0-900123x"),
        ("0900*", "0+900123"),
        ("D021*", "d0-21900"),
        ("D021*", "D0-21900+"),
        ("d021*", "D021900"),
        ("[a-d]021*", "D021900"),
        ("c021", "C0-21"),
    ] {
        let patterns = [pattern, "*"];
        assert_eq!(first(&patterns, user), Some(pattern), "{user}");
    }
}

#[test]
fn a_name_is_compared_as_it_is_written() {
    for (pattern, user, is_match) in [
        ("anna-maria", "anna-maria", true),
        ("anna*", "anna-maria", true),
        ("Anna*", "anna-maria", false),
        ("1001-*", "1001-lobby", true),
        ("1001-lobby", "1001-lobby", true),
        ("1001*", "1001-lobby", true),
        ("10-01-lobby", "1001-lobby", true),
        ("b*", "bob", true),
        ("b*", "Bob", false),
        ("b*", "B12", true),
        ("dad", "dad", true),
        ("dad", "DAD", false),
        ("12-monkeys", "12monkeys", false),
    ] {
        let found = first(&[pattern], user);
        assert_eq!(found.is_some(), is_match, "{pattern} {user}");
    }
}

#[test]
fn what_only_looks_like_a_number_has_no_prefix() {
    let table = every_number();
    for user in [
        "++49900",
        "+4+9",
        "(+49)900",
        "-%2B49",
        "+49x",
        "+49p1",
        "+49%20900",
        "+49/1",
        "49%3B1",
        "dad",
        "ABCD",
        "+",
        "+-",
        "%D9%A3",
        "",
    ] {
        assert_eq!(table.lookup("", user.as_bytes()), None, "{user}");
    }
}

proptest! {
    #[test]
    fn a_rule_for_the_digits_that_the_prefix_table_sees_always_matches(
        user in "%2[bB]|[+0-9A-Da-d*#().-]{0,3}([0-9A-Da-d*#().;x-]|%2[dDaA3]|%4[14]|%39){1,8}",
    ) {
        let digits = every_number().explain("", user.as_bytes()).digits;
        prop_assume!(!digits.is_empty());
        let is_global = user.starts_with('+') || user.to_ascii_lowercase().starts_with("%2b");
        let pattern = if is_global { format!("+{digits}") } else { digits };
        let exact = pattern.replace('*', "\\*");
        let prefix = format!("{exact}*");
        prop_assert_eq!(first(&[&exact], &user), Some(exact.as_str()));
        prop_assert_eq!(first(&[&prefix], &user), Some(prefix.as_str()));
        let lower = prefix.to_ascii_lowercase();
        prop_assert_eq!(first(&[&lower], &user), Some(lower.as_str()));
    }
}
