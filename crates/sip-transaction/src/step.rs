//! The response of a machine to an event: the new state and the actions, as plain values.
//!
//! The machines have no side effects. This keeps them small and lets one snapshot test every state against every event. Bytes, tables and
//! the wheel are left to [`crate::Transactions`].

use crate::timer::Timer;
use std::time::Duration;

/// The response of a machine. When the transaction ends, its timers stop and its kept message is dropped, without an explicit action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step<S> {
    /// The new state; `None` ends the transaction.
    pub(crate) next: Option<S>,
    pub(crate) send: Transmit,
    pub(crate) keep: Keep,
    pub(crate) timers: Timers,
    pub(crate) tell: Tell,
}

/// The message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transmit {
    Nothing,
    /// The message that the transaction user passes with the event.
    Given,
    /// The kept message, again.
    Kept,
    /// The ACK of the received response, derived from the kept INVITE.
    Ack,
    /// The CANCEL of the kept INVITE, in a transaction of its own.
    Cancel,
}

/// What happens to the kept message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    AsIs,
    /// The message just sent replaces it.
    Sent,
    Nothing,
}

/// What happens to the two timers of a transaction: one that retransmits (A, E, G) and one that ends it (the others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timers {
    AsIs,
    Stop,
    /// Restarts the retransmission timer. The other keeps running.
    Repeat(Timer, Duration),
    /// Restarts both.
    Start {
        repeat: Option<(Timer, Duration)>,
        end: (Timer, Duration),
    },
}

/// What to report to the transaction user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Nothing,
    /// The received message: a response, or the ACK of a 2xx.
    Message,
    /// There was no final response, or no ACK.
    Timeout,
}

impl<S> Step<S> {
    /// Moves to a state, or stays there, without an action.
    pub(crate) const fn to(state: S) -> Self {
        Self {
            next: Some(state),
            send: Transmit::Nothing,
            keep: Keep::AsIs,
            timers: Timers::AsIs,
            tell: Tell::Nothing,
        }
    }

    /// Ends the transaction.
    pub(crate) const fn end() -> Self {
        Self {
            next: None,
            send: Transmit::Nothing,
            keep: Keep::AsIs,
            timers: Timers::AsIs,
            tell: Tell::Nothing,
        }
    }

    pub(crate) const fn send(mut self, send: Transmit) -> Self {
        self.send = send;
        self
    }

    pub(crate) const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    pub(crate) const fn stop_timers(mut self) -> Self {
        self.timers = Timers::Stop;
        self
    }

    /// Stops all timers and starts the one that ends this state.
    pub(crate) const fn start(mut self, timer: Timer, after: Duration) -> Self {
        self.timers = Timers::Start {
            repeat: None,
            end: (timer, after),
        };
        self
    }

    /// Starts the timer that ends this state, and the retransmission timer unless the transport is reliable (`None`).
    pub(crate) const fn start_repeating(
        mut self,
        repeat: Option<(Timer, Duration)>,
        end: (Timer, Duration),
    ) -> Self {
        self.timers = Timers::Start { repeat, end };
        self
    }

    pub(crate) const fn repeat(mut self, timer: Timer, after: Duration) -> Self {
        self.timers = Timers::Repeat(timer, after);
        self
    }

    pub(crate) const fn tell(mut self, tell: Tell) -> Self {
        self.tell = tell;
        self
    }

    /// Converts the step of one machine into the step of an enum of machines.
    pub(crate) fn map<T>(self, state: impl FnOnce(S) -> T) -> Step<T> {
        Step {
            next: self.next.map(state),
            send: self.send,
            keep: self.keep,
            timers: self.timers,
            tell: self.tell,
        }
    }
}

/// The classes of status codes that the machines distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// 1xx.
    Provisional,
    /// 2xx.
    Success,
    /// 3xx to 6xx.
    Failure,
}

impl Class {
    /// `None` for an invalid status code.
    pub(crate) const fn of(status: u16) -> Option<Self> {
        match status {
            100..=199 => Some(Self::Provisional),
            200..=299 => Some(Self::Success),
            300..=699 => Some(Self::Failure),
            _ => None,
        }
    }
}
