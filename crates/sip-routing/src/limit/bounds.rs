//! What a limit allows, and which of its bounds a call exceeds.

use super::Rate;
use std::fmt;

/// What a limit allows. By default everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// New calls per second.
    pub rate: Option<Rate>,
    /// Calls at the same time. 0: none.
    pub max_calls: Option<u32>,
}

/// The bound that a call exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Too many new calls per second.
    Rate,
    /// Too many calls at the same time.
    Calls,
}

impl Bounds {
    /// The maximum number of live calls.
    pub(super) fn most(&self) -> u32 {
        self.max_calls.unwrap_or(u32::MAX)
    }

    /// Why no call can pass; `None` if some can.
    pub(super) fn closed(&self) -> Option<Excess> {
        if self.max_calls == Some(0) {
            return Some(Excess::Calls);
        }
        let rate = self.rate.filter(Rate::is_zero);
        rate.map(|_| Excess::Rate)
    }
}

impl Excess {
    /// One word, for logs and metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Calls => "calls",
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Rate => "too many new calls per second",
            Self::Calls => "too many calls at the same time",
        })
    }
}
