//! A worker without a thread: each turn does what is due and returns.

use super::Worker;
use crate::inbox::Inbox;
use crate::running::ControlPlane;
use sip_transport::Node;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Rounds per turn. The next turn does the rest, so that the caller can do other work in between.
const ROUNDS: usize = 16;

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    /// A descriptor that is readable when a turn has work to do.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.event_loop.descriptor()
    }

    /// Does what is due. If nothing is left, other threads must wake the worker when they write to
    /// its inbox.
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

    /// How long to wait for the descriptor before the next turn. `None` means no limit.
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
