//! Settings of the transaction user: kinds of transactions, timers, bounds.

use std::time::Duration;

/// INVITE or not: the two kinds of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named by what they are")]
pub enum Kind {
    Invite,
    NonInvite,
}

/// T1, T2 and T4 (section 17.1.1.1, table 4). The other timers derive from them. Each is clamped to a millisecond at least and a minute at
/// most, and T2 to at least T1.
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
    /// The settings within bounds. With a T2 of zero, a request would be sent without end within one instant.
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

/// The largest number of live transactions, and other bounds.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "named by what they bound")]
pub struct Limits {
    pub servers: usize,
    pub clients: usize,
    /// Bytes of held messages.
    pub bytes: usize,
    /// Bytes that may be sent over UDP to an unproven sender, for each byte received.
    pub amplification: u32,
}
