//! The two parties of a dialog, and how each is reached.

use sip_transport::{Flow, Protocol};

/// A party of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// The sender of the INVITE.
    Caller,
    /// The party that answered, or that will.
    Callee,
}

impl Party {
    /// Both parties.
    pub const ALL: [Self; 2] = [Self::Caller, Self::Callee];

    /// The other party.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// The path between this server and the next hop towards a party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The flow that the INVITE arrived on or left on.
    pub flow: Flow,
    /// The transport protocol of the flow.
    pub protocol: Protocol,
    /// The party is reached over this flow only.
    pub is_by_flow: bool,
}
