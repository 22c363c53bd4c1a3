//! The health of a gateway, shared by all workers.

use super::description::HealthRules;
use super::outcome::Sign;
use super::word::{Condition, Source, Word};
use sip_transport::Time;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The state of a gateway as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has neither answered nor failed often enough. It gets calls.
    Unprobed,
    /// It answers.
    Active,
    /// It answered 503 with `Retry-After`, and that time is not over.
    Resting,
    /// It does not answer.
    Inactive,
    /// An operator took it out.
    Disabled,
}

/// A change of the state, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The state before.
    pub from: State,
    /// The state since then.
    pub to: State,
}

/// The health of a gateway.
///
/// All of it is in one number, and every sign is one compare-exchange of that number, so no sign is lost or counted twice. The order is
/// relaxed, because no other memory is read on the strength of it.
#[derive(Debug)]
pub(super) struct Health {
    word: AtomicU64,
    /// When the next probe is due, in microseconds; 0 if it is not planned yet.
    pub(super) next_probe: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            word: AtomicU64::new(Word::UNPROBED.pack()),
            next_probe: AtomicU64::new(0),
        }
    }
}

impl Health {
    pub(super) fn word(&self) -> Word {
        Word::unpack(self.word.load(Relaxed))
    }

    /// Applies a sign. Returns the change of the state, if it changed it.
    pub(super) fn apply(
        &self,
        sign: Sign,
        source: Source,
        rules: &HealthRules,
        now: Time,
    ) -> Option<Change> {
        let (before, after) = self.update(|word| {
            let after = word.after(sign, source, rules, now);
            (after != word).then_some(after)
        })?;
        let change = Change {
            from: before.state(now),
            to: after.state(now),
        };
        (change.from != change.to).then_some(change)
    }

    /// Lets one call in each interval through to an inactive gateway.
    pub(super) fn admits_trial(&self, rules: &HealthRules, now: Time) -> bool {
        self.update(|word| word.after_trial(rules, now)).is_some()
    }

    /// Begins anew. The next probe is due at once.
    pub(super) fn restart(&self, now: Time) {
        self.word.store(Word::UNPROBED.pack(), Relaxed);
        self.next_probe.store(now.as_micros().max(1), Relaxed);
    }

    /// Returns the words before and after; `None` if nothing is to be changed. Then nothing is written, so the common case (an answer
    /// of an active gateway) leaves the cache line shared.
    fn update(&self, mut change: impl FnMut(Word) -> Option<Word>) -> Option<(Word, Word)> {
        let mut after = None;
        let update = |packed| {
            after = change(Word::unpack(packed));
            after.map(Word::pack)
        };
        let before = self.word.fetch_update(Relaxed, Relaxed, update).ok()?;
        Some((Word::unpack(before), after?))
    }
}

impl Word {
    pub(super) fn state(self, now: Time) -> State {
        match self.condition {
            Condition::Inactive => State::Inactive,
            _ if self.rests(now) => State::Resting,
            Condition::Unprobed => State::Unprobed,
            Condition::Active => State::Active,
        }
    }
}

impl State {
    /// The name for people and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unprobed => "unprobed",
            Self::Active => "active",
            Self::Resting => "resting",
            Self::Inactive => "inactive",
            Self::Disabled => "disabled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads meet in these few nanoseconds too rarely for a test.
    #[test]
    fn a_sign_that_another_worker_applies_meanwhile_is_not_lost() {
        let (health, rules) = (Health::default(), HealthRules::default());
        let (miss, now) = (Sign::Miss(1), Time::from_unix_seconds(1));
        let mut is_first = true;
        let seen = health.update(|word| {
            if std::mem::take(&mut is_first) {
                health.apply(miss, Source::Call, &rules, now);
            }
            Some(word.after(miss, Source::Call, &rules, now))
        });
        assert_eq!(health.word().run, 2);
        let runs = seen.map(|(before, after)| (before.run, after.run));
        assert_eq!(runs, Some((1, 2)));
    }
}
