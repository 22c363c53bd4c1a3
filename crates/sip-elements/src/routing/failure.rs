//! Why a request could not be sent to a target, or why its branch ended without a response.

use sip_message::reason_phrase;

/// Why a branch ended without a final response from downstream, or why no downstream response is good enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No answer in time.
    Timeout,
    /// There is no way to the target: nothing can be sent there, or none of our listeners leads there.
    Unreachable,
    /// No record locates the next hop of the target.
    Unlocated,
    /// The name servers did not locate it in time.
    Unresolved,
    /// The flow to a phone is gone: our flow, or the flow of an edge proxy, which reports this with 430. The report is
    /// for us only: upstream, the phone is unavailable (RFC 5626 section 7).
    Gone,
    /// No gateway takes the request: all are down, full or over their rate.
    NoGateway,
    /// The gateway did not accept our credentials, or its challenge cannot be answered. The challenge is not for the caller.
    Unauthorized,
    /// One of our tables is full.
    Overloaded,
    /// We cannot route this kind of URI.
    UnsupportedScheme,
    /// A malformed Route or Path value.
    BadRoute,
    /// The source of the request may not reach the destination.
    OffLimits,
    /// The request needs a secure transport, but no listener or candidate offers one.
    NotSecure,
    /// The callee diverts the call, but may not call that target, or it leads nowhere.
    NotDiverted,
    /// The call was diverted to a subscriber that has diverted it before.
    DivertedInCircle,
    /// The call was diverted too often.
    DivertedTooOften,
    /// The caller cancelled the request.
    Cancelled,
}

impl Failure {
    /// Status code of the failure upstream. An unreachable target counts as a 503 from it, which becomes 500
    /// (section 16.7 step 6).
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Timeout => 408,
            Self::Unreachable | Self::Unlocated => 500,
            Self::Gone | Self::NotSecure | Self::NotDiverted | Self::DivertedTooOften => 480,
            Self::DivertedInCircle => 482,
            Self::OffLimits => 403,
            Self::Unresolved => 504,
            Self::Unauthorized => 502,
            Self::NoGateway | Self::Overloaded => 503,
            Self::UnsupportedScheme => 416,
            Self::BadRoute => 400,
            Self::Cancelled => 487,
        }
    }

    /// Reason phrase of that response.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "Next hop is not reachable",
            Self::Unlocated => "Next hop has no address",
            Self::Unresolved => "Next hop was not resolved in time",
            Self::NoGateway => "No gateway is available",
            Self::Overloaded => "Too many transactions",
            Self::BadRoute => "Bad Route",
            Self::OffLimits => "Destination is off limits",
            Self::NotDiverted => "Call cannot be forwarded",
            Self::DivertedInCircle => "Call forwarding loop",
            Self::DivertedTooOften => "Call forwarded too often",
            Self::NotSecure => "No secure way to the destination",
            other => reason_phrase(other.status()),
        }
    }
}
