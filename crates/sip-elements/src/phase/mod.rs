//! The phases of a request. Each one lets the request continue or ends it with a [`Stop`]. Their order is in `pipeline.rs`.

pub(crate) mod destination;
pub(crate) mod identity;
pub(crate) mod keep_alive;
pub(crate) mod kept_off;
pub(crate) mod sanity;

use crate::answer::Refusal;

/// How a phase ends the processing of a request.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Answer it with this refusal.
    Refuse(Refusal),
    /// Ask the control plane and park the request. When the answer arrives, start over with authentication.
    Ask(Need),
    /// Nothing is left to do.
    Done,
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
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}
