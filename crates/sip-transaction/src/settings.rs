//! What the transaction user chooses: kinds of transactions, timers, bounds.

use std::time::Duration;

/// INVITE or not: the two kinds of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named by what they are")]
pub enum Kind {
    Invite,
    NonInvite,
}

/// T1, T2 and T4 (section 17.1.1.1, table 4). The others follow from them. Each is taken as at least a millisecond and at most a
/// minute, and T2 as no less than T1.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub struct TimerSettings {
    pub t1: Duration,
    pub t2: Duration,
    pub t4: Duration,
}

impl Default for TimerSettings {
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
        }
    }
}

impl TimerSettings {
    /// Within bounds: with a T2 of zero a request would go out for ever within one instant.
    pub(crate) fn bounded(self) -> Self {
        let bound = |time: Duration| time.clamp(Duration::from_millis(1), Duration::from_secs(60));
        let t1 = bound(self.t1);
        Self {
            t1,
            t2: bound(self.t2).max(t1),
            t4: bound(self.t4),
        }
    }
}

/// The most transactions that may live at a time.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named by what they bound")]
pub struct Limits {
    pub servers: usize,
    pub clients: usize,
    /// Bytes of messages.
    pub bytes: usize,
    /// Bytes that may be sent over UDP, for each byte that came, to a sender that has proved nothing.
    pub amplification: u32,
}
