//! The server transaction of every request except INVITE and ACK (RFC 3261 section 17.2.2).

use crate::step::{Keep, Step, Transmit};
use crate::timer::{Timer, Timing};

/// ```text
///              request: up
///                   |
///                   v
///                Trying ------------+
///                   | user 1xx:     |
///                   v send          |
///  request:     Proceeding          | user 2xx-6xx: send
///  1xx again        |               |
///                   | user 2xx-6xx: |
///                   v send          |
///  request:     Completed <---------+
///  send again       | J, at once when reliable
///  (nothing after silence)
///                   v
///              terminated
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Trying,
    Proceeding,
    Completed,
}

use State::{Completed, Proceeding, Trying};

impl State {
    /// The request has been passed up.
    pub(crate) const INITIAL: Self = Trying;

    /// A retransmission of the request.
    pub(crate) fn request(self) -> Step<Self> {
        match self {
            Trying => Step::to(self),
            Proceeding | Completed => Step::to(self).send(Transmit::Kept),
        }
    }

    /// The user sends 1xx.
    pub(crate) fn provisional(self, timing: Timing) -> Step<Self> {
        match self {
            Trying | Proceeding => {
                let keep = if timing.reliable {
                    Keep::Nothing
                } else {
                    Keep::Sent
                };
                Step::to(Proceeding).send(Transmit::Given).keep(keep)
            }
            Completed => Step::to(self),
        }
    }

    /// The user sends 2xx to 6xx.
    pub(crate) fn final_response(self, timing: Timing) -> Step<Self> {
        match self {
            Trying | Proceeding if timing.reliable => Step::end().send(Transmit::Given),
            Trying | Proceeding => Step::to(Completed)
                .send(Transmit::Given)
                .keep(Keep::Sent)
                .start(Timer::J, timing.transaction_timeout()),
            Completed => Step::to(self),
        }
    }

    /// The user will send no final response (RFC 4320 section 4.2). Retransmissions get no response, and are not taken for a new request.
    pub(crate) fn silence(self, timing: Timing) -> Step<Self> {
        match self {
            Trying | Proceeding if timing.reliable => Step::end(),
            Trying | Proceeding => Step::to(Completed)
                .keep(Keep::Nothing)
                .start(Timer::J, timing.transaction_timeout()),
            Completed => Step::to(self),
        }
    }

    /// No more retransmissions of the request are expected.
    pub(crate) fn timer_j(self) -> Step<Self> {
        if self == Completed {
            Step::end()
        } else {
            Step::to(self)
        }
    }
}
