//! Large tables: their matches, and their memory. The bench compares what a table says with the allocator.

use super::{GROUPS, plan};
use sip_routing::prefix::{Builder, PrefixTable};
use std::collections::HashSet;

fn table<'p>(prefixes: impl Iterator<Item = &'p str>) -> PrefixTable {
    let mut builder = Builder::new(GROUPS);
    for (prefix, line) in prefixes.zip(1..) {
        let group = line as usize % GROUPS.len();
        builder.row(line, "", prefix, GROUPS[group]);
    }
    builder.build().expect("good rows")
}

#[test]
fn tables_of_all_sizes_find_the_longest_prefix() {
    for count in [300, 3_000, 30_000, 300_000] {
        let prefixes = plan::prefixes(count);
        let table = table(prefixes.iter().map(String::as_str));
        let known: HashSet<&[u8]> = prefixes.iter().map(String::as_bytes).collect();
        for number in plan::numbers(&prefixes, 10_000) {
            let is_prefix = |length: &usize| known.contains(&number[..*length]);
            let longest = (1..=number.len()).rev().find(is_prefix);
            let found = table.lookup("", &number).map(|found| found.length);
            assert_eq!(found, longest, "{}", number.escape_ascii());
        }
    }
}

#[test]
fn a_table_of_300_000_prefixes_takes_less_than_30_mb() {
    let prefixes = plan::prefixes(300_000);
    let table = table(prefixes.iter().map(String::as_str));
    assert_eq!(table.len(), 300_000);
    assert!(table.bytes() < 8_000_000, "{} bytes", table.bytes());
}

#[test]
fn the_memory_does_not_depend_on_the_digits() {
    // A trie needs ten nodes of its own for each of these.
    let digits = (0..300_000_u128).map(|index| format!("49{:030}", index * 0x9e37_79b9_7f4a_7c15));
    let prefixes: Vec<String> = digits.collect();
    let table = table(prefixes.iter().map(String::as_str));
    assert_eq!(table.len(), 300_000);
    assert!(table.bytes() < 15_000_000, "{} bytes", table.bytes());
}

#[test]
fn small_tables_are_small() {
    let mut builder = Builder::new(GROUPS);
    for line in 1..=1_000 {
        builder.row(line, &format!("customer-{line}"), "49", "paris");
    }
    let table = builder.build().expect("good rows");
    assert!(table.bytes() < 200_000, "{} bytes", table.bytes());
}
