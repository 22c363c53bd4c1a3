//! One gateway: its description, and the state that outlives the configuration.

use super::description::GatewayDescription;
use super::health::{Change, Health, State};
use super::nonce::KnownNonces;
use super::outcome::{Outcome, Sign, sign_of_call, sign_of_probe};
use super::place::{GatewayState, Place};
use super::registration::Registration;
use super::statistics::count;
use super::word::Source;
use super::{Cause, FailoverRules, Rewriting, WaitRules};
use sip_transport::Time;
use sip_transport::selection::Destination;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A server that new calls go to.
#[derive(Debug)]
pub struct Gateway {
    pub(super) description: GatewayDescription,
    pub(super) health: Arc<Health>,
    pub(super) state: Arc<GatewayState>,
    pub(super) nonces: Arc<KnownNonces>,
    pub(super) registration: Arc<Registration>,
    index: usize,
}

/// Whether a gateway takes a new call, as far as its health goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ready,
    /// It is inactive and not probed, and it is time to try it with a call.
    Trial,
    Resting,
    Inactive,
    Disabled,
}

impl Gateway {
    /// Takes over the state of the gateway with the same name, and its health if the destination is the same, too.
    pub(super) fn new(
        description: GatewayDescription,
        index: usize,
        previous: Option<&Self>,
    ) -> Self {
        let is_same = |it: &&Self| it.description.destination == description.destination;
        let health = previous.filter(is_same).map(|it| Arc::clone(&it.health));
        let state = previous.map(|it| Arc::clone(&it.state));
        let has_account = |it: &&Self| it.description.credential == description.credential;
        let of_account = previous.filter(is_same).filter(has_account);
        let is_registered = |it: &&Self| it.description.registration == description.registration;
        let registration = of_account.filter(is_registered);
        Self {
            health: health.unwrap_or_default(),
            state: state.unwrap_or_default(),
            nonces: of_account
                .map(|it| Arc::clone(&it.nonces))
                .unwrap_or_default(),
            registration: registration
                .map(|it| Arc::clone(&it.registration))
                .unwrap_or_default(),
            description,
            index,
        }
    }

    /// Its name, which is its identity.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Where it is.
    pub const fn destination(&self) -> &Destination {
        &self.description.destination
    }

    /// What the configuration says about it.
    pub const fn description(&self) -> &GatewayDescription {
        &self.description
    }

    /// After which outcomes a call tries the next member.
    pub const fn failover(&self) -> &FailoverRules {
        &self.description.failover
    }

    /// Whether it is in the same trust domain.
    pub const fn is_trusted(&self) -> bool {
        self.description.trusted
    }

    /// How numbers and identities are written for it.
    pub const fn rewriting(&self) -> &Rewriting {
        &self.description.rewriting
    }

    /// How long a call waits for it.
    pub const fn wait(&self) -> &WaitRules {
        &self.description.wait
    }

    /// Counts a call that went on to another gateway after this outcome.
    pub fn failed_over(&self, outcome: Outcome) {
        self.state.calls.counters.failed_over(outcome);
    }

    /// Its number in this configuration, from 0, for tables beside this one. Another configuration may number them differently.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Its state now.
    pub fn state(&self, now: Time) -> State {
        if self.is_disabled() {
            State::Disabled
        } else {
            self.health.word().state(now)
        }
    }

    /// Calls that hold a place.
    pub fn live_calls(&self) -> u64 {
        self.state.calls.live.load(Relaxed)
    }

    /// Whether an operator took it out.
    pub fn is_disabled(&self) -> bool {
        self.state.disabled.load(Relaxed)
    }

    /// Takes it out until [`Gateway::enable`], over all reloads. Calls that it has go on; it gets no probes. Returns whether it was in.
    pub fn disable(&self, now: Time) -> bool {
        let was_enabled = !self.state.disabled.swap(true, Relaxed);
        if was_enabled {
            self.state
                .calls
                .counters
                .changed(State::Disabled, Cause::Operator, now);
        }
        was_enabled
    }

    /// Puts it back. It gets calls at once, because the operator says so, and a probe as soon as possible. Returns whether it was out.
    pub fn enable(&self, now: Time) -> bool {
        if !self.is_disabled() {
            return false;
        }
        self.health.restart(now);
        let was_disabled = self.state.disabled.swap(false, Relaxed);
        if was_disabled {
            self.state
                .calls
                .counters
                .changed(State::Unprobed, Cause::Operator, now);
        }
        was_disabled
    }

    /// Records how a call that was sent here ended. Call it once for each [`Choice`](super::Choice), with the first final outcome; the
    /// place is held until the call itself ends.
    pub fn call_ended(&self, outcome: Outcome, now: Time) -> Option<Change> {
        self.state.calls.counters.call_ended(outcome);
        self.learn(outcome, now)
    }

    /// Learns from the outcome of a request other than INVITE that was sent here. [`Statistics`](super::Statistics) count calls only. A
    /// timeout is no sign: without a response from its own next hop, a proxy does not respond either (RFC 4320 section 4.2).
    pub fn request_ended(&self, outcome: Outcome, now: Time) -> Option<Change> {
        let is_sign = outcome != Outcome::Timeout;
        is_sign.then(|| self.learn(outcome, now)).flatten()
    }

    fn learn(&self, outcome: Outcome, now: Time) -> Option<Change> {
        let sign = sign_of_call(outcome, &self.description.health)?;
        self.apply(
            sign,
            Cause::of(outcome, Source::Call, sign == Sign::Answer),
            Source::Call,
            now,
        )
    }

    /// Records how a probe ended.
    pub fn probed(&self, outcome: Outcome, now: Time) -> Option<Change> {
        let sign = sign_of_probe(outcome, &self.description.health)?;
        if sign == Sign::Answer {
            count(&self.state.calls.counters.probes_answered);
        }
        self.apply(
            sign,
            Cause::of(outcome, Source::Probe, sign == Sign::Answer),
            Source::Probe,
            now,
        )
    }

    /// Takes the place of a call that exists already, such as one that was restored after a restart, even above the maximum.
    pub fn occupy(&self) -> Place {
        Place::occupy(&self.state)
    }

    pub(super) fn take_place(&self) -> Option<Place> {
        Place::take(&self.state, self.description.max_calls)
    }

    /// Whether its rate admits another call, which then uses it up.
    pub(super) fn admits_rate(&self, now: Time) -> bool {
        let rate = self.description.rate.as_ref();
        rate.is_none_or(|rate| self.state.calls.bucket.admit(rate, now))
    }

    pub(super) fn is_full(&self) -> bool {
        let most = self.description.max_calls;
        most.is_some_and(|most| self.live_calls() >= u64::from(most))
    }

    pub(super) fn standing(&self, now: Time) -> Standing {
        if self.is_disabled() {
            return Standing::Disabled;
        }
        let word = self.health.word();
        match word.state(now) {
            State::Inactive if self.description.health.probe => Standing::Inactive,
            State::Inactive if word.is_time_for_trial(now) => Standing::Trial,
            State::Inactive => Standing::Inactive,
            State::Resting => Standing::Resting,
            State::Unprobed | State::Active | State::Disabled => Standing::Ready,
        }
    }

    pub(super) fn admits_trial(&self, now: Time) -> bool {
        self.health.admits_trial(&self.description.health, now)
    }

    fn apply(&self, sign: Sign, cause: Cause, source: Source, now: Time) -> Option<Change> {
        // A disabled gateway begins anew when it returns, so late signs do not matter.
        let rules = &self.description.health;
        let change = self.health.apply(sign, source, rules, now)?;
        if self.is_disabled() {
            return None;
        }
        let rests = change.to == State::Resting;
        let cause = if rests { Cause::RetryAfter } else { cause };
        self.state.calls.counters.changed(change.to, cause, now);
        Some(change)
    }
}
