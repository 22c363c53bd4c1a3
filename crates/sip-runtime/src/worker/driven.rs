//! A worker without a thread of its own: each turn does what there is to do and returns.

use super::Worker;
use crate::inbox::Inbox;
use crate::running::QuestionSink;
use sip_transport::Node;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Rounds of a turn; what is left then is for the next one, after the caller's other business.
const ROUNDS: usize = 16;

impl<N: Node, Q: QuestionSink<N::Question>> Worker<N, Q> {
    /// Readable when a turn is worth it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.event_loop.descriptor()
    }

    /// Does what there is to do. If that was all, those who post must wake it from now on.
    pub(crate) fn turn(&mut self) {
        for _ in 0..ROUNDS {
            self.ask_event_loop(Some(Duration::ZERO));
            let is_due = self.until_deadline() == Some(Duration::ZERO);
            if !is_due && !self.is_busy() && self.inbox().is_some_and(Inbox::fall_asleep) {
                return;
            }
            self.round();
        }
    }

    /// How long the next turn may wait for the descriptor; `None`: for ever.
    pub(crate) fn until_turn(&self) -> Option<Duration> {
        if self.inbox().is_some_and(Inbox::is_asleep) {
            self.until_deadline()
        } else {
            Some(Duration::ZERO)
        }
    }

    fn until_deadline(&self) -> Option<Duration> {
        let deadline = self.next_deadline()?;
        Some(deadline.saturating_since(self.clock.now()))
    }
}
