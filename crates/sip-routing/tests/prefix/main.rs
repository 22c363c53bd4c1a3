//! The prefix table: what matches, what is rejected, and its memory.

mod bad_rows;
mod csv;
mod lookup;
mod memory;
#[path = "../../benches/prefix/plan.rs"]
mod plan;

use sip_routing::prefix::{Builder, Match, PrefixTable, Problem};

/// The configured gateway groups.
const GROUPS: [&str; 4] = ["berlin", "london", "paris", "tokyo"];

/// A table of rows `table, prefix, groups`.
fn table(rows: &[(&str, &str, &str)]) -> PrefixTable {
    let mut builder = Builder::new(GROUPS);
    for ((table, prefix, groups), line) in rows.iter().zip(1..) {
        builder.row(line, table, prefix, groups);
    }
    builder.build().expect("good rows")
}

/// The bad rows among these, with their lines.
fn problems(rows: &[(&str, &str, &str)]) -> Vec<(u32, Problem)> {
    let mut builder = Builder::new(GROUPS);
    for ((table, prefix, groups), line) in rows.iter().zip(1..) {
        builder.row(line, table, prefix, groups);
    }
    let bad = builder.build().expect_err("a bad row");
    let rows = bad.first().iter();
    rows.map(|row| (row.line, row.problem.clone())).collect()
}

/// The length of a match and its groups, as they were written.
fn shown(found: Option<Match<'_>>) -> Option<(usize, String)> {
    found.map(|found| {
        let groups: Vec<&str> = found.routes.groups().collect();
        (found.length, groups.join(";"))
    })
}
