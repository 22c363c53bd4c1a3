//! Why the state of a gateway changed, for logs.

use super::outcome::Outcome;
use super::word::Source;

/// Why the state of a gateway changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A response to OPTIONS counted as an answer.
    ProbeAnswered,
    /// A call got a response.
    CallAnswered,
    /// OPTIONS got no response, or one that does not count as an answer.
    ProbeMissed,
    /// A call got no response in time.
    CallTimeout,
    /// A call could not be sent.
    CallNotSent,
    /// A call got 503.
    CallUnavailable,
    /// A 503 had `Retry-After`.
    RetryAfter,
    /// An operator took it out or put it back.
    Operator,
}

impl Cause {
    const ALL: [Self; 8] = [
        Self::ProbeAnswered,
        Self::CallAnswered,
        Self::ProbeMissed,
        Self::CallTimeout,
        Self::CallNotSent,
        Self::CallUnavailable,
        Self::RetryAfter,
        Self::Operator,
    ];

    /// The cause of a change to another state than resting.
    pub(super) const fn of(outcome: Outcome, source: Source, is_answer: bool) -> Self {
        match (source, outcome) {
            (Source::Probe, _) if is_answer => Self::ProbeAnswered,
            (Source::Call, _) if is_answer => Self::CallAnswered,
            (Source::Probe, _) => Self::ProbeMissed,
            (Source::Call, Outcome::TransportError) => Self::CallNotSent,
            (Source::Call, Outcome::Response { .. }) => Self::CallUnavailable,
            (Source::Call, _) => Self::CallTimeout,
        }
    }

    /// The number of a cause in one byte, from 1.
    pub(super) const fn pack(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn unpack(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::ALL.get(index).copied()
    }

    /// The cause for people, behind "because" or a colon.
    pub const fn text(self) -> &'static str {
        match self {
            Self::ProbeAnswered => "it answers OPTIONS",
            Self::CallAnswered => "it answers calls",
            Self::ProbeMissed => "OPTIONS got no answer",
            Self::CallTimeout => "calls got no response",
            Self::CallNotSent => "calls could not be sent",
            Self::CallUnavailable => "calls got 503",
            Self::RetryAfter => "503 with Retry-After",
            Self::Operator => "by an operator",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn a_cause_survives_packing() {
        assert_eq!(Cause::unpack(0), None);
        for cause in Cause::ALL {
            assert_eq!(Cause::unpack(cause.pack()), Some(cause));
        }
        assert_eq!(Cause::unpack(9), None);
    }
}
