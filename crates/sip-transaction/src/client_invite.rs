//! The client transaction of an INVITE (RFC 3261 sections 17.1.1 and 9.1, RFC 6026 section 7.2).

use crate::step::{Keep, Step, Tell, Transmit};
use crate::timer::{Timer, Timing};

/// ```text
///              INVITE from the user
///                      |  send, A, B
///                      v      cancel          A: send, 2*A
///          +------ Calling ------------> CallingToCancel ------+
///          |   A: send, 2*A                    |               | B: timeout
///  B:      |           | 1xx                   | 1xx: CANCEL   |
///  timeout |           v      cancel           v               |
///          |      Proceeding ------------> Cancelling ---------+ cancel wait: timeout
///          |           |       CANCEL          |               |
///          |           +-----------+-----------+               |
///          |     (from each of the four above) |               |
///          |               2xx |    | 3xx-6xx: ACK             |
///          |                   v    v                          |
///          |             Accepted  Completed (3xx-6xx: ACK)    |
///          |           (2xx: up)|   | D, at once when reliable  |
///          |                  M |   |                          |
///          v                    v   v                          |
///      terminated <-------------------------------------------+
/// ```
/// A CANCEL must not leave before a provisional response arrives. `CallingToCancel` and `Cancelling` remember that the user cancelled the
/// INVITE, or that the CANCEL has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Calling,
    CallingToCancel,
    Proceeding,
    Cancelling,
    Completed,
    Accepted,
}

use State::{Accepted, Calling, CallingToCancel, Cancelling, Completed, Proceeding};

impl State {
    /// The user sends the INVITE.
    pub(crate) fn start(timing: Timing) -> Step<Self> {
        Step::to(Calling)
            .send(Transmit::Given)
            .keep(Keep::Sent)
            .start_repeating(
                timing.unless_reliable(Timer::A),
                (Timer::B, timing.transaction_timeout()),
            )
    }

    /// 1xx. No timer runs while the callee is alerted: the proxy bounds this time with timer C.
    pub(crate) fn provisional(self, timing: Timing) -> Step<Self> {
        match self {
            Calling => Step::to(Proceeding).stop_timers().tell(Tell::Message),
            CallingToCancel => Self::send_cancel(timing).tell(Tell::Message),
            Proceeding | Cancelling => Step::to(self).tell(Tell::Message),
            Completed | Accepted => Step::to(self),
        }
    }

    /// 2xx. More may follow: retransmissions, or 2xx of other branches of a fork. All of them, and their ACKs, belong to the user (RFC
    /// 6026). The INVITE is therefore no longer needed.
    pub(crate) fn success(self, timing: Timing) -> Step<Self> {
        match self {
            Calling | CallingToCancel | Proceeding | Cancelling => Step::to(Accepted)
                .keep(Keep::Nothing)
                .start(Timer::M, timing.transaction_timeout())
                .tell(Tell::Message),
            Completed => Step::to(self),
            Accepted => Step::to(self).tell(Tell::Message),
        }
    }

    /// 3xx to 6xx. The ACK replaces the INVITE. It is sent again for each retransmission of the response.
    pub(crate) fn failure(self, timing: Timing) -> Step<Self> {
        match self {
            Calling | CallingToCancel | Proceeding | Cancelling if timing.reliable => {
                Step::end().send(Transmit::Ack).tell(Tell::Message)
            }
            Calling | CallingToCancel | Proceeding | Cancelling => Step::to(Completed)
                .send(Transmit::Ack)
                .keep(Keep::Sent)
                .start(Timer::D, timing.wait_for_responses())
                .tell(Tell::Message),
            Completed => Step::to(self).send(Transmit::Kept),
            Accepted => Step::to(self),
        }
    }

    /// The user cancels the INVITE.
    pub(crate) fn cancel(self, timing: Timing) -> Step<Self> {
        match self {
            Calling => Step::to(CallingToCancel),
            Proceeding => Self::send_cancel(timing),
            CallingToCancel | Cancelling | Completed | Accepted => Step::to(self),
        }
    }

    /// The user has had no response for so long that it goes on without this server. A CANCEL follows a late provisional response, as for
    /// [`State::cancel`]. But the INVITE is not retransmitted: a server that returns would answer a call that has gone elsewhere.
    pub(crate) fn give_up(self, timing: Timing) -> Step<Self> {
        match self {
            Calling => Step::to(CallingToCancel).start(Timer::B, timing.transaction_timeout()),
            _ => self.cancel(timing),
        }
    }

    /// Retransmits the INVITE; `retransmissions` includes this one.
    pub(crate) fn timer_a(self, timing: Timing, retransmissions: u8) -> Step<Self> {
        match self {
            Calling | CallingToCancel => Step::to(self)
                .send(Transmit::Kept)
                .repeat(Timer::A, timing.doubled(retransmissions)),
            Proceeding | Cancelling | Completed | Accepted => Step::to(self),
        }
    }

    /// There was no response.
    pub(crate) fn timer_b(self) -> Step<Self> {
        match self {
            Calling | CallingToCancel => Step::end().tell(Tell::Timeout),
            Proceeding | Cancelling | Completed | Accepted => Step::to(self),
        }
    }

    /// A cancelled INVITE got no final response: a server of RFC 2543 sends none.
    pub(crate) fn cancel_wait(self) -> Step<Self> {
        match self {
            Cancelling => Step::end().tell(Tell::Timeout),
            Calling | CallingToCancel | Proceeding | Completed | Accepted => Step::to(self),
        }
    }

    /// No more retransmissions of the final response are expected.
    pub(crate) fn timer_d(self) -> Step<Self> {
        if self == Completed {
            Step::end()
        } else {
            Step::to(self)
        }
    }

    /// No more 2xx are expected.
    pub(crate) fn timer_m(self) -> Step<Self> {
        if self == Accepted {
            Step::end()
        } else {
            Step::to(self)
        }
    }

    fn send_cancel(timing: Timing) -> Step<Self> {
        Step::to(Cancelling)
            .send(Transmit::Cancel)
            .start(Timer::CancelWait, timing.transaction_timeout())
    }
}
