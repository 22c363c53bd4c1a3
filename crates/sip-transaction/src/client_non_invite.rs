//! The client transaction of every request except INVITE and ACK (RFC 3261 section 17.1.2).

use crate::step::{Keep, Step, Tell, Transmit};
use crate::timer::{Timer, Timing};

/// ```text
///      request from the user
///               |  send, E, F
///               v
///            Trying --------------------+
///  E: send,     | 1xx: up               |
///  2*E to T2    v                       |
///          Proceeding (1xx: up) --------+ F: timeout
///  E: send,     |                       |
///  E is T2      | 2xx-6xx: up           |
///               v    (from Trying too)  |
///           Completed                   |
///               | K, at once            |
///               | when reliable         |
///               v                       |
///          terminated <-----------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Trying,
    Proceeding,
    Completed,
}

use State::{Completed, Proceeding, Trying};

impl State {
    /// The user sends the request.
    pub(crate) fn start(timing: Timing) -> Step<Self> {
        Step::to(Trying)
            .send(Transmit::Given)
            .keep(Keep::Sent)
            .start_repeating(
                timing.unless_reliable(Timer::E),
                (Timer::F, timing.transaction_timeout()),
            )
    }

    /// 1xx. Retransmissions of the request continue, because they make the server repeat a lost final response; there
    /// is no ACK for it.
    pub(crate) fn provisional(self) -> Step<Self> {
        match self {
            Trying | Proceeding => Step::to(Proceeding).tell(Tell::Message),
            Completed => Step::to(self),
        }
    }

    /// 2xx to 6xx.
    pub(crate) fn final_response(self, timing: Timing) -> Step<Self> {
        match self {
            Trying | Proceeding if timing.reliable => Step::end().tell(Tell::Message),
            Trying | Proceeding => Step::to(Completed)
                .keep(Keep::Nothing)
                .start(Timer::K, timing.settings.t4)
                .tell(Tell::Message),
            Completed => Step::to(self),
        }
    }

    /// Retransmits the request; `retransmissions` includes this one.
    pub(crate) fn timer_e(self, timing: Timing, retransmissions: u8) -> Step<Self> {
        match self {
            Trying => Step::to(self)
                .send(Transmit::Kept)
                .repeat(Timer::E, timing.doubled_to_t2(retransmissions)),
            Proceeding => Step::to(self)
                .send(Transmit::Kept)
                .repeat(Timer::E, timing.settings.t2),
            Completed => Step::to(self),
        }
    }

    /// There was no final response.
    pub(crate) fn timer_f(self) -> Step<Self> {
        match self {
            Trying | Proceeding => Step::end().tell(Tell::Timeout),
            Completed => Step::to(self),
        }
    }

    /// No more retransmissions of the final response are expected.
    pub(crate) fn timer_k(self) -> Step<Self> {
        if self == Completed {
            Step::end()
        } else {
            Step::to(self)
        }
    }
}
