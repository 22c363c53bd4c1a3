//! How a call or a probe ended, and what that says about the gateway.

use super::description::HealthRules;
use std::time::Duration;

/// How a call to a gateway, or a probe of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A final response.
    Response {
        /// Its status code.
        status: u16,
        /// Its `Retry-After`, if it has one.
        retry_after: Option<Duration>,
    },
    /// No response other than 100 in time.
    Timeout,
    /// It rang, and no final response came within the time of the gateway. That says nothing about its health.
    Unanswered,
    /// The request could not be sent: connection refused or lost, ICMP error, no address.
    TransportError,
    /// The gateway did not accept our credentials, or its challenge cannot be answered.
    Unauthorized,
    /// It ended for another reason without a final response, such as a CANCEL before any response.
    Abandoned,
}

impl Outcome {
    /// A final response without `Retry-After`.
    pub const fn status(status: u16) -> Self {
        Self::Response {
            status,
            retry_after: None,
        }
    }
}

/// What an outcome says about the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It works.
    Answer,
    /// It failed; the weight.
    Miss(u8),
    /// It asks for a rest.
    Rest {
        /// How long, at most `longest_rest`.
        length: Duration,
        /// What the beginning of the rest counts.
        weight: u8,
    },
}

/// What the outcome of a call says.
///
/// Any final response shows that the gateway works, except 408 and 5xx: these can also come from a gateway that serves no call, and they
/// can come from the far end. They say nothing. Of them, only 503 counts as a miss.
pub(super) fn sign_of_call(outcome: Outcome, rules: &HealthRules) -> Option<Sign> {
    match outcome {
        Outcome::Response {
            status: 503,
            retry_after,
        } => Some(unavailable(retry_after, rules, rules.weights.unavailable)),
        Outcome::Response {
            status: 408 | 500..=599,
            ..
        } => None,
        Outcome::Response {
            status: 200..=699, ..
        }
        | Outcome::Unauthorized => Some(Sign::Answer),
        Outcome::Timeout => Some(Sign::Miss(rules.weights.timeout)),
        Outcome::TransportError => Some(Sign::Miss(rules.weights.transport_error)),
        Outcome::Response { .. } | Outcome::Unanswered | Outcome::Abandoned => None,
    }
}

/// What the outcome of a probe says.
pub(super) fn sign_of_probe(outcome: Outcome, rules: &HealthRules) -> Option<Sign> {
    match outcome {
        Outcome::Response { status, .. } if rules.probe_answers.contains(status) => {
            Some(Sign::Answer)
        }
        Outcome::Response {
            status: 503,
            retry_after,
        } => Some(unavailable(retry_after, rules, 1)),
        Outcome::Response { .. } | Outcome::Timeout | Outcome::TransportError => {
            Some(Sign::Miss(1))
        }
        Outcome::Unanswered | Outcome::Unauthorized | Outcome::Abandoned => None,
    }
}

fn unavailable(retry_after: Option<Duration>, rules: &HealthRules, weight: u8) -> Sign {
    let length = retry_after.unwrap_or_default().min(rules.longest_rest);
    if length.is_zero() {
        Sign::Miss(weight)
    } else {
        Sign::Rest { length, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::StatusSet;

    const fn busy(retry_after: u64) -> Outcome {
        Outcome::Response {
            status: 503,
            retry_after: Some(Duration::from_secs(retry_after)),
        }
    }

    const fn rest(seconds: u64, weight: u8) -> Sign {
        Sign::Rest {
            length: Duration::from_secs(seconds),
            weight,
        }
    }

    #[test]
    fn what_outcomes_say_about_the_gateway() {
        let mut rules = HealthRules::default();
        rules.weights.timeout = 2;
        rules.weights.transport_error = 3;
        rules.weights.unavailable = 4;
        let (answer, miss) = (Some(Sign::Answer), |weight| Some(Sign::Miss(weight)));
        for (outcome, call, probe) in [
            (Outcome::status(200), answer, answer),
            (Outcome::status(302), answer, answer),
            (Outcome::status(404), answer, answer),
            (Outcome::status(408), None, miss(1)),
            (Outcome::status(486), answer, answer),
            (Outcome::status(500), None, answer),
            (Outcome::status(503), miss(4), miss(1)),
            (busy(0), miss(4), miss(1)),
            (busy(20), Some(rest(20, 4)), Some(rest(20, 1))),
            (busy(86_400), Some(rest(300, 4)), Some(rest(300, 1))),
            (Outcome::status(603), answer, answer),
            (Outcome::Unauthorized, answer, None),
            (Outcome::Timeout, miss(2), miss(1)),
            (Outcome::TransportError, miss(3), miss(1)),
            (Outcome::Unanswered, None, None),
            (Outcome::Abandoned, None, None),
        ] {
            assert_eq!(sign_of_call(outcome, &rules), call, "a call: {outcome:?}");
            assert_eq!(
                sign_of_probe(outcome, &rules),
                probe,
                "a probe: {outcome:?}"
            );
        }
    }

    #[test]
    fn what_counts_as_an_answer_to_a_probe_is_configurable() {
        let rules = HealthRules {
            probe_answers: StatusSet::EMPTY.with(200, 200),
            longest_rest: Duration::ZERO,
            ..HealthRules::default()
        };
        for (outcome, sign) in [
            (Outcome::status(200), Sign::Answer),
            (Outcome::status(404), Sign::Miss(1)),
            (busy(20), Sign::Miss(1)),
        ] {
            assert_eq!(sign_of_probe(outcome, &rules), Some(sign), "{outcome:?}");
        }
    }
}
