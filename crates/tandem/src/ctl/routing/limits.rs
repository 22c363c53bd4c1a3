//! The results of `limits.list` and `rules.list` as text.
use crate::ctl::table::{NONE, Table};
use serde::Deserialize;
use std::fmt;

/// The result of `limits.list`.
#[derive(Deserialize)]
pub(super) struct Limits {
    limits: Vec<Limit>,
    each: Vec<Each>,
}

#[derive(Deserialize)]
struct Limit {
    name: String,
    scope: String,
    max_calls: Option<u32>,
    calls_per_second: Option<f64>,
    live: u32,
    highest: u32,
    admitted: u64,
    refused: Refused,
}

/// The limit of each source or each subscriber.
#[derive(Deserialize)]
struct Each {
    scope: String,
    max_calls: Option<u32>,
    calls_per_second: Option<f64>,
    keys: usize,
    max_keys: usize,
    highest: u32,
    refused: Refused,
    overflowed: u64,
}

#[derive(Deserialize)]
struct Refused {
    rate: u64,
    calls: u64,
}

impl fmt::Display for Limits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "LIMIT",
            "OF",
            "MAX CALLS",
            "PER SECOND",
            "CALLS",
            "HIGHEST",
            "ADMITTED",
            "REFUSED, CALLS",
            "REFUSED, RATE",
        ]);
        for limit in &self.limits {
            table.row([
                &limit.name,
                &limit.scope,
                &bound(limit.max_calls),
                &bound(limit.calls_per_second),
                &limit.live,
                &limit.highest,
                &limit.admitted,
                &limit.refused.calls,
                &limit.refused.rate,
            ]);
        }
        table.fmt(formatter)?;
        if self.each.is_empty() {
            return Ok(());
        }
        let mut table = Table::new([
            "LIMIT OF EACH",
            "MAX CALLS",
            "PER SECOND",
            "KNOWN",
            "TABLE",
            "HIGHEST",
            "REFUSED, CALLS",
            "REFUSED, RATE",
            "SHARED",
        ]);
        for limit in &self.each {
            table.row([
                &limit.scope,
                &bound(limit.max_calls),
                &bound(limit.calls_per_second),
                &limit.keys,
                &limit.max_keys,
                &limit.highest,
                &limit.refused.calls,
                &limit.refused.rate,
                &limit.overflowed,
            ]);
        }
        write!(formatter, "\n{table}")
    }
}

fn bound<N: fmt::Display>(bound: Option<N>) -> String {
    bound.map_or_else(|| NONE.to_owned(), |bound| bound.to_string())
}

/// The result of `rules.list`.
#[derive(Deserialize)]
pub(super) struct Rules {
    rules: Vec<Rule>,
}

/// A rule.
#[derive(Deserialize)]
pub(super) struct Rule {
    name: String,
    action: String,
    to: String,
    authenticate: Option<String>,
    limit: Option<String>,
    matches: u64,
}

impl Rule {
    /// What the rule does.
    pub(super) fn described(&self) -> String {
        let to = match self.to.as_str() {
            "" => String::new(),
            to => format!(" {to}"),
        };
        format!("{}{to}", self.action)
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return writeln!(formatter, "no rules");
        }
        let mut table = Table::new(["RULE", "ACTION", "AUTHENTICATE", "LIMIT", "MATCHES"]);
        for rule in &self.rules {
            let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| NONE.to_owned());
            table.row([
                &rule.name,
                &rule.described(),
                &or_none(&rule.authenticate),
                &or_none(&rule.limit),
                &rule.matches,
            ]);
        }
        table.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_with_a_name_come_before_those_of_each_source() {
        let refused = json!({ "rate": 1, "calls": 2 });
        let limits = json!({
            "limits": [{
                "name": "carrier-a", "scope": "network", "max_calls": 30, "calls_per_second": 0.5, "live": 3, "highest": 30,
                "admitted": 900, "refused": refused,
            }],
            "each": [{
                "scope": "source", "max_calls": null, "calls_per_second": 5.0, "keys": 7, "max_keys": 100, "highest": 4, "refused": refused,
                "overflowed": 0,
            }],
        });
        let limits: Limits = serde_json::from_value(limits).expect("the fields");
        let expected = "\
LIMIT      OF       MAX CALLS  PER SECOND  CALLS  HIGHEST  ADMITTED  REFUSED, CALLS  REFUSED, RATE
carrier-a  network         30         0.5      3       30       900               2              1

LIMIT OF EACH  MAX CALLS  PER SECOND  KNOWN  TABLE  HIGHEST  REFUSED, CALLS  REFUSED, RATE  SHARED
source         -                   5      7    100        4               2              1       0
";
        assert_eq!(limits.to_string(), expected);
    }

    #[test]
    fn rules_show_where_they_send_requests() {
        let rules = json!({ "rules": [
            { "name": "scan", "action": "refuse", "to": "403", "authenticate": null, "limit": null, "matches": 12 },
            { "name": "ours", "action": "local", "to": "", "authenticate": "trust", "limit": "x", "matches": 0 },
        ] });
        let rules: Rules = serde_json::from_value(rules).expect("the fields");
        let expected = "\
RULE  ACTION      AUTHENTICATE  LIMIT  MATCHES
scan  refuse 403  -             -           12
ours  local       trust         x            0
";
        assert_eq!(rules.to_string(), expected);
    }
}
