//! The phases of a request, each a small judgement: go on, or a [`Stop`]. Their order stands in `pipeline.rs`.

pub(crate) mod destination;
pub(crate) mod identity;
pub(crate) mod keep_alive;
pub(crate) mod kept_off;
pub(crate) mod sanity;

use crate::answer::Refusal;

/// A phase ends the way of a request.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Answer it with this.
    Refuse(Refusal),
    /// Ask the control plane, park it, and begin again with authentication when the answer is there.
    Ask(Need),
    /// It has been dealt with.
    Done,
}

/// What must be known before a request can go on.
#[derive(Debug)]
pub(crate) enum Need {
    /// The credentials of this subscriber, or that there is no such subscriber.
    Credentials {
        /// User part.
        username: Box<[u8]>,
        /// Domain.
        domain: Box<[u8]>,
    },
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}
