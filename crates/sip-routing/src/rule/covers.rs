//! Whether a rule leaves anything to a later one.

use super::condition::Part;
use super::conditions::{Conditions, HeaderCondition};
use super::methods::Methods;
use super::sources::Sources;
use super::text_set::TextSet;

impl Conditions {
    /// Whether every request matches.
    pub(super) fn are_none(&self) -> bool {
        self.methods.is_none()
            && self.sources.is_none()
            && self.listeners.is_none()
            && self.protocols.is_none()
            && self.texts.iter().all(Option::is_none)
            && self.headers.is_none()
    }

    /// Whether these conditions certainly hold for every request for which the others hold.
    pub(super) fn cover(&self, other: &Self) -> bool {
        let listeners = (self.listeners.as_ref(), other.listeners.as_ref());
        let protocols = (self.protocols.as_ref(), other.protocols.as_ref());
        let headers = (self.headers.as_ref(), other.headers.as_ref());
        is_covered(
            (self.methods.as_ref(), other.methods.as_ref()),
            Methods::covers,
        ) && is_covered(
            (self.sources.as_ref(), other.sources.as_ref()),
            Sources::covers,
        ) && is_covered(listeners, |ours, theirs| {
            theirs.iter().all(|listener| ours.contains(listener))
        }) && is_covered(protocols, |ours, theirs| ours.covers(*theirs))
            && Part::ALL.into_iter().all(|part| {
                is_covered((self.text_set(part), other.text_set(part)), TextSet::covers)
            })
            && is_covered(headers, |ours, theirs| {
                let is_covered = |theirs| ours.iter().any(|ours| ours.covers(theirs));
                theirs.iter().all(is_covered)
            })
    }
}

impl HeaderCondition {
    fn covers(&self, other: &Self) -> bool {
        let values = (self.value.as_ref(), other.value.as_ref());
        self.name == other.name && is_covered(values, TextSet::covers)
    }
}

/// Whether a condition covers another one; an absent one covers all, and only an absent one covers an absent one.
fn is_covered<T>(pair: (Option<&T>, Option<&T>), covers: impl Fn(&T, &T) -> bool) -> bool {
    match pair {
        (None, _) => true,
        (Some(ours), Some(theirs)) => covers(ours, theirs),
        (Some(_), None) => false,
    }
}
