//! The method `rules.list`.
use crate::config::Keyword;
use crate::control::Running;
use serde_json::{Value, json};
use sip_routing::rule::{Decision, Rule};

/// All rules in order, with what they do and how often they matched.
pub(in crate::admin::methods) fn rules(running: &Running) -> Value {
    let policy = running.policy.load();
    let rules: Vec<Value> = policy.rules.iter().map(shown).collect();
    json!({ "rules": rules })
}

pub(super) fn shown(rule: &Rule) -> Value {
    json!({
        "name": rule.name(),
        "action": action(rule.decision()),
        "to": target(rule.decision()),
        "authenticate": rule.authentication().map(Keyword::word),
        "limit": rule.limit().map(|limit| &*limit.name),
        "matches": rule.matches(),
    })
}

/// The word in the configuration.
const fn action(decision: &Decision) -> &'static str {
    match decision {
        Decision::Refuse(_) => "refuse",
        Decision::Redirect(_) => "redirect",
        Decision::Group(_) => "group",
        Decision::Prefixes(_) => "prefixes",
        Decision::Local => "local",
        Decision::Stateless(_) => "stateless",
        Decision::Balance(_) => "balance",
    }
}

/// Where the rule sends a request, or how it refuses it.
fn target(decision: &Decision) -> String {
    match decision {
        Decision::Refuse(refusal) => match &refusal.reason {
            Some(reason) => format!("{} {reason}", refusal.status),
            None => refusal.status.to_string(),
        },
        Decision::Redirect(contacts) => contacts.join(", "),
        Decision::Group(reference)
        | Decision::Prefixes(reference)
        | Decision::Balance(reference) => reference.name.to_string(),
        Decision::Local => String::new(),
        Decision::Stateless(destination) => crate::config::NextHop(destination.clone()).uri(),
    }
}
