//! The bindings of one address of record while a change is worked out, and what the change amounts to.

use super::Binding;
use super::record::{Difference, MOST_BINDING, Record, Stored, packed_length};
use super::user_agents::UserAgents;
use sip_transport::ConnectionId;
use smallvec::SmallVec;

/// How a REGISTER, a restored binding or an order of the operator changes the bindings of an address of record. It may be
/// asked again when another worker was faster, each time with what is there then; so it decides from its arguments alone.
pub(crate) trait Change {
    /// Why nothing is changed.
    type Refusal;
    /// Changes the bindings, or refuses; then none of them changes.
    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Self::Refusal>;

    /// The binding that is all this change is about. If the only binding there is differs from it in nothing but an earlier end
    /// and a lower `CSeq`, these are moved and `apply` is not asked; which must be what it would have done.
    fn refreshed(&self) -> Option<Binding<'_>> {
        None
    }
}

/// The bindings that have not expired, in the order they are tried.
#[derive(Debug)]
pub(crate) struct Contacts<'s> {
    list: SmallVec<[Stored<'s>; 2]>,
    added: usize,
    ended: usize,
    /// The bindings are not what they were: a new version of the record is due.
    touched: bool,
    /// What is saved is not right any more.
    announce: bool,
}

impl<'s> Contacts<'s> {
    /// What a record holds at `now` (Unix seconds).
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

    /// The bindings as they are now.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Binding<'s>> {
        self.list.iter().map(|stored| &stored.binding)
    }

    /// Where the first binding is that satisfies `test`.
    pub(crate) fn position(&self, test: impl FnMut(&Binding<'s>) -> bool) -> Option<usize> {
        self.iter().position(test)
    }

    /// The binding at a position, and whether this change made or refreshed it.
    pub(crate) fn at(&self, position: usize) -> Option<(&Binding<'s>, bool)> {
        self.list
            .get(position)
            .map(|stored| (&stored.binding, stored.fresh))
    }

    /// Where the last binding is that satisfies `test`, of those that this change leaves as they are.
    pub(crate) fn last_of_old(&self, test: impl Fn(&Binding<'s>) -> bool) -> Option<usize> {
        self.list
            .iter()
            .rposition(|stored| !stored.fresh && test(&stored.binding))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the change has made bindings that were not there.
    pub(crate) fn has_grown(&self) -> bool {
        self.added > self.ended
    }

    /// Makes a new binding.
    pub(crate) fn add(&mut self, binding: Binding<'s>) {
        self.added += 1;
        self.announce = true;
        self.place(binding, 0);
    }

    /// Puts a binding in the place of another: the same one, refreshed.
    pub(crate) fn replace(&mut self, position: usize, binding: Binding<'s>) {
        if position >= self.list.len() {
            return;
        }
        let old = self.list.remove(position);
        self.announce |= differs_at_rest(&old.binding, &binding);
        self.place(binding, old.saved_until);
    }

    /// Ends a binding.
    pub(crate) fn remove(&mut self, position: usize) {
        if position < self.list.len() {
            self.list.remove(position);
            self.note_end();
        }
    }

    /// A binding loses its connection, and is otherwise as it was.
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

    /// Highest q first, newest first among equals.
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

    /// Whether every binding is short enough to be packed, and few enough.
    pub(super) fn can_be_packed(&self) -> bool {
        u16::try_from(self.added.max(self.ended).max(self.list.len())).is_ok()
            && self
                .list
                .iter()
                .all(|stored| !stored.fresh || packed_length(&stored.binding) <= MOST_BINDING)
    }

    /// The new version of the record. `announced` tells whether its changes go to the store at all.
    ///
    /// A refresh moves nothing but the end of a binding. It is announced when what was last announced has less than seven
    /// eighths of the binding's lifetime left. So after a crash a phone stays reachable until its next refresh, unless it
    /// waits for the very end; and one that refreshes an hour's binding every minute costs one write in eight.
    pub(super) fn pack(
        mut self,
        address: &[u8],
        user_agents: &UserAgents,
        now: u32,
        announced: bool,
    ) -> Record {
        let announce = announced
            && (self.announce
                || self
                    .list
                    .iter()
                    .any(|stored| is_outdated(stored.saved_until, stored.binding.expires_at, now)));
        if announce || !announced {
            for stored in &mut self.list {
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

/// Whether a refreshed binding must be saved for more than its later end.
fn differs_at_rest(old: &Binding<'_>, new: &Binding<'_>) -> bool {
    old.contact != new.contact
        || old.q != new.q
        || old.source != new.source
        || old.listener != new.listener
        || old.path != new.path
        || old.instance != new.instance
}

/// Whether what was announced of a binding's end is too far from what it is now.
pub(super) fn is_outdated(saved_until: u32, expires_at: u32, now: u32) -> bool {
    let left = saved_until.saturating_sub(now);
    let lifetime = expires_at.saturating_sub(now);
    // A binding that was shortened must not come back to life from what was saved.
    left < lifetime - lifetime / 8 || saved_until > expires_at
}
