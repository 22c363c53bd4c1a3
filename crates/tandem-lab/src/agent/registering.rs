//! Paced registration of phones, at the rate that the controller sets, and the refreshes before expiry.

use std::time::{Duration, Instant};

/// A round of registrations.
#[derive(Debug)]
pub(super) struct Registering {
    phones: Vec<u32>,
    per_second: u32,
    began: Instant,
    /// Index of the next phone.
    next: usize,
    /// When the next round begins.
    renewal: Duration,
    is_first_round: bool,
    succeeded: u64,
    failed: u64,
}

impl Registering {
    /// Starts a round now. Registrations last for `expires` seconds.
    pub(super) fn new(phones: Vec<u32>, per_second: u32, expires: u32, now: Instant) -> Self {
        Self {
            phones,
            per_second: per_second.max(1),
            began: now,
            next: 0,
            renewal: Duration::from_secs(u64::from(expires) / 2),
            is_first_round: true,
            succeeded: 0,
            failed: 0,
        }
    }

    /// The phones that are due by now.
    pub(super) fn due(&mut self, now: Instant) -> &[u32] {
        let since = now.saturating_duration_since(self.began);
        if self.next == self.phones.len() && since >= self.renewal && !self.is_waiting() {
            self.began = now;
            self.next = 0;
            self.is_first_round = false;
            (self.succeeded, self.failed) = (0, 0);
        }
        let since = now.saturating_duration_since(self.began).as_micros();
        let until = (since * u128::from(self.per_second) / 1_000_000) as usize + 1;
        let from = self.next;
        self.next = until.clamp(from, self.phones.len());
        &self.phones[from..self.next]
    }

    /// Counts registrations that succeeded or failed.
    pub(super) fn ended(&mut self, succeeded: u64, failed: u64) {
        self.succeeded += succeeded;
        self.failed += failed;
    }

    /// Registered phones. In later rounds these are all phones that the server has not rejected.
    pub(super) fn registered(&self) -> u32 {
        let registered = if self.is_first_round {
            self.succeeded
        } else {
            (self.phones.len() as u64).saturating_sub(self.failed)
        };
        registered as u32
    }

    /// Registrations in progress.
    pub(super) fn outstanding(&self) -> usize {
        self.next
            .saturating_sub((self.succeeded + self.failed) as usize)
    }

    /// Whether some have no response yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.succeeded + self.failed < self.phones.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phones_register_at_the_rate_and_again_after_half_their_time() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut registering = Registering::new((10..20).collect(), 4, 60, start);
        assert_eq!(registering.due(start), [10]);
        assert_eq!(registering.due(after(500)), [11, 12]);
        assert!(registering.due(after(500)).is_empty());
        assert_eq!(registering.due(after(10_000)).len(), 7);
        registering.ended(9, 1);
        assert_eq!(registering.registered(), 9);
        assert!(registering.due(after(29_999)).is_empty());
        assert_eq!(registering.due(after(30_000)), [10]);
        assert_eq!(
            registering.registered(),
            10,
            "the refused one has another try"
        );
        registering.ended(0, 2);
        assert_eq!(registering.registered(), 8);
    }
}
