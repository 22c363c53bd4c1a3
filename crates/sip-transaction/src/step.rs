//! What a machine answers to an event: the new state and what to do, as plain values.
//!
//! The machines do nothing themselves. That keeps them small, lets every state meet every event in one snapshot, and leaves bytes,
//! tables and the wheel to [`crate::Transactions`].

use crate::timer::Timer;
use std::time::Duration;

/// The answer of a machine. When it ends, its timers stop and what it keeps is dropped without being told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step<S> {
    /// The new state; `None`: the transaction is gone.
    pub(crate) next: Option<S>,
    pub(crate) send: Send,
    pub(crate) keep: Keep,
    pub(crate) timers: Timers,
    pub(crate) tell: Tell,
}

/// What goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Send {
    Nothing,
    /// The message that the transaction user gives with the event.
    Given,
    /// The message kept, once more.
    Kept,
    /// The ACK for the response that came, made from the INVITE kept.
    Ack,
    /// The CANCEL of the INVITE kept, in a transaction of its own.
    Cancel,
}

/// What happens to the message kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    AsIs,
    /// What has just gone out takes its place.
    Sent,
    Nothing,
}

/// What happens to the two timers of a transaction: one that repeats (A, E, G) and one that ends (the others).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timers {
    AsIs,
    Stop,
    /// Starts the repeating one again; the other goes on.
    Repeat(Timer, Duration),
    /// Both anew.
    Start {
        repeat: Option<(Timer, Duration)>,
        end: (Timer, Duration),
    },
}

/// What the transaction user learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Nothing,
    /// The message that came: a response, or the ACK of a 2xx.
    Message,
    /// Nobody answered: no final response, or no ACK.
    Timeout,
}

impl<S> Step<S> {
    /// To a state, or staying there: nothing to do.
    pub(crate) const fn to(state: S) -> Self {
        Self {
            next: Some(state),
            send: Send::Nothing,
            keep: Keep::AsIs,
            timers: Timers::AsIs,
            tell: Tell::Nothing,
        }
    }

    /// The end of the transaction.
    pub(crate) const fn end() -> Self {
        Self {
            next: None,
            send: Send::Nothing,
            keep: Keep::AsIs,
            timers: Timers::AsIs,
            tell: Tell::Nothing,
        }
    }

    pub(crate) const fn send(mut self, send: Send) -> Self {
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

    /// Stops what runs and starts the timer that ends this state.
    pub(crate) const fn start(mut self, timer: Timer, after: Duration) -> Self {
        self.timers = Timers::Start {
            repeat: None,
            end: (timer, after),
        };
        self
    }

    /// Starts, beside the timer that ends this state, the one that repeats; not over a reliable transport (`None`).
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

    /// The same step of a machine that is one of several.
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

/// What a machine wants to know of a status code.
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
    /// `None` when it is no status code.
    pub(crate) const fn of(status: u16) -> Option<Self> {
        match status {
            100..=199 => Some(Self::Provisional),
            200..=299 => Some(Self::Success),
            300..=699 => Some(Self::Failure),
            _ => None,
        }
    }
}
