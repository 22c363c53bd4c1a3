//! Aliases and call forwarding as they are stored.

/// An address or a number that leads to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The user part in canonical form.
    pub username: String,
    /// The domain; empty for all domains of the server.
    pub domain: String,
    /// The subscriber (`user@domain`).
    pub subscriber: String,
}

/// Where calls to a subscriber go instead: SIP URIs. An empty text stands for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// All calls.
    pub always: String,
    /// Calls that the phones refuse because they are busy.
    pub busy: String,
    /// Calls that are not answered.
    pub no_answer: String,
    /// How long the phones ring, in seconds.
    pub no_answer_seconds: u32,
    /// Calls that reach no phone.
    pub not_registered: String,
}

impl Forwarding {
    /// Whether it forwards no calls.
    pub fn is_empty(&self) -> bool {
        [
            &self.always,
            &self.busy,
            &self.no_answer,
            &self.not_registered,
        ]
        .iter()
        .all(|target| target.is_empty())
    }
}

/// The call forwarding of one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberForwarding {
    /// The user part.
    pub username: String,
    /// The domain.
    pub domain: String,
    /// Where the calls go.
    pub forwarding: Forwarding,
}
