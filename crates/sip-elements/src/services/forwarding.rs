//! Call forwarding: where calls to a subscriber go instead.

use super::table::{Replacement, Table};
use std::sync::Arc;
use std::time::Duration;

/// Where calls to a subscriber go instead of its phones. All targets are SIP URIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallForwarding {
    /// All calls. The phones do not ring.
    pub always: Option<Box<[u8]>>,
    /// Calls that the phones refuse because they are busy.
    pub busy: Option<Box<[u8]>>,
    /// Calls that are not answered.
    pub no_answer: Option<NoAnswer>,
    /// Calls that reach no phone.
    pub not_registered: Option<Box<[u8]>>,
}

/// Where calls go that are not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer {
    /// How long the phones ring.
    pub after: Duration,
    /// The target.
    pub target: Box<[u8]>,
}

impl CallForwarding {
    /// Whether a call goes somewhere although no phone is registered.
    pub(crate) const fn takes_unregistered(&self) -> bool {
        self.always.is_some() || self.not_registered.is_some()
    }
}

/// The call forwarding of subscribers, by `user@domain`.
#[derive(Debug)]
pub struct Forwardings(Table<Arc<CallForwarding>>);

impl Forwardings {
    pub(super) fn new(most: usize) -> Self {
        Self(Table::new(most))
    }

    /// Sets the call forwarding of a subscriber, or removes it. Returns false, without a change, if there is no room.
    pub fn set(&self, username: &[u8], domain: &[u8], forwarding: Option<CallForwarding>) -> bool {
        self.0
            .set(&[username, b"@", domain], forwarding.map(Arc::new))
    }

    /// The call forwarding of a subscriber (`user@domain`).
    pub fn find(&self, address: &[u8]) -> Option<Arc<CallForwarding>> {
        self.0.find(&[address])
    }

    /// The number of subscribers that forward calls.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to replace all entries.
    pub fn replace(&self) -> Replacement<'_, Arc<CallForwarding>> {
        self.0.replace()
    }
}

impl Replacement<'_, Arc<CallForwarding>> {
    /// Sets the call forwarding of a subscriber.
    pub fn forwarding(&mut self, username: &[u8], domain: &[u8], forwarding: CallForwarding) {
        self.set(&[username, b"@", domain], Arc::new(forwarding));
    }
}
