//! What is wrong with rules, for the operator.

use super::glob::MAX_ELEMENTS;
use super::set::MAX_RULES;

/// A mistake in a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule \"{rule}\": {problem}")]
pub struct RuleMistake {
    /// The name of the rule. A rule without a name is called by its number, from 1: `#3`.
    pub rule: String,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("there are more than {MAX_RULES} rules")]
    TooManyRules,
    #[error("the rule has no name, which its counter needs")]
    NoName,
    #[error("another rule has the same name")]
    DuplicateName,
    #[error(
        "the rule has no decision; add one of refuse, redirect, group, prefixes, local, stateless, balance"
    )]
    NoDecision,
    #[error("the rule has {} decisions ({}); keep one of them", .0.len(), .0.join(", "))]
    SeveralDecisions(Vec<&'static str>),
    #[error("{key} is empty; omit it, or add an entry")]
    EmptyList { key: &'static str },
    #[error("{key} has {count} entries; at most {most} are allowed")]
    TooManyEntries {
        key: &'static str,
        count: usize,
        most: usize,
    },
    #[error("{key}: \"{name}\" is unknown; {}", list_names(.known))]
    Unknown {
        key: &'static str,
        name: String,
        known: Vec<String>,
    },
    #[error("source: the network that contains {address} is \"{network}\"")]
    HostBits { address: String, network: String },
    #[error("method: \"{0}\" is not a method, which has letters, digits and -.!%*_+`'~ only")]
    NotMethod(String),
    #[error(
        "method: {0} never reaches the rules; it follows the request that it acknowledges or cancels"
    )]
    FollowingMethod(String),
    #[error("{key}: the pattern \"{pattern}\" {problem}")]
    Pattern {
        key: &'static str,
        pattern: String,
        problem: PatternProblem,
    },
    #[error("the conditions {one} and {other} never hold together: {why}")]
    Contradiction {
        one: &'static str,
        other: &'static str,
        why: &'static str,
    },
    #[error("refuse.status is {0}; it must be from 300 to 699")]
    Status(u16),
    #[error("refuse.status is {status}, which needs the header field {field}; {hint}")]
    StatusNeedsField {
        status: u16,
        field: &'static str,
        hint: &'static str,
    },
    #[error("{key}: \"{uri}\" is not a {allowed} URI")]
    Uri {
        key: &'static str,
        uri: String,
        allowed: &'static str,
    },
    #[error("{key}: \"{name}\" is not the name of a header field")]
    HeaderName { key: &'static str, name: String },
    #[error("{key}: {name} cannot be changed by a rule, because {why}")]
    ProtectedHeader {
        key: &'static str,
        name: String,
        why: &'static str,
    },
    #[error("{key}: {name} is in the list twice, or also in remove_header")]
    RepeatedHeader { key: &'static str, name: String },
    #[error(
        "{key}: the text \"{value}\" is empty, longer than {most} bytes, or contains a control character such as a line end"
    )]
    Text {
        key: &'static str,
        value: String,
        most: usize,
    },
    #[error("{key}: a rule that {does} forwards nothing, so it changes nothing; omit {key}")]
    UselessEdit {
        key: &'static str,
        does: &'static str,
    },
    #[error("prefix: \"{0}\" may contain letters, digits, + and * only, and 32 characters at most")]
    Prefix(String),
    #[error("the rule never matches, because \"{0}\" above it matches every request")]
    BehindCatchAll(String),
    #[error("the rule never matches, because \"{0}\" above it matches everything that it matches")]
    Covered(String),
}

/// What is wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PatternProblem {
    #[error("is empty, and matches nothing; use \"*\" for any value")]
    Empty,
    #[error("contains a control character")]
    Control,
    #[error("is longer than {MAX_ELEMENTS} characters")]
    TooLong,
    #[error("has a [ without ]; write \\[ for the character itself")]
    Unclosed,
    #[error(
        "has brackets that are empty or not a range of letters or digits in ascending order, such as [0-4]"
    )]
    Class,
    #[error("ends with a \\; write \\\\ for the character itself")]
    Escape,
    #[error("begins with a scheme, which no user does; a user is what stands before the @")]
    Scheme,
    #[error("contains an escape; write the character, because users are unescaped first")]
    Percent,
    #[error(
        "contains a visual separator or a second +, which numbers are compared without; omit it"
    )]
    Separator,
    #[error(
        "matches no domain or address; write it without user, port and scheme, such as \"*.example.org\""
    )]
    NotDomain,
}

/// Says which names there are.
fn list_names(names: &[String]) -> String {
    if names.is_empty() {
        "the configuration has none".to_owned()
    } else {
        format!("known are: {}", names.join(", "))
    }
}
