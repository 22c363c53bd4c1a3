//! What a rule does with a request.

use super::header_edits::HeaderEdits;
use super::number_edit::NumberEdit;
use sip_transport::selection::Destination;

/// What happens to a request that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is refused.
    Refuse(Refusal),
    /// It is answered with 302 and these URIs as contacts, best first.
    Redirect(Box<[Box<str>]>),
    /// It is forwarded to a gateway group.
    Group(Reference),
    /// The called number is looked up in a prefix table.
    Prefixes(Reference),
    /// It goes the ordinary way: registrar, location, next hop.
    Local,
    /// It is forwarded without a transaction.
    Stateless(Destination),
    /// It is forwarded without a transaction to a member of a gateway group.
    Balance(Reference),
}

impl Decision {
    /// Whether the request is forwarded without a transaction.
    pub const fn is_stateless(&self) -> bool {
        matches!(self, Self::Stateless(_) | Self::Balance(_))
    }
}

/// A name that the rule refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The name.
    pub name: Box<str>,
    /// Its index in the list of [`super::KnownNames`].
    pub index: usize,
}

/// How a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code, 300 to 699.
    pub status: u16,
    /// Reason phrase; `None`: that of the RFC.
    pub reason: Option<Box<str>>,
    /// Value of Retry-After, in seconds.
    pub retry_after: Option<u32>,
}

/// How the sender of a request is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// By digest, also if the server would not challenge it.
    Digest,
    /// Not at all: the source is trusted, and so is the identity that it asserts.
    Trust,
    /// Not at all: the sender stays a stranger.
    Never,
}

/// The decision of a rule, and what comes with it.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) decision: Decision,
    pub(super) authentication: Option<Authentication>,
    pub(super) limit: Option<Reference>,
    pub(super) header_edits: HeaderEdits,
    pub(super) number_edit: Option<NumberEdit>,
}
