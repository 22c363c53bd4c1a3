//! The results of `gateways.list`, `gateways.get`, `gateways.disable`, `gateways.enable` and `groups.list` as text.
use super::rewriting::Rewriting;
use crate::ctl::table::Table;
use crate::ctl::text::duration;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The result of `gateways.list`.
#[derive(Deserialize)]
pub(super) struct Gateways {
    gateways: Vec<Gateway>,
}

/// A gateway: the result of `gateways.get`.
#[derive(Deserialize)]
pub(super) struct Gateway {
    name: String,
    destination: String,
    state: String,
    misses: u8,
    answers: u8,
    rests_for: Option<u64>,
    next_probe_in: Option<u64>,
    live_calls: u64,
    max_calls: Option<u32>,
    tried: u64,
    answered: u64,
    /// By class.
    failed: BTreeMap<String, u64>,
    timeouts: u64,
    transport_errors: u64,
    unauthorized: u64,
    abandoned: u64,
    full: u64,
    rate_limited: u64,
    /// The user name for its challenges.
    username: Option<String>,
    challenges_answered: u64,
    challenges_refused: u64,
    registration: Option<Registration>,
    probes_sent: u64,
    probes_answered: u64,
    state_changes: u64,
    rests: u64,
    changed_ago: Option<u64>,
    /// The groups that have it as a member; empty in lists.
    #[serde(default)]
    groups: Vec<String>,
    /// Numbers and identities; absent in lists.
    #[serde(flatten)]
    rewriting: Option<Rewriting>,
}

impl Gateway {
    /// Live calls, with the maximum if there is one.
    fn calls(&self) -> String {
        match self.max_calls {
            Some(most) => format!("{} of {most}", self.live_calls),
            None => self.live_calls.to_string(),
        }
    }

    /// Calls that the gateway could not serve.
    fn failures(&self) -> u64 {
        self.responses("5xx") + self.timeouts + self.transport_errors + self.unauthorized
    }

    /// Calls that the called party, or the number, refused: busy, unknown, moved.
    fn refusals(&self) -> u64 {
        self.responses("3xx") + self.responses("4xx") + self.responses("6xx")
    }

    fn responses(&self, class: &str) -> u64 {
        self.failed.get(class).copied().unwrap_or_default()
    }

    /// What the state is about to become.
    fn trend(&self) -> String {
        let since = |text: String| match self.changed_ago {
            Some(ago) => format!("{text} for {}", duration(ago)),
            None => text,
        };
        let state = since(self.state.clone());
        match (self.rests_for, self.misses, self.answers) {
            (Some(seconds), ..) => format!("{state}, rests for {} more", duration(seconds)),
            (None, 1.., _) => format!("{state}, misses: {}", self.misses),
            (None, _, 1..) => format!("{state}, answers: {}", self.answers),
            _ => state,
        }
    }
}

/// The registration of the server at a gateway.
#[derive(Deserialize)]
struct Registration {
    address: String,
    state: String,
    expires_in: Option<u64>,
    next_attempt_in: Option<u64>,
    last_response: Option<u16>,
    succeeded: u64,
    failed: u64,
}

impl Registration {
    /// What the state is about to become.
    fn trend(&self) -> String {
        let mut text = self.state.clone();
        if let Some(seconds) = self.expires_in {
            text = format!("{text}, expires in {}", duration(seconds));
        }
        if let Some(status) = self.last_response {
            text = format!("{text}, last response {status}");
        }
        match self.next_attempt_in {
            Some(seconds) => format!("{text}, next attempt in {}", duration(seconds)),
            None => text,
        }
    }
}

impl fmt::Display for Gateways {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gateways.is_empty() {
            return writeln!(formatter, "no gateways");
        }
        let mut table = Table::new([
            "GATEWAY",
            "DESTINATION",
            "STATE",
            "CALLS",
            "TRIED",
            "ANSWERED",
            "REFUSED",
            "FAILED",
            "SKIPPED",
        ]);
        for gateway in &self.gateways {
            table.row([
                &gateway.name,
                &gateway.destination,
                &gateway.state,
                &gateway.calls(),
                &gateway.tried,
                &gateway.answered,
                &gateway.refusals(),
                &gateway.failures(),
                &(gateway.full + gateway.rate_limited),
            ]);
        }
        table.fmt(formatter)
    }
}

impl fmt::Display for Gateway {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut facts = Table::default();
        facts.row([&"gateway", &self.name]);
        facts.row([&"destination", &self.destination]);
        facts.row([&"state", &self.trend()]);
        facts.row([&"groups", &self.groups.join(", ")]);
        if let Some(rewriting) = &self.rewriting {
            rewriting.rows(&mut facts);
        }
        facts.row([&"calls", &self.calls()]);
        facts.row([&"tried", &self.tried]);
        facts.row([&"answered", &self.answered]);
        for (class, count) in &self.failed {
            facts.row([&format!("{class} responses"), count]);
        }
        facts.row([&"timeouts", &self.timeouts]);
        facts.row([&"transport errors", &self.transport_errors]);
        facts.row([&"abandoned", &self.abandoned]);
        if let Some(username) = &self.username {
            facts.row([&"user name", username]);
            facts.row([&"challenges answered", &self.challenges_answered]);
            facts.row([&"challenges refused", &self.challenges_refused]);
            facts.row([&"unauthorized", &self.unauthorized]);
        }
        if let Some(registration) = &self.registration {
            facts.row([&"registration", &registration.address]);
            facts.row([&"registration state", &registration.trend()]);
            let [succeeded, failed] = [registration.succeeded, registration.failed];
            let attempts = format!("{succeeded} of {} succeeded", succeeded + failed);
            facts.row([&"registration attempts", &attempts]);
        }
        facts.row([&"skipped, full", &self.full]);
        facts.row([&"skipped, rate", &self.rate_limited]);
        let probes = format!("{} of {} answered", self.probes_answered, self.probes_sent);
        facts.row([&"probes", &probes]);
        if let Some(seconds) = self.next_probe_in {
            facts.row([&"next probe in", &duration(seconds)]);
        }
        facts.row([&"state changes", &self.state_changes]);
        facts.row([&"rests", &self.rests]);
        facts.fmt(formatter)
    }
}

/// The result of `gateways.disable` and `gateways.enable`.
#[derive(Deserialize)]
pub(super) struct Changed {
    gateway: String,
    #[serde(rename = "changed")]
    has_effect: bool,
    live_calls: u64,
}

impl fmt::Display for Changed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.has_effect {
            "changed"
        } else {
            "nothing changed"
        };
        let plural = if self.live_calls == 1 { "" } else { "s" };
        writeln!(
            formatter,
            "{}: {how}; it has {} call{plural}",
            self.gateway, self.live_calls
        )
    }
}

/// The result of `gateways.reload`.
#[derive(Deserialize)]
pub(super) struct Reloaded {
    gateways: usize,
    groups: usize,
    notes: Vec<String>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gateways, groups) = (self.gateways, self.groups);
        writeln!(formatter, "reloaded {gateways} gateways in {groups} groups")?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(formatter, "{note}"))
    }
}

/// The result of `groups.list`.
#[derive(Deserialize)]
pub(super) struct Groups {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    algorithm: String,
    members: Vec<Member>,
}

#[derive(Deserialize)]
struct Member {
    gateway: String,
    weight: u16,
    priority: u16,
    state: String,
    live_calls: u64,
}

impl fmt::Display for Groups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.groups.is_empty() {
            return writeln!(formatter, "no groups");
        }
        let mut table = Table::new([
            "GROUP",
            "ALGORITHM",
            "PRIORITY",
            "WEIGHT",
            "GATEWAY",
            "STATE",
            "CALLS",
        ]);
        for group in &self.groups {
            for member in &group.members {
                table.row([
                    &group.name,
                    &group.algorithm,
                    &member.priority,
                    &member.weight,
                    &member.gateway,
                    &member.state,
                    &member.live_calls,
                ]);
            }
        }
        table.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn gateway(more: &Value) -> Value {
        let mut gateway = json!({
            "name": "berlin-1", "destination": "sip:192.0.2.10", "state": "active", "misses": 0, "answers": 0, "rests_for": null,
            "next_probe_in": 12, "live_calls": 3, "max_calls": 300, "tried": 10, "answered": 6,
            "failed": { "3xx": 0, "4xx": 1, "5xx": 0, "6xx": 0 }, "timeouts": 1, "transport_errors": 1, "abandoned": 1, "full": 2,
            "rate_limited": 5, "unauthorized": 0, "username": null, "challenges_answered": 0, "challenges_refused": 0,
            "registration": null, "probes_sent": 8, "probes_answered": 7, "state_changes": 1, "rests": 0, "changed_ago": 61,
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            gateway[key] = value.clone();
        }
        gateway
    }

    #[test]
    fn a_list_of_gateways_shows_refusals_failures_and_calls_that_others_got() {
        let unbounded = json!({ "name": "b", "max_calls": null, "state": "inactive" });
        let list = json!({ "gateways": [gateway(&json!({})), gateway(&unbounded)] });
        let list: Gateways = serde_json::from_value(list).expect("the fields");
        let expected = "\
GATEWAY   DESTINATION     STATE     CALLS     TRIED  ANSWERED  REFUSED  FAILED  SKIPPED
berlin-1  sip:192.0.2.10  active    3 of 300     10         6        1       2        7
b         sip:192.0.2.10  inactive  3            10         6        1       2        7
";
        assert_eq!(list.to_string(), expected);
    }

    #[test]
    fn one_gateway_shows_what_its_state_is_about_to_become() {
        for (more, expected) in [
            (json!({}), "active for 1m 1s"),
            (json!({ "misses": 3 }), "active for 1m 1s, misses: 3"),
            (
                json!({ "state": "inactive", "answers": 2, "changed_ago": null }),
                "inactive, answers: 2",
            ),
            (
                json!({ "state": "resting", "rests_for": 20, "misses": 1 }),
                "resting for 1m 1s, rests for 20s more",
            ),
        ] {
            let shown: Gateway = serde_json::from_value(gateway(&more)).expect("the fields");
            assert_eq!(shown.trend(), expected);
            assert!(shown.to_string().contains(expected), "{shown}");
        }
    }

    #[test]
    fn a_registration_shows_when_it_is_refreshed() {
        let mut registration = json!({
            "address": "sip:4930@carrier.example", "state": "registered", "expires_in": 90, "next_attempt_in": 45,
            "last_response": 200, "succeeded": 2, "failed": 1,
        });
        let shown = |registration: &Value| {
            let more = json!({ "username": "trunk", "registration": registration });
            let shown: Gateway = serde_json::from_value(gateway(&more)).expect("the fields");
            shown.to_string()
        };
        let text = shown(&registration);
        for line in [
            "user name",
            "registered, expires in 1m 30s, last response 200, next attempt in 45s",
            "2 of 3 succeeded",
        ] {
            assert!(text.contains(line), "{text}");
        }
        registration["state"] = json!("failed");
        registration["expires_in"] = Value::Null;
        registration["last_response"] = Value::Null;
        assert!(shown(&registration).contains("failed, next attempt in 45s"));
    }
}
