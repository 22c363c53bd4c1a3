//! The conditions that a rule may have.

/// A condition, named by its key in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The method.
    Method,
    /// The network that the request came from.
    Source,
    /// The listener that the request arrived on.
    Listener,
    /// The transport protocol.
    Transport,
    /// The user of the Request-URI.
    User,
    /// The domain of the Request-URI.
    Domain,
    /// The user of From.
    FromUser,
    /// The domain of From.
    FromDomain,
    /// The user of To.
    ToUser,
    /// The domain of To.
    ToDomain,
    /// A header field.
    Header,
}

impl Condition {
    /// All conditions, in the order in which they are tested.
    pub const ALL: [Self; 11] = [
        Self::Method,
        Self::Source,
        Self::Listener,
        Self::Transport,
        Self::User,
        Self::Domain,
        Self::FromUser,
        Self::FromDomain,
        Self::ToUser,
        Self::ToDomain,
        Self::Header,
    ];

    /// The key in the configuration.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Source => "source",
            Self::Listener => "listener",
            Self::Transport => "transport",
            Self::User => "user",
            Self::Domain => "domain",
            Self::FromUser => "from_user",
            Self::FromDomain => "from_domain",
            Self::ToUser => "to_user",
            Self::ToDomain => "to_domain",
            Self::Header => "header",
        }
    }
}

/// The parts of a request that are compared with patterns. The value is an index into arrays with one item for each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Domain,
    FromUser,
    FromDomain,
    ToUser,
    ToDomain,
}

impl Part {
    pub(super) const COUNT: usize = 6;

    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::User,
        Self::Domain,
        Self::FromUser,
        Self::FromDomain,
        Self::ToUser,
        Self::ToDomain,
    ];

    pub(super) const fn condition(self) -> Condition {
        match self {
            Self::User => Condition::User,
            Self::Domain => Condition::Domain,
            Self::FromUser => Condition::FromUser,
            Self::FromDomain => Condition::FromDomain,
            Self::ToUser => Condition::ToUser,
            Self::ToDomain => Condition::ToDomain,
        }
    }

    pub(super) const fn is_user(self) -> bool {
        matches!(self, Self::User | Self::FromUser | Self::ToUser)
    }
}
