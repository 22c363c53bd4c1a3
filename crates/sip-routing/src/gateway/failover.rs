//! Whether a call tries the next member after a failure.

use super::{Outcome, StatusSet};

/// After which outcomes a call tries the next member of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailoverRules {
    /// Responses that fail over: 300 to 599. A 503 always does, because it says "not here" (RFC 3261 section 21.5.4). A 6xx never does,
    /// because it speaks for the callee everywhere (section 16.7 step 5).
    pub codes: StatusSet,
    /// Whether a call without a response fails over.
    pub timeout: bool,
    /// Whether a call that could not be sent fails over.
    pub transport_error: bool,
    /// Whether a call fails over after a provisional response with a session description. The caller has then already heard this
    /// gateway (ringing, an announcement), and may be charged for it.
    pub after_early_media: bool,
}

impl FailoverRules {
    /// 408 and 5xx: failures of a server, and codes that carriers use for "no circuit" and "no route". Without 501, 505, 513, 555 and
    /// 580, which are about the request and come back from every gateway. A 4xx speaks for the callee: another gateway would ring a busy
    /// phone again. Carriers that refuse calls with 403, 404 or 480 for lack of a route get these codes in their configuration.
    pub const CODES: StatusSet = StatusSet::EMPTY
        .with(408, 408)
        .with(500, 599)
        .without(501, 501)
        .without(505, 505)
        .without(513, 513)
        .without(555, 555)
        .without(580, 580);

    /// Whether the call tries the next member. `early_media` says that a provisional response with a session description was forwarded.
    pub fn should_fail_over(&self, outcome: Outcome, early_media: bool) -> bool {
        if early_media && !self.after_early_media {
            return false;
        }
        match outcome {
            // After the latter, another gateway may know us.
            Outcome::Response { status: 503, .. } | Outcome::Unauthorized => true,
            Outcome::Response { status, .. } => status < 600 && self.codes.contains(status),
            Outcome::Abandoned => false,
            Outcome::Timeout | Outcome::Unanswered => self.timeout,
            Outcome::TransportError => self.transport_error,
        }
    }
}

impl Default for FailoverRules {
    fn default() -> Self {
        Self {
            codes: Self::CODES,
            timeout: true,
            transport_error: true,
            after_early_media: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fail_over_after_failures_of_a_server() {
        let rules = FailoverRules::default();
        for (outcome, fails_over) in [
            (Outcome::status(200), false),
            (Outcome::status(302), false),
            (Outcome::status(404), false),
            (Outcome::status(408), true),
            (Outcome::status(486), false),
            (Outcome::status(500), true),
            (Outcome::status(501), false),
            (Outcome::status(503), true),
            (Outcome::status(504), true),
            (Outcome::status(513), false),
            (Outcome::status(580), false),
            (Outcome::status(599), true),
            (Outcome::status(603), false),
            (Outcome::Timeout, true),
            (Outcome::Unanswered, true),
            (Outcome::TransportError, true),
            (Outcome::Abandoned, false),
            (Outcome::Unauthorized, true),
        ] {
            let found = rules.should_fail_over(outcome, false);
            assert_eq!(found, fails_over, "{outcome:?}");
            assert!(!rules.should_fail_over(outcome, true), "{outcome:?}");
        }
    }

    #[test]
    fn the_rules_are_configurable_but_for_503_and_6xx() {
        let rules = FailoverRules {
            codes: StatusSet::EMPTY.with(404, 404).with(600, 699),
            timeout: false,
            transport_error: false,
            after_early_media: true,
        };
        for (outcome, fails_over) in [
            (Outcome::status(404), true),
            (Outcome::status(500), false),
            (Outcome::status(503), true),
            (Outcome::status(603), false),
            (Outcome::Timeout, false),
            (Outcome::Unanswered, false),
            (Outcome::TransportError, false),
        ] {
            for early_media in [false, true] {
                let found = rules.should_fail_over(outcome, early_media);
                assert_eq!(found, fails_over, "{outcome:?}");
            }
        }
    }
}
