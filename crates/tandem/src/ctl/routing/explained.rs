//! The result of `routes.explain` as text.
use super::limits::Rule;
use super::prefixes::Found;
use crate::ctl::services::Forwarding;
use crate::ctl::table::{Table, printable};
use serde::Deserialize;
use std::fmt;

/// What would become of a request.
#[derive(Deserialize)]
pub(super) struct Explained {
    steps: Vec<Step>,
    rule: Option<Rule>,
    way: String,
    request_uri: String,
    limits: Vec<String>,
    prefixes: Option<Found>,
    groups: Vec<Group>,
    subscriber: Option<Subscriber>,
}

#[derive(Deserialize)]
struct Step {
    why: String,
}

/// The subscriber that the request is for.
#[derive(Deserialize)]
struct Subscriber {
    address: String,
    alias: bool,
    contacts: u64,
    forwarding: Option<Forwarding>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    gateway: String,
    verdict: String,
    /// The called number that the gateway gets, if it is not that of the Request-URI.
    called: Option<String>,
}

impl Member {
    /// The call tries all gateways that are up before the last resort of any group.
    fn rank(&self) -> u8 {
        match &*self.verdict {
            "try" => 0,
            "last resort" => 1,
            _ => 2,
        }
    }
}

impl Explained {
    /// The members of all groups in the order in which the call would try them, then the others.
    fn members(&self) -> Table {
        let groups = self.groups.iter();
        let mut all = groups.flat_map(|group| group.members.iter());
        let are_rewritten = all.any(|member| member.called.is_some());
        let mut members = if are_rewritten {
            Table::new(["GROUP", "GATEWAY", "VERDICT", "CALLED"])
        } else {
            Table::new(["GROUP", "GATEWAY", "VERDICT"])
        };
        let rows = self.groups.iter();
        let rows = rows.flat_map(|group| group.members.iter().map(move |it| (&group.name, it)));
        let mut rows: Vec<(&String, &Member)> = rows.collect();
        rows.sort_by_key(|(_, member)| member.rank());
        for (group, member) in rows {
            let (gateway, verdict) = (&member.gateway, &member.verdict);
            match &member.called {
                Some(called) => members.row([group, gateway, verdict, called]),
                None => members.row([group, gateway, verdict]),
            }
        }
        members
    }
}

impl fmt::Display for Subscriber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alias = if self.alias { " by an alias" } else { "" };
        let contacts = match self.contacts {
            0 => "no registered contact".to_owned(),
            1 => "1 registered contact".to_owned(),
            many => format!("{many} registered contacts"),
        };
        let address = printable(&self.address);
        write!(formatter, "{address}{alias}, {contacts}")
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Table::default();
        for (number, step) in (1..).zip(&self.steps) {
            steps.row([&number, &step.why]);
        }
        steps.fmt(formatter)?;
        if !self.steps.is_empty() {
            writeln!(formatter)?;
        }
        let mut facts = Table::default();
        match &self.rule {
            Some(rule) => facts.row([&"action", &rule.described()]),
            None if self.way == "dialog" => {
                facts.row([&"action", &"no rule applies: the way of its dialog"]);
            }
            None => facts.row([&"action", &"no rule matches: the ordinary way"]),
        }
        facts.row([&"Request-URI", &self.request_uri]);
        if !self.limits.is_empty() {
            facts.row([&"limits", &self.limits.join(", ")]);
        }
        if let Some(subscriber) = &self.subscriber {
            facts.row([&"subscriber", subscriber]);
        }
        facts.fmt(formatter)?;
        if let Some(subscriber) = &self.subscriber
            && let Some(forwarding) = &subscriber.forwarding
        {
            write!(formatter, "\n{forwarding}")?;
        }
        if let Some(prefixes) = &self.prefixes {
            write!(formatter, "\n{prefixes}")?;
        }
        if self.groups.is_empty() {
            return Ok(());
        }
        write!(formatter, "\n{}", self.members())
    }
}
