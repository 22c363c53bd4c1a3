//! What is counted for each gateway since its name was first configured.

use super::Cause;
use super::health::State;
use super::outcome::Outcome;
use sip_transport::Time;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The statistics of a gateway. Each number is exact; numbers that change while they are read may differ by the calls in between.
///
/// While calls are under way, `tried` is larger than the sum of all outcomes. Afterwards they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls that were sent here.
    pub tried: u64,
    /// Calls that ended with 2xx.
    pub answered: u64,
    /// Calls that ended with 3xx, 4xx, 5xx and 6xx.
    pub failed: [u64; 4],
    /// Calls without a response in time.
    pub timeouts: u64,
    /// Calls that could not be sent.
    pub transport_errors: u64,
    /// Calls that the gateway did not let us authenticate for.
    pub unauthorized: u64,
    /// Calls that ended without a final response for another reason.
    pub abandoned: u64,
    /// Calls that then went on to another gateway: after a response, without one in time, and because they could not be sent.
    pub failovers: [u64; 3],
    /// Calls that another member got because this one had its maximum.
    pub full: u64,
    /// Calls that another member got because of this one's rate.
    pub rate_limited: u64,
    /// Challenges that were answered with credentials.
    pub challenges_answered: u64,
    /// Challenges that were not: the credentials are wrong, or it cannot be answered.
    pub challenges_refused: u64,
    /// Probes that were due.
    pub probes_sent: u64,
    /// Probes whose response counted as an answer.
    pub probes_answered: u64,
    /// Changes of the state, except rests.
    pub state_changes: u64,
    /// Rests that 503 with `Retry-After` began.
    pub rests: u64,
    /// The latest change of the state; `None` if there was none.
    pub changed_at: Option<Time>,
    /// Its cause.
    pub cause: Option<Cause>,
}

/// The counters behind [`Statistics`]. All workers write them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) tried: AtomicU64,
    answered: AtomicU64,
    failed: [AtomicU64; 4],
    timeouts: AtomicU64,
    transport_errors: AtomicU64,
    unauthorized: AtomicU64,
    abandoned: AtomicU64,
    failovers: [AtomicU64; 3],
    pub(super) full: AtomicU64,
    pub(super) rate_limited: AtomicU64,
    pub(super) challenges_answered: AtomicU64,
    pub(super) challenges_refused: AtomicU64,
    pub(super) probes_sent: AtomicU64,
    pub(super) probes_answered: AtomicU64,
    state_changes: AtomicU64,
    rests: AtomicU64,
    /// In microseconds; 0 for none.
    changed_at: AtomicU64,
    /// As [`Cause::pack`] writes it; 0 for none.
    cause: AtomicU8,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(super) fn call_ended(&self, outcome: Outcome) {
        count(match outcome {
            Outcome::Response { status, .. } => self.of_status(status),
            Outcome::Timeout => &self.timeouts,
            Outcome::TransportError => &self.transport_errors,
            Outcome::Unauthorized => &self.unauthorized,
            Outcome::Unanswered | Outcome::Abandoned => &self.abandoned,
        });
    }

    pub(super) fn failed_over(&self, outcome: Outcome) {
        let [response, timeout, transport_error] = &self.failovers;
        count(match outcome {
            Outcome::Response { .. } | Outcome::Unauthorized => response,
            Outcome::Timeout | Outcome::Unanswered => timeout,
            Outcome::TransportError | Outcome::Abandoned => transport_error,
        });
    }

    fn of_status(&self, status: u16) -> &AtomicU64 {
        let [redirected, client, server, global] = &self.failed;
        match status {
            200..=299 => &self.answered,
            300..=399 => redirected,
            400..=499 => client,
            500..=599 => server,
            600..=699 => global,
            _ => &self.abandoned,
        }
    }

    pub(super) fn changed(&self, to: State, cause: Cause, now: Time) {
        if to == State::Resting {
            count(&self.rests);
        } else {
            count(&self.state_changes);
        }
        self.cause.store(cause.pack(), Relaxed);
        self.changed_at.fetch_max(now.as_micros(), Relaxed);
    }

    pub(super) fn read(&self) -> Statistics {
        let changed_at = self.changed_at.load(Relaxed);
        Statistics {
            tried: self.tried.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: self.failed.each_ref().map(|it| it.load(Relaxed)),
            timeouts: self.timeouts.load(Relaxed),
            transport_errors: self.transport_errors.load(Relaxed),
            unauthorized: self.unauthorized.load(Relaxed),
            abandoned: self.abandoned.load(Relaxed),
            failovers: self.failovers.each_ref().map(|it| it.load(Relaxed)),
            full: self.full.load(Relaxed),
            rate_limited: self.rate_limited.load(Relaxed),
            challenges_answered: self.challenges_answered.load(Relaxed),
            challenges_refused: self.challenges_refused.load(Relaxed),
            probes_sent: self.probes_sent.load(Relaxed),
            probes_answered: self.probes_answered.load(Relaxed),
            state_changes: self.state_changes.load(Relaxed),
            rests: self.rests.load(Relaxed),
            cause: Cause::unpack(self.cause.load(Relaxed)),
            changed_at: (changed_at != 0).then(|| Time::from_micros(changed_at)),
        }
    }
}
