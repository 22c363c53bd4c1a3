//! The results of `prefixes.lookup`, `prefixes.reload` and `prefixes.stats` as text.
use crate::ctl::table::Table as Rows;
use crate::ctl::text::{duration, memory};
use serde::Deserialize;
use std::fmt;

/// The result of `prefixes.lookup`.
#[derive(Deserialize)]
pub(super) struct Found {
    table: Option<String>,
    digits: String,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    prefix: String,
    groups: Vec<String>,
}

impl fmt::Display for Found {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(table) = &self.table else {
            return writeln!(
                formatter,
                "there is neither this table nor the table default"
            );
        };
        if self.candidates.is_empty() {
            return writeln!(formatter, "{}: no prefix in table {table}", self.digits);
        }
        let mut rows = Rows::new(["PREFIX", "GROUPS", ""]);
        for (index, candidate) in self.candidates.iter().enumerate() {
            let decides = if index == 0 { "decides" } else { "" };
            rows.row([&candidate.prefix, &candidate.groups.join(", "), &decides]);
        }
        write!(formatter, "{} in table {table}:\n{rows}", self.digits)
    }
}

/// The result of `prefixes.reload`.
#[derive(Deserialize)]
pub(super) struct Reloaded {
    prefixes: usize,
    milliseconds: u64,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "reloaded {} prefixes in {} ms",
            self.prefixes, self.milliseconds
        )
    }
}

/// The result of `prefixes.stats`.
#[derive(Deserialize)]
pub(super) struct Table {
    source: Option<String>,
    prefixes: usize,
    bytes: u64,
    lists: usize,
    tables: Vec<Part>,
    read_ago: Option<u64>,
    read_in_milliseconds: Option<u64>,
    reloads: u64,
    failures: u64,
}

#[derive(Deserialize)]
struct Part {
    name: String,
    prefixes: usize,
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(source) = &self.source else {
            return writeln!(formatter, "no prefixes: `prefixes.source` is \"none\"");
        };
        let mut facts = Rows::default();
        facts.row([&"source", source]);
        facts.row([&"prefixes", &self.prefixes]);
        facts.row([&"memory", &memory(self.bytes)]);
        facts.row([&"lists of groups", &self.lists]);
        if let (Some(ago), Some(took)) = (self.read_ago, self.read_in_milliseconds) {
            facts.row([&"read", &format!("{} ago, in {took} ms", duration(ago))]);
        }
        let reloads = format!("{} applied, {} rejected", self.reloads, self.failures);
        facts.row([&"reloads", &reloads]);
        facts.fmt(formatter)?;
        if self.tables.is_empty() {
            return Ok(());
        }
        let mut rows = Rows::new(["TABLE", "PREFIXES"]);
        for table in &self.tables {
            rows.row([&table.name, &table.prefixes]);
        }
        write!(formatter, "\n{rows}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_prefix_of_a_number_decides() {
        let found = json!({ "table": "retail", "digits": "4930123", "candidates": [
            { "prefix": "4930", "groups": ["berlin-a", "berlin-b"] },
            { "prefix": "49", "groups": ["de"] },
        ] });
        let found: Found = serde_json::from_value(found).expect("the fields");
        let expected = "\
4930123 in table retail:
PREFIX  GROUPS
  4930  berlin-a, berlin-b  decides
    49  de
";
        assert_eq!(found.to_string(), expected);
        let none = json!({ "table": "default", "digits": "1", "candidates": [] });
        let none: Found = serde_json::from_value(none).expect("the fields");
        assert_eq!(none.to_string(), "1: no prefix in table default\n");
    }
}
