//! Sets of methods.

use sip_message::Method;

/// A set of methods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Methods {
    /// One bit for each method that is known by name.
    known: u16,
    /// The tokens of others.
    others: Box<[Box<[u8]>]>,
}

/// The index of methods that are not known by name.
pub(super) const OTHER: usize = Method::LABELS.len() - 1;

impl Methods {
    pub(super) fn new<'a>(methods: impl IntoIterator<Item = Method<'a>>) -> Self {
        let (mut known, mut others) = (0, Vec::new());
        for method in methods {
            match method {
                Method::Other(token) => others.push(token.into()),
                method => known |= 1 << method.label_index(),
            }
        }
        Self {
            known,
            others: others.into(),
        }
    }

    pub(super) fn contains(&self, method: Method<'_>) -> bool {
        match method {
            Method::Other(token) => self.others.iter().any(|other| **other == *token),
            method => self.known & (1 << method.label_index()) != 0,
        }
    }

    /// Whether the set contains methods that are not known by name.
    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Whether the set may contain a method with this label.
    pub(super) fn may_contain(&self, label: usize) -> bool {
        if label == OTHER {
            self.has_others()
        } else {
            self.known & (1 << label) != 0
        }
    }

    /// Whether the set contains all of the other set.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.known & !self.known == 0
            && other.others.iter().all(|token| self.others.contains(token))
    }
}
