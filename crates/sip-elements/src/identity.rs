//! Who a request speaks for.

/// The party that a request speaks for, and how far it is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// One of our subscribers (`user@domain`), proven by digest, or believed because the operator turned digest off.
    Subscriber(Box<[u8]>),
    /// Claims to be one of our subscribers, with a method that the operator does not challenge.
    Unproven,
    /// A trusted peer. Its From is believed.
    Peer,
    /// A sender from another domain. Nothing is proven.
    Stranger,
}
