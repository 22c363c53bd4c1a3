//! Timers A to M: their names and how long they run (RFC 3261 table 4, RFC 6026 section 7).

use crate::TimerSettings;
use std::time::Duration;

/// The timers of the RFCs. C belongs to the proxy core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    A,
    B,
    /// How long a cancelled INVITE waits for its final response (section 9.1). The RFC gives it no letter.
    CancelWait,
    D,
    E,
    F,
    G,
    H,
    I,
    J,
    K,
    L,
    M,
}

/// The durations of the timers of one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) settings: TimerSettings,
    /// Whether the transport is reliable: no retransmissions, and no state that lingers for them.
    pub(crate) reliable: bool,
}

impl Timing {
    /// 64*T1: how long a transaction waits without a response (B, F, H, J, L, M).
    pub(crate) fn transaction_timeout(self) -> Duration {
        self.settings.t1.saturating_mul(64)
    }

    /// Timer D: at least 32 seconds, and at least the server's timer H.
    pub(crate) fn wait_for_responses(self) -> Duration {
        self.transaction_timeout().max(Duration::from_secs(32))
    }

    /// T1 doubled with each retransmission (A).
    pub(crate) fn doubled(self, retransmissions: u8) -> Duration {
        self.settings
            .t1
            .saturating_mul(1 << retransmissions.min(20))
    }

    /// T1 doubled with each retransmission up to T2 (E, G).
    pub(crate) fn doubled_to_t2(self, retransmissions: u8) -> Duration {
        self.doubled(retransmissions).min(self.settings.t2)
    }

    /// A retransmission timer; `None` over a reliable transport.
    pub(crate) fn unless_reliable(self, timer: Timer) -> Option<(Timer, Duration)> {
        (!self.reliable).then_some((timer, self.settings.t1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_without_overflow() {
        let settings = TimerSettings {
            t1: Duration::from_secs(60),
            ..TimerSettings::default()
        };
        let timing = Timing {
            settings,
            reliable: false,
        };
        assert_eq!(timing.doubled(1), Duration::from_secs(120));
        assert_eq!(
            timing.doubled(255),
            timing.doubled(20),
            "no timer runs so long"
        );
        assert_eq!(timing.doubled_to_t2(255), Duration::from_secs(4));
    }

    #[test]
    fn timer_d_is_32_seconds_or_longer() {
        let of = |t1| Timing {
            settings: TimerSettings {
                t1,
                ..TimerSettings::default()
            },
            reliable: false,
        };
        assert_eq!(
            of(Duration::from_millis(10)).wait_for_responses(),
            Duration::from_secs(32)
        );
        assert_eq!(
            of(Duration::from_secs(1)).wait_for_responses(),
            Duration::from_secs(64)
        );
    }
}
