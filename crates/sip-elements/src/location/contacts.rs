//! Computes a change of the bindings of one address of record, and what the change amounts to.

use super::Binding;
use super::record::{Difference, MAX_BINDING, Record, Stored, packed_length};
use super::user_agents::UserAgents;
use sip_transport::ConnectionId;
use smallvec::SmallVec;

/// A change of the bindings of an address of record: by a REGISTER, a restored binding, or the operator. It may be
/// applied again to newer bindings if another worker was faster, so it must decide from its arguments alone.
pub(crate) trait Change {
    /// Why a change is refused.
    type Error;
    /// Changes the bindings, or refuses. On a refusal no binding changes.
    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Self::Error>;

    /// The binding, if this change is about one binding only. If the only existing binding differs from it just in an
    /// earlier end and a lower `CSeq`, these two are updated in place and `apply` is not called. The result must be the
    /// same as with `apply`.
    fn refreshed(&self) -> Option<Binding<'_>> {
        None
    }
}

/// Whether the changes of a record go to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// They come from there, or there is none.
    Never,
    /// All but refreshes that hardly move the end of a binding.
    IfOutdated,
    /// All.
    Always,
}

/// The bindings that have not expired, in the order they are tried.
#[derive(Debug)]
pub(crate) struct Contacts<'s> {
    list: SmallVec<[Stored<'s>; 2]>,
    added: usize,
    ended: usize,
    /// Whether the bindings have changed, so that a new version of the record is needed.
    touched: bool,
    /// Whether the saved bindings are no longer right.
    announce: bool,
}

impl<'s> Contacts<'s> {
    /// The bindings of a record that have not expired at `now` (Unix seconds).
    pub(super) fn unpack(
        record: Option<&'s Record>,
        user_agents: &'s UserAgents,
        now: u32,
    ) -> Self {
        let mut contacts = Self {
            list: SmallVec::new(),
            added: 0,
            ended: 0,
            touched: false,
            announce: false,
        };
        let Some(record) = record else {
            return contacts;
        };
        for stored in record.bindings(user_agents) {
            if stored.binding.expires_at > now {
                contacts.list.push(stored);
            } else {
                contacts.note_end();
            }
        }
        contacts
    }

    /// The bindings with the changes so far.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding<'s>> {
        self.list.iter().map(|stored| &stored.binding)
    }

    /// The position of the first binding that satisfies `test`.
    pub(crate) fn position(&self, test: impl FnMut(&Binding<'s>) -> bool) -> Option<usize> {
        self.iter().position(test)
    }

    /// The binding at a position, and whether this change created or refreshed it.
    pub(crate) fn at(&self, position: usize) -> Option<(&Binding<'s>, bool)> {
        self.list
            .get(position)
            .map(|stored| (&stored.binding, stored.fresh))
    }

    /// The position of the last binding that satisfies `test` and that this change has not touched.
    pub(crate) fn last_of_old(&self, test: impl Fn(&Binding<'s>) -> bool) -> Option<usize> {
        self.list
            .iter()
            .rposition(|stored| !stored.fresh && test(&stored.binding))
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are more bindings than before the change.
    pub(crate) fn has_grown(&self) -> bool {
        self.added > self.ended
    }

    /// Adds a new binding.
    pub(crate) fn add(&mut self, binding: Binding<'s>) {
        self.added += 1;
        self.announce = true;
        self.place(binding, 0);
    }

    /// Replaces a binding by its refreshed version.
    pub(crate) fn replace(&mut self, position: usize, binding: Binding<'s>) {
        if position >= self.list.len() {
            return;
        }
        let old = self.list.remove(position);
        self.announce |= differs_at_rest(&old.binding, &binding);
        self.place(binding, old.saved_until);
    }

    pub(crate) fn remove(&mut self, position: usize) {
        if position < self.list.len() {
            self.list.remove(position);
            self.note_end();
        }
    }

    /// Removes the connection of a binding and leaves the rest as it was.
    pub(crate) fn disconnect(&mut self, position: usize) {
        if let Some(stored) = self.list.get_mut(position) {
            stored.binding.connection = ConnectionId::NONE;
            self.touched = true;
        }
    }

    /// Ends the bindings that do not satisfy `keep`.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Binding<'s>, bool) -> bool) {
        let before = self.list.len();
        self.list
            .retain(|stored| keep(&stored.binding, stored.fresh));
        for _ in self.list.len()..before {
            self.note_end();
        }
    }

    fn note_end(&mut self) {
        self.ended += 1;
        self.touched = true;
        self.announce = true;
    }

    /// Inserts a binding: highest q first, and the newest first among equals.
    fn place(&mut self, binding: Binding<'s>, saved_until: u32) {
        self.touched = true;
        let place = self
            .list
            .iter()
            .position(|other| other.binding.q <= binding.q);
        let stored = Stored {
            binding,
            saved_until,
            fresh: true,
        };
        self.list.insert(place.unwrap_or(self.list.len()), stored);
    }

    /// How many more bindings the table must hold.
    pub(super) fn growth(&self) -> usize {
        self.added.saturating_sub(self.ended)
    }

    pub(super) fn is_touched(&self) -> bool {
        self.touched
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the bindings are short enough and few enough to be packed.
    pub(super) fn can_be_packed(&self) -> bool {
        u16::try_from(self.added.max(self.ended).max(self.list.len())).is_ok()
            && self
                .list
                .iter()
                .all(|stored| !stored.fresh || packed_length(&stored.binding) <= MAX_BINDING)
    }

    /// Packs the new version of the record.
    ///
    /// A refresh only moves the end of a binding. It is announced when the end last announced leaves less than seven
    /// eighths of the binding's lifetime. So after a crash a phone stays reachable until its next refresh, unless it
    /// refreshes only at the very end. A phone that refreshes a one-hour binding every minute costs one write per eight
    /// refreshes.
    pub(super) fn pack(
        mut self,
        address: &[u8],
        user_agents: &UserAgents,
        now: u32,
        announced: Announced,
    ) -> Record {
        let is_outdated =
            |stored: &Stored<'_>| is_outdated(stored.saved_until, stored.binding.expires_at, now);
        let announce = match announced {
            Announced::Never => false,
            Announced::IfOutdated => self.announce || self.list.iter().any(is_outdated),
            Announced::Always => true,
        };
        for stored in &mut self.list {
            // A binding from the store is there. The others may have changes that are not.
            if announce || (announced == Announced::Never && stored.fresh) {
                stored.saved_until = stored.binding.expires_at;
            }
        }
        let difference = Difference {
            added: self.added as u16,
            ended: self.ended as u16,
            announce,
        };
        Record::pack(address, difference, &self.list, user_agents)
    }
}

/// Whether a refreshed binding differs from the saved one in more than its end.
fn differs_at_rest(old: &Binding<'_>, new: &Binding<'_>) -> bool {
    old.contact != new.contact
        || old.q != new.q
        || old.source != new.source
        || old.listener != new.listener
        || old.path != new.path
        || old.instance != new.instance
}

/// Whether the announced end of a binding is too far from its present end.
pub(super) fn is_outdated(saved_until: u32, expires_at: u32, now: u32) -> bool {
    let left = saved_until.saturating_sub(now);
    let lifetime = expires_at.saturating_sub(now);
    // A shortened binding must not come back to life from the saved state.
    left < lifetime - lifetime / 8 || saved_until > expires_at
}
