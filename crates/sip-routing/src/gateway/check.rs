//! Checks descriptions.

use super::description::{GatewayDescription, GroupDescription, HealthRules};
use super::rewriting_problem::check_rewriting;
use super::{GatewayError, MAX_MEMBERS};
use std::collections::HashSet;
use std::time::Duration;

const MAX_NAME: usize = 128;
const MAX_COUNT: u8 = 100;
const MAX_WEIGHT: u16 = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn check_gateway(gateway: &GatewayDescription) -> Result<(), GatewayError> {
    let name = || gateway.name.clone();
    if !is_name(&gateway.name) {
        return Err(GatewayError::GatewayName { name: name() });
    }
    if gateway.destination.host.is_empty() {
        return Err(GatewayError::NoHost { name: name() });
    }
    if gateway.destination.port == Some(0) {
        return Err(GatewayError::NoPort { name: name() });
    }
    if gateway.max_calls == Some(0) {
        return Err(GatewayError::NoCalls { name: name() });
    }
    let is_allowed = |status: &u16| (300..=599).contains(status);
    let mut codes = gateway.failover.codes.iter();
    if let Some(status) = codes.find(|status| !is_allowed(status)) {
        return Err(GatewayError::FailoverCode {
            name: name(),
            status,
        });
    }
    let rewriting = check_rewriting(&gateway.rewriting);
    rewriting.map_err(|problem| GatewayError::Rewriting {
        name: name(),
        problem,
    })?;
    check_health(&gateway.name, &gateway.health)?;
    let wait = &gateway.wait;
    check_durations(
        &gateway.name,
        &[
            ("the response timeout", wait.response, SECOND, HOUR),
            (
                "the answer timeout",
                wait.answer.unwrap_or(HOUR),
                SECOND,
                HOUR,
            ),
        ],
    )
}

fn check_health(name: &str, rules: &HealthRules) -> Result<(), GatewayError> {
    if rules.probe_answers.is_empty() {
        return Err(GatewayError::NoProbeAnswers { name: name.into() });
    }
    for (setting, value, least) in [
        ("the number of misses", rules.misses, 1),
        ("the number of answers", rules.answers, 1),
        ("the weight of a timeout", rules.weights.timeout, 0),
        (
            "the weight of a transport error",
            rules.weights.transport_error,
            0,
        ),
        ("the weight of a 503", rules.weights.unavailable, 0),
    ] {
        if !(least..=MAX_COUNT).contains(&value) {
            return Err(GatewayError::Number {
                name: name.into(),
                setting,
                value: value.into(),
                least: least.into(),
                most: MAX_COUNT.into(),
            });
        }
    }
    check_durations(
        name,
        &[
            ("the probe interval", rules.interval, SECOND, HOUR),
            (
                "the probe timeout",
                rules.timeout,
                SHORTEST_TIMEOUT,
                rules.interval,
            ),
            ("the longest rest", rules.longest_rest, Duration::ZERO, HOUR),
        ],
    )
}

/// Checks durations: what each is, its value, and the shortest and the longest that is allowed.
fn check_durations(
    name: &str,
    durations: &[(&'static str, Duration, Duration, Duration)],
) -> Result<(), GatewayError> {
    for &(setting, value, least, most) in durations {
        if !(least..=most).contains(&value) {
            return Err(GatewayError::Duration {
                name: name.into(),
                setting,
                value,
                least,
                most,
            });
        }
    }
    Ok(())
}

/// Checks a group by itself. Whether its members exist is checked where they are looked up.
pub(super) fn check_group(group: &GroupDescription) -> Result<(), GatewayError> {
    let name = || group.name.clone();
    if !is_name(&group.name) {
        return Err(GatewayError::GroupName { name: name() });
    }
    if group.members.is_empty() {
        return Err(GatewayError::EmptyGroup { group: name() });
    }
    if group.members.len() > MAX_MEMBERS {
        return Err(GatewayError::TooManyMembers {
            group: name(),
            count: group.members.len(),
        });
    }
    let mut seen = HashSet::new();
    for member in &group.members {
        let gateway = || member.gateway.clone();
        if !seen.insert(&*member.gateway) {
            return Err(GatewayError::DuplicateMember {
                group: name(),
                gateway: gateway(),
            });
        }
        if !(1..=MAX_WEIGHT).contains(&member.weight) {
            return Err(GatewayError::Weight {
                group: name(),
                gateway: gateway(),
                weight: member.weight,
            });
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let length = 1..=MAX_NAME;
    length.contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}
