//! The attributes of a destination of `dispatcher`: `duid=abc;weight=50;socket=udp:192.0.2.1:5060`.

use super::dispatcher_problem::{DispatcherProblem, excerpt};

/// What is used of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes<'r> {
    /// `duid`; empty if there is none.
    pub(super) id: &'r str,
    /// `weight`.
    pub(super) weight: Option<u16>,
    /// `rweight`.
    pub(super) relative_weight: Option<u16>,
    /// `maxload`; `None` for no maximum.
    pub(super) max_calls: Option<u32>,
}

/// The largest weight of Kamailio.
const MAX_WEIGHT: u16 = 100;

impl<'r> Attributes<'r> {
    /// Reads the attributes. `problem` gets each one that is not used.
    pub(super) fn parse(text: &'r str, mut problem: impl FnMut(DispatcherProblem)) -> Self {
        let mut found = Self::default();
        for part in split(text) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if let Err(it) = found.set(name.trim(), unquoted(value.trim())) {
                problem(it);
            }
        }
        found
    }

    fn set(&mut self, name: &str, value: &'r str) -> Result<(), DispatcherProblem> {
        match &*name.to_ascii_lowercase() {
            "" => {}
            "duid" => self.id = value,
            "weight" => self.weight = Some(weight("weight", value)?),
            "rweight" => self.relative_weight = Some(weight("rweight", value)?),
            "maxload" => {
                let most: u32 = value.parse().map_err(|_| bad_value("maxload", value))?;
                self.max_calls = (most > 0).then_some(most);
            }
            lower => {
                return Err(DispatcherProblem::Unused {
                    attribute: excerpt(name),
                    because: because(lower),
                });
            }
        }
        Ok(())
    }
}

/// Why an attribute is not used.
fn because(name: &str) -> &'static str {
    match name {
        "socket" | "sockname" => "Tandem sends from the listener that reaches the gateway",
        "obproxy" => "probes go to the gateway itself",
        "ping_from" => "probes have the From of Tandem",
        "latency" => "no algorithm depends on the latency",
        "cc" | "ocmin" | "ocmax" | "ocrate" => {
            "a gateway that answers 503 with Retry-After rests instead"
        }
        _ => "only a routing script would know what it means",
    }
}

fn weight(attribute: &'static str, value: &str) -> Result<u16, DispatcherProblem> {
    let number = value.parse().ok();
    let allowed = number.filter(|number| (1..=MAX_WEIGHT).contains(number));
    allowed.ok_or_else(|| bad_value(attribute, value))
}

fn bad_value(attribute: &'static str, value: &str) -> DispatcherProblem {
    DispatcherProblem::BadValue {
        attribute,
        value: excerpt(value),
    }
}

/// The parts between semicolons that are not in quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |character| {
        quoted ^= character == '"';
        character == ';' && !quoted
    })
}

fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Attributes<'_>, Vec<String>) {
        let mut problems = Vec::new();
        let found = Attributes::parse(text, |it| problems.push(it.to_string()));
        (found, problems)
    }

    #[test]
    fn attributes_are_read_in_any_case_and_order_with_and_without_quotes() {
        let (found, problems) = parse(" DUID = \"a;b\" ;Weight=50; rweight=2;maxload=20;");
        let expected = Attributes {
            id: "a;b",
            weight: Some(50),
            relative_weight: Some(2),
            max_calls: Some(20),
        };
        assert_eq!((found, problems), (expected, Vec::new()));
        for nothing in ["maxload=0", "", ";;"] {
            assert_eq!(parse(nothing), (Attributes::default(), Vec::new()));
        }
    }

    #[test]
    fn what_is_not_used_is_named_with_the_reason() {
        for (text, words) in [
            ("socket=udp:192.0.2.1:5060", ["socket", "listener"]),
            ("obproxy=sip:192.0.2.1", ["obproxy", "probes"]),
            ("latency=20", ["latency", "algorithm"]),
            ("ocmax=50", ["ocmax", "Retry-After"]),
            ("pipe=p10", ["pipe", "script"]),
            ("weight=0", ["weight=0", "1 to 100"]),
            ("rweight=101", ["rweight=101", "1 to 100"]),
            ("weight", ["weight=", "1 to 100"]),
            ("maxload=-1", ["maxload=-1", "whole number"]),
        ] {
            let (found, problems) = parse(text);
            assert_eq!(found, Attributes::default(), "{text}");
            let [problem] = &*problems else {
                panic!("{text}: {problems:?}");
            };
            assert!(words.iter().all(|word| problem.contains(word)), "{problem}");
        }
    }
}
