//! The phases of a request. Each one lets the request continue or ends it with a [`Stop`]. Their order is in `pipeline.rs`.

pub(crate) mod authentication;
pub(crate) mod blocklist;
pub(crate) mod destination;
pub(crate) mod diversion;
pub(crate) mod edge;
pub(crate) mod events;
pub(crate) mod keep_alive;
pub(crate) mod policy;
pub(crate) mod sanity;
pub(crate) mod session_timer;

use crate::identity::Identity;
use crate::own_response::Refusal;
use crate::proxy::Onward;

/// How a phase ends the processing of a request.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Answer it with this refusal.
    Refuse(Refusal),
    /// Ask the control plane and park the request. When the answer arrives, resume there.
    Ask(Need, ResumeAt),
    /// Nothing is left to do.
    Done,
}

/// The stage that a parked request resumes at. The stages before it do not run again.
#[derive(Debug)]
pub(crate) enum ResumeAt {
    /// Authenticate the sender.
    Authenticate,
    /// Look up the targets for this sender.
    Route(Identity),
    /// Forward there, for this subscriber (`user@domain`); empty if the sender has not proved to be one.
    Forward(Onward, Box<[u8]>),
}

impl ResumeAt {
    /// Whether the request has passed the limits and holds places there.
    pub(crate) fn holds_places(&self) -> bool {
        matches!(self, Self::Forward(onward, _) if onward.holds_places())
    }

    /// The reason phrase of the 500 to a request whose answer did not arrive in time.
    pub(crate) const fn reason_when_late(&self) -> &'static str {
        match self {
            Self::Authenticate | Self::Route(_) => "Subscriber data did not arrive in time",
            Self::Forward(..) => "Media control did not answer in time",
        }
    }
}

/// The data that a request needs to continue.
#[derive(Debug)]
pub(crate) enum Need {
    /// The credentials of this subscriber, or the fact that it does not exist.
    Credentials {
        /// The user part.
        username: Box<[u8]>,
        /// The domain.
        domain: Box<[u8]>,
    },
    /// Another session description, or leave to forward the one that it has.
    Description,
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}
