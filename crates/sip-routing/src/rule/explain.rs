//! Why a rule matches a request or not, for the operator.

use super::condition::{Condition, Part};
use super::conditions::{Conditions, HeaderCondition};
use super::facts::Values;
use std::fmt;

/// The maximum length of a value that is shown, in bytes.
const MAX_SHOWN: usize = 128;

/// What became of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The name of the rule.
    pub rule: Box<str>,
    /// Whether it matched.
    pub outcome: Outcome,
}

/// Whether a rule matched, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All conditions hold.
    Matched,
    /// A condition does not hold. The ones behind it are not tested.
    Failed {
        /// The condition.
        condition: Condition,
        /// The value of the request that was compared, normalized and shortened to 128 bytes. `None`: the request has no such value.
        value: Option<String>,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        match &self.outcome {
            Outcome::Matched => write!(f, "{rule}: matches"),
            Outcome::Failed { condition, value } => match value {
                Some(value) => write!(f, "{rule}: {} is \"{value}\"", condition.key()),
                None => write!(f, "{rule}: the request has no {}", condition.key()),
            },
        }
    }
}

/// The value that a condition of a rule was compared with.
pub(super) fn value(
    condition: Condition,
    conditions: &Conditions,
    values: &Values<'_, '_>,
    listeners: &[Box<str>],
) -> Option<String> {
    let facts = &values.facts;
    let text = |part| {
        Some(shown(
            &values
                .text(part)?
                .bytes()
                .take(MAX_SHOWN)
                .collect::<Vec<u8>>(),
        ))
    };
    match condition {
        Condition::Method => Some(shown(facts.method().as_bytes())),
        Condition::Source => values.source.map(|source| source.to_string()),
        Condition::Listener => {
            let listener = listeners.get(usize::from(facts.arrival?.listener.0));
            listener.map(ToString::to_string)
        }
        Condition::Transport => Some(facts.arrival?.protocol.via_token().to_ascii_lowercase()),
        Condition::User => text(Part::User),
        Condition::Domain => text(Part::Domain),
        Condition::FromUser => text(Part::FromUser),
        Condition::FromDomain => text(Part::FromDomain),
        Condition::ToUser => text(Part::ToUser),
        Condition::ToDomain => text(Part::ToDomain),
        Condition::Header if facts.arrival.is_none() => None,
        Condition::Header => header_values(conditions.headers.as_deref()?, values),
    }
}

/// The values of all header fields that a rule names.
fn header_values(headers: &[HeaderCondition], values: &Values<'_, '_>) -> Option<String> {
    let found = headers.iter().flat_map(|header| {
        let name = header.name.as_str();
        let values = header.name.values(values.facts.request);
        values.map(move |value| [name.as_bytes(), b": ", value].concat())
    });
    let found: Vec<Vec<u8>> = found.take(4).collect();
    (!found.is_empty()).then(|| shown(&found.join(&b", "[..])))
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..MAX_SHOWN).unwrap_or(bytes)).into_owned()
}
