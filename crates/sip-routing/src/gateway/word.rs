//! The state machine of a gateway's health, as a value of 64 bits.
//!
//! ```text
//!                answer                     `misses` in a row
//!  Unprobed ───────────────▶ Active ◀───────────────────────────┐
//!     │                        │    `answers` in a row          │
//!     │ `misses` in a row      └──────────────────────────▶ Inactive
//!     └────────────────────────────────────────────────────────▲┘
//! ```
//! An unprobed gateway takes calls: a server that was just configured must not wait for its first probe.
//!
//! **A gateway that flaps does not change its state with every call.** It goes inactive after `misses` failures without an answer between
//! them. While it is inactive, the answers of calls count once per interval, and the first interval not at all, because calls that were
//! already under way also answer. With probes and calls together, a return therefore takes `answers / 2` intervals at least. One miss
//! starts the count again.
//!
//! **A rest** (503 with `Retry-After`) keeps new calls away until it ends. Only its beginning counts as a miss: all calls under way may
//! come back with the same 503.

use super::description::HealthRules;
use super::outcome::Sign;
use sip_transport::Time;
use std::time::Duration;

/// The condition that misses and answers lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// No answer yet.
    Unprobed,
    /// It answers.
    Active,
    /// It does not answer.
    Inactive,
}

/// The health of a gateway. It fits into one atomic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) condition: Condition,
    /// Consecutive misses; of an inactive gateway, consecutive answers.
    pub(super) run: u8,
    /// In Unix seconds, rounded up. The end of the rest; of an inactive gateway, when the answer of a call counts again.
    pub(super) until: u32,
    /// A call was let through to the inactive gateway, and no answer was counted since.
    pub(super) trial: bool,
}

/// Where a sign comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Call,
    Probe,
}

impl Word {
    /// A gateway without any sign yet.
    pub(super) const UNPROBED: Self = Self {
        condition: Condition::Unprobed,
        run: 0,
        until: 0,
        trial: false,
    };

    pub(super) const fn pack(self) -> u64 {
        let condition = match self.condition {
            Condition::Unprobed => 0,
            Condition::Active => 1,
            Condition::Inactive => 2,
        };
        (self.until as u64) << 32 | (self.trial as u64) << 16 | (self.run as u64) << 8 | condition
    }

    pub(super) const fn unpack(word: u64) -> Self {
        let condition = match word & 0xff {
            0 => Condition::Unprobed,
            1 => Condition::Active,
            _ => Condition::Inactive,
        };
        Self {
            condition,
            run: (word >> 8) as u8,
            until: (word >> 32) as u32,
            trial: word & 1 << 16 != 0,
        }
    }

    pub(super) const fn is_inactive(self) -> bool {
        matches!(self.condition, Condition::Inactive)
    }

    /// Whether the gateway asked for a rest that is not over.
    pub(super) fn rests(self, now: Time) -> bool {
        !self.is_inactive() && self.is_before(now)
    }

    /// The end of the rest.
    pub(super) fn rests_until(self, now: Time) -> Option<Time> {
        self.rests(now)
            .then(|| Time::from_unix_seconds(u64::from(self.until)))
    }

    /// Whether an inactive gateway that is not probed may be tried with a call.
    pub(super) fn is_time_for_trial(self, now: Time) -> bool {
        self.is_inactive() && !self.is_before(now)
    }

    fn is_before(self, now: Time) -> bool {
        now.unix_seconds() < u64::from(self.until)
    }

    pub(super) fn after(self, sign: Sign, source: Source, rules: &HealthRules, now: Time) -> Self {
        match sign {
            Sign::Answer => self.after_answer(source, rules, now),
            Sign::Miss(0) => self,
            Sign::Miss(weight) => self.after_miss(weight, rules, now),
            Sign::Rest { length, weight } => self.after_rest(length, weight, rules, now),
        }
    }

    fn after_answer(self, source: Source, rules: &HealthRules, now: Time) -> Self {
        if !self.is_inactive() {
            return Self {
                condition: Condition::Active,
                run: 0,
                ..self
            };
        }
        if source == Source::Call && !self.trial && self.is_before(now) {
            return self;
        }
        let run = self.run.saturating_add(1);
        if run >= rules.answers {
            return Self {
                condition: Condition::Active,
                ..Self::UNPROBED
            };
        }
        let counted = Self { run, ..self };
        match source {
            Source::Probe => counted,
            // The next trial is planned already.
            Source::Call if self.trial => Self {
                trial: false,
                ..counted
            },
            Source::Call => Self {
                until: seconds(now + rules.interval),
                ..counted
            },
        }
    }

    fn after_miss(self, weight: u8, rules: &HealthRules, now: Time) -> Self {
        if self.is_inactive() {
            return Self { run: 0, ..self };
        }
        let run = self.run.saturating_add(weight);
        if run < rules.misses {
            return Self { run, ..self };
        }
        Self {
            condition: Condition::Inactive,
            run: 0,
            until: self.until.max(seconds(now + rules.interval)),
            trial: false,
        }
    }

    fn after_rest(self, length: Duration, weight: u8, rules: &HealthRules, now: Time) -> Self {
        let counted = if self.rests(now) || weight == 0 {
            self
        } else {
            self.after_miss(weight, rules, now)
        };
        let until = counted.until.max(seconds(now + length));
        Self { until, ..counted }
    }

    /// After a call was let through to an inactive gateway as a trial. The next one waits for an interval. `None` if it is not time yet.
    pub(super) fn after_trial(self, rules: &HealthRules, now: Time) -> Option<Self> {
        self.is_time_for_trial(now).then(|| Self {
            until: seconds(now + rules.interval),
            trial: true,
            ..self
        })
    }
}

/// Whole seconds, rounded up.
fn seconds(time: Time) -> u32 {
    let seconds = time.as_micros().div_ceil(1_000_000);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_survives_packing(condition in 0_u8..3, run: u8, until: u32, trial: bool) {
            let condition = match condition {
                0 => Condition::Unprobed,
                1 => Condition::Active,
                _ => Condition::Inactive,
            };
            let word = Word { condition, run, until, trial };
            prop_assert_eq!(Word::unpack(word.pack()), word);
        }
    }
}
