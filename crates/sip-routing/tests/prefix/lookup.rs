//! Which prefix matches.

use super::{GROUPS, shown, table};
use proptest::prelude::*;
use sip_routing::prefix::{Builder, Candidate, PrefixTable};
use std::collections::BTreeMap;

fn check(table: &PrefixTable, group: &str, number: &str, expected: Option<(usize, &str)>) {
    let expected = expected.map(|(length, groups)| (length, groups.to_owned()));
    let found = shown(table.lookup(group, number.as_bytes()));
    assert_eq!(found, expected, "{group}: {number}");
}

#[test]
fn the_longest_prefix_wins() {
    let table = table(&[
        ("", "49", "paris"),
        ("", "4930", "berlin;paris"),
        ("", "+4930901820", "tokyo"),
        ("", "0049", "london"),
        ("", "*21#", "london"),
        ("", "D018", "london"),
    ]);
    for (number, expected) in [
        ("4930901820", Some((10, "tokyo"))),
        ("493090182", Some((4, "berlin;paris"))),
        ("+4930901821", Some((4, "berlin;paris"))),
        ("+49(40)1-2", Some((2, "paris"))),
        ("49", Some((2, "paris"))),
        ("4", None),
        ("5", None),
        ("00493090", Some((4, "london"))),
        ("*21#030", Some((4, "london"))),
        ("*21%23030", Some((4, "london"))),
        ("D0184930", Some((4, "london"))),
        ("alice", None),
        ("4930x", None),
        ("", None),
    ] {
        check(&table, "", number, expected);
    }
}

#[test]
fn prefixes_longer_than_telephone_numbers_match() {
    let digits = "12345678901234567890123456789012";
    let prefix = |length: usize| &digits[..length];
    let table = table(&[
        ("", prefix(1), "berlin"),
        ("", prefix(15), "london"),
        ("", prefix(16), "paris"),
        ("", prefix(32), "tokyo"),
    ]);
    for (length, expected) in [
        (14, (1, "berlin")),
        (15, (15, "london")),
        (16, (16, "paris")),
        (31, (16, "paris")),
        (32, (32, "tokyo")),
    ] {
        check(&table, "", prefix(length), Some(expected));
    }
    check(&table, "", &format!("{digits}99"), Some((32, "tokyo")));
    check(&table, "", "1234567890123499", Some((1, "berlin")));
}

#[test]
fn the_default_prefix_matches_other_numbers_and_no_names() {
    let table = table(&[("", "default", "paris"), ("", "49", "berlin")]);
    check(&table, "", "4930", Some((2, "berlin")));
    check(&table, "", "44", Some((0, "paris")));
    check(&table, "", "alice", None);
}

#[test]
fn a_group_without_a_table_uses_the_default_one() {
    let table = table(&[("retail", "49", "berlin"), ("", "44", "london")]);
    check(&table, "wholesale", "4420", Some((2, "london")));
    check(&table, "default", "4420", Some((2, "london")));
    check(&table, "retail", "4930", Some((2, "berlin")));
    // A customer's own table is the list of what this customer may dial.
    check(&table, "retail", "4420", None);
}

#[test]
fn an_empty_table_has_no_match() {
    let table = table(&[]);
    assert!(table.is_empty());
    check(&table, "", "49", None);
    assert_eq!(table.explain("retail", b"49").table, None);
}

#[test]
fn rows_may_be_repeated_with_the_same_groups() {
    let table = table(&[
        ("", "49", "berlin;paris"),
        ("default", " +49 ", " berlin ; paris"),
        ("", "default", "paris"),
        ("", "default", "paris"),
        ("", "12345678901234567890", "paris"),
        ("", "12345678901234567890", "paris"),
    ]);
    assert_eq!(table.len(), 3);
    assert_eq!(table.lists().len(), 2);
    assert_eq!(table.tables().collect::<Vec<_>>(), [("default", 3)]);
}

#[test]
fn an_explanation_lists_all_prefixes_on_the_way() {
    let table = table(&[
        ("", "default", "tokyo"),
        ("", "4", "london"),
        ("", "4930", "berlin"),
        ("", "4931", "paris"),
        ("", "4930123456789012", "paris;berlin"),
        ("retail", "1", "paris"),
    ]);
    let explained = table.explain("wholesale", b"+49 30".trim_ascii());
    assert_eq!(explained.digits, "", "a space is not dialled");
    assert_eq!(explained.candidates, []);

    let explained = table.explain("wholesale", b"+49-30-1234567890123");
    assert_eq!(explained.table, Some("default"));
    assert_eq!(explained.digits, "49301234567890123");
    let candidates: Vec<(&str, Vec<&str>)> = explained
        .candidates
        .iter()
        .map(|Candidate { prefix, routes }| (prefix.as_str(), routes.groups().collect()))
        .collect();
    assert_eq!(
        candidates,
        [
            ("4930123456789012", vec!["paris", "berlin"]),
            ("4930", vec!["berlin"]),
            ("4", vec!["london"]),
            ("default", vec!["tokyo"]),
        ]
    );
    assert_eq!(table.explain("retail", b"49").table, Some("retail"));
}

/// Few symbols, so that prefixes are near to each other.
fn digits(lengths: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    let symbols = prop_oneof![
        8 => Just('0'), 4 => Just('1'), 1 => Just('9'), 1 => Just('*'), 1 => Just('#'), 1 => Just('D'),
    ];
    prop::collection::vec(symbols, lengths).prop_map(String::from_iter)
}

fn prefixes() -> impl Strategy<Value = String> {
    prop_oneof![6 => digits(1..8), 1 => digits(12..33), 1 => Just("default".to_owned())]
}

proptest! {
    #[test]
    fn lookups_equal_a_search_of_all_rows(
        rows in prop::collection::vec((0..3_usize, prefixes(), 0..4_usize), 0..200),
        numbers in prop::collection::vec((0..4_usize, digits(0..40)), 100),
    ) {
        let names = ["default", "retail", "wholesale", "none"];
        // The last row of a prefix counts.
        let rows: BTreeMap<(&str, &str), usize> = rows
            .iter()
            .map(|(table, prefix, group)| ((names[*table], prefix.as_str()), *group))
            .collect();
        let mut builder = Builder::new(GROUPS);
        for (((table, prefix), group), line) in rows.iter().zip(1..) {
            builder.row(line, table, prefix, GROUPS[*group]);
        }
        let table = builder.build().expect("good rows");
        prop_assert_eq!(table.len(), rows.len());
        // Each prefix is a number, too: prefixes and their neighbours are met.
        let prefixes = rows.keys().map(|(table, prefix)| (*table, (*prefix).to_owned()));
        let others = numbers.into_iter().map(|(table, number)| (names[table], number));
        for (name, number) in prefixes.chain(others) {
            let used = if rows.keys().any(|row| row.0 == name) { name } else { "default" };
            let digits = |prefix: &str| if prefix == "default" { 0 } else { prefix.len() };
            let is_number = number.contains(|symbol| symbol != 'D') && number != "default";
            let mut matches: Vec<(usize, String)> = rows
                .iter()
                .filter(|((table, prefix), _)| *table == used && is_number && number.starts_with(&prefix[..digits(prefix)]))
                .map(|((_, prefix), group)| (digits(prefix), GROUPS[*group].to_owned()))
                .collect();
            matches.sort_unstable_by(|one, other| other.cmp(one));
            prop_assert_eq!(shown(table.lookup(name, number.as_bytes())), matches.first().cloned());
            let explained = table.explain(name, number.as_bytes());
            prop_assert_eq!(explained.candidates.len(), matches.len());
            for (candidate, (length, group)) in explained.candidates.iter().zip(&matches) {
                let prefix = if *length == 0 { "default" } else { &number[..*length] };
                prop_assert_eq!(&candidate.prefix, prefix);
                prop_assert_eq!(candidate.routes.groups().next(), Some(group.as_str()));
            }
        }
    }

    #[test]
    fn no_number_panics(number in prop::collection::vec(any::<u8>(), 0..100)) {
        let table = table(&[("", "1", "paris"), ("", "12345678901234567890", "berlin")]);
        let found = table.lookup("", &number).map(|found| found.length);
        let explained = table.explain("", &number);
        prop_assert_eq!(found, explained.candidates.first().map(|candidate| candidate.prefix.len()));
    }
}
