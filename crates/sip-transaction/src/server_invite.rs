//! The server transaction of an INVITE (RFC 3261 section 17.2.1, RFC 6026 section 7.1).

use crate::step::{Keep, Step, Tell, Transmit};
use crate::timer::{Timer, Timing};

/// ```text
///                 INVITE: up
///                     |
///                     v
///    INVITE: 1xx   Proceeding  user 1xx: send
///    again            |   |
///        user 2xx:    |   |  user 3xx-6xx:
///           send, L   |   |  send, G, H
///          +----------+   +-----------+
///          v                          v
///      Accepted                   Completed  G: send, 2*G to T2
///   user 2xx: send                 |      |  INVITE: send
///   ACK: up                    ACK |      |
///   INVITE: absorbed               v      | H: tell the user
///          |                  Confirmed   |
///          | L                     | I, at once when reliable
///          v                       v      v
///      terminated <----------------+------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Proceeding,
    Completed,
    Confirmed,
    Accepted,
}

use State::{Accepted, Completed, Confirmed, Proceeding};

impl State {
    /// The INVITE has been passed up. The user sends 100 (Trying) if it will take longer than 200 ms.
    pub(crate) const INITIAL: Self = Proceeding;

    /// A retransmission of the INVITE.
    pub(crate) fn invite(self) -> Step<Self> {
        match self {
            Proceeding | Completed => Step::to(self).send(Transmit::Kept),
            Confirmed | Accepted => Step::to(self),
        }
    }

    /// An ACK. A client of RFC 3261 gives the ACK of a 2xx a branch of its own. An ACK with the branch of the INVITE is passed up as well
    /// (RFC 6026).
    pub(crate) fn ack(self, timing: Timing) -> Step<Self> {
        match self {
            Completed if timing.reliable => Step::end(),
            Completed => Step::to(Confirmed)
                .keep(Keep::Nothing)
                .start(Timer::I, timing.settings.t4),
            Accepted => Step::to(self).tell(Tell::Message),
            Proceeding | Confirmed => Step::to(self),
        }
    }

    /// The user sends 1xx.
    pub(crate) fn provisional(self, timing: Timing) -> Step<Self> {
        match self {
            Proceeding => Step::to(self).send(Transmit::Given).keep(keep_sent(timing)),
            Completed | Confirmed | Accepted => Step::to(self),
        }
    }

    /// The user sends 2xx: the first one or, as a proxy, a retransmission from downstream.
    pub(crate) fn success(self, timing: Timing) -> Step<Self> {
        match self {
            Proceeding => Step::to(Accepted)
                .send(Transmit::Given)
                .keep(Keep::Nothing)
                .start(Timer::L, timing.transaction_timeout()),
            Accepted => Step::to(self).send(Transmit::Given),
            Completed | Confirmed => Step::to(self),
        }
    }

    /// The user sends 3xx to 6xx.
    pub(crate) fn failure(self, timing: Timing) -> Step<Self> {
        match self {
            Proceeding => Step::to(Completed)
                .send(Transmit::Given)
                .keep(keep_sent(timing))
                .start_repeating(
                    timing.unless_reliable(Timer::G),
                    (Timer::H, timing.transaction_timeout()),
                ),
            Completed | Confirmed | Accepted => Step::to(self),
        }
    }

    /// Retransmits the final response; `retransmissions` includes this one.
    pub(crate) fn timer_g(self, timing: Timing, retransmissions: u8) -> Step<Self> {
        match self {
            Completed => Step::to(self)
                .send(Transmit::Kept)
                .repeat(Timer::G, timing.doubled_to_t2(retransmissions)),
            Proceeding | Confirmed | Accepted => Step::to(self),
        }
    }

    /// There was no ACK.
    pub(crate) fn timer_h(self) -> Step<Self> {
        if self == Completed {
            Step::end().tell(Tell::Timeout)
        } else {
            Step::to(self)
        }
    }

    /// No more ACKs are expected.
    pub(crate) fn timer_i(self) -> Step<Self> {
        if self == Confirmed {
            Step::end()
        } else {
            Step::to(self)
        }
    }

    /// No more retransmissions of the INVITE are expected.
    pub(crate) fn timer_l(self) -> Step<Self> {
        if self == Accepted {
            Step::end()
        } else {
            Step::to(self)
        }
    }
}

/// Keeps a response for retransmission, which never happens over a reliable transport.
const fn keep_sent(timing: Timing) -> Keep {
    if timing.reliable {
        Keep::Nothing
    } else {
        Keep::Sent
    }
}
