//! The dialogs of one worker: by id, by the Call-ID and tags of their requests, and by deadline.

use crate::dialog::{Answer, Dialog, Invitation};
use crate::record::Ended;
use crate::texts::Text;
use hashbrown::HashTable;
use sip_transaction::TimerWheel;
use sip_transport::{Slab, SlabId, Time};
use std::ops::Range;

/// The maximum number of dialogs that further 2xx of one INVITE make.
const MAX_FORKS: usize = 16;

/// Identifies a dialog of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DialogId(SlabId);

impl DialogId {
    /// Identifies no dialog.
    pub const NONE: Self = Self(SlabId::NONE);

    /// The place of the dialog in the table, which is its own as long as it lives.
    pub const fn slot(self) -> u32 {
        self.0.index
    }
}

/// Counts of dialogs: `created == ended + early + confirmed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DialogStats {
    /// Dialogs begun.
    pub created: u64,
    /// Dialogs ended.
    pub ended: u64,
    /// Dialogs without a 2xx.
    pub early: u64,
    /// Dialogs with a 2xx.
    pub confirmed: u64,
    /// The bytes of their texts.
    pub bytes: u64,
}

/// All dialogs of one worker.
#[derive(Debug)]
pub struct Dialogs {
    slab: Slab<Dialog>,
    /// Confirmed dialogs by their key.
    by_key: HashTable<u32>,
    /// One timer for each confirmed dialog. It moves when it fires, and when the life of the dialog becomes shorter.
    wheel: TimerWheel<DialogId>,
    stats: DialogStats,
}

impl Dialogs {
    /// Creates an empty table.
    pub fn new(now: Time) -> Self {
        Self {
            slab: Slab::new(0),
            by_key: HashTable::new(),
            wheel: TimerWheel::new(now),
            stats: DialogStats::default(),
        }
    }

    /// The number of dialogs.
    pub const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is no dialog.
    pub const fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// The current counts.
    pub const fn stats(&self) -> DialogStats {
        self.stats
    }

    /// All dialogs.
    pub fn iter(&self) -> impl Iterator<Item = &Dialog> {
        self.slab.iter()
    }

    /// The number of slots. The [slot](DialogId::slot) of each dialog is below it.
    pub const fn slots(&self) -> u32 {
        self.slab.slots()
    }

    /// The dialogs in these slots, in their order.
    pub fn range(&self, slots: Range<u32>) -> impl Iterator<Item = (DialogId, &Dialog)> {
        let dialogs = self.slab.range(slots);
        dialogs.map(|(id, dialog)| (DialogId(id), dialog))
    }

    /// A dialog; `None` if it has ended.
    pub fn get(&self, id: DialogId) -> Option<&Dialog> {
        self.slab.get(id.0)
    }

    /// A dialog, mutable; `None` if it has ended.
    pub fn get_mut(&mut self, id: DialogId) -> Option<&mut Dialog> {
        self.slab.get_mut(id.0)
    }

    /// The dialog in a slot, mutable.
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut Dialog> {
        self.slab.at_mut(slot)
    }

    /// Creates an early dialog.
    pub fn begin(&mut self, invitation: &Invitation<'_>) -> DialogId {
        self.insert(|generation| Dialog::early(invitation, generation))
    }

    /// Confirms an early dialog. Returns whether it was early. If `fits` is false, there is no memory for the texts of the answer, except for
    /// the tag.
    pub fn confirm(&mut self, id: DialogId, answer: &Answer<'_>, fits: bool) -> bool {
        let Some(dialog) = self.slab.get_mut(id.0) else {
            return false;
        };
        if dialog.is_confirmed() {
            return false;
        }
        let before = dialog.bytes();
        dialog.confirm(answer, fits);
        let deadline = answer.now + answer.patience.min(answer.lifetime);
        dialog.timer = Some(self.wheel.arm(deadline, id));
        self.stats.bytes = (self.stats.bytes + dialog.bytes() as u64) - before as u64;
        self.stats.early -= 1;
        self.stats.confirmed += 1;
        self.index(id, answer.key);
        true
    }

    /// Creates a dialog from [`Dialog::encode`], without a share of its own. Its life is what was left of it. `None` if the bytes are no
    /// dialog of this version, `accepts` does not want it, or it is here already. `key` computes its key.
    pub fn restore(
        &mut self,
        state: &[u8],
        accepts: impl FnOnce(&mut Dialog) -> bool,
        key: impl FnOnce(&Dialog) -> u64,
    ) -> Option<DialogId> {
        let mut decoded = Dialog::decode(state)?;
        if !accepts(&mut decoded) {
            return None;
        }
        decoded.key = key(&decoded);
        if self.find(decoded.key).is_some() {
            return None;
        }
        let (key, expires) = (decoded.key, decoded.expires());
        let id = self.insert(|generation| {
            decoded.generation = generation;
            decoded
        });
        self.stats.early -= 1;
        self.stats.confirmed += 1;
        let timer = self.wheel.arm(expires, id);
        if let Some(dialog) = self.get_mut(id) {
            dialog.timer = Some(timer);
        }
        self.index(id, key);
        Some(id)
    }

    /// Whether a 2xx with this key has made a dialog after `first`, which may have ended since.
    pub fn has_forked(&self, first: DialogId, key: u64) -> bool {
        let first = self.slab.get(first.0);
        first.is_some_and(|first| first.forks.contains(&key))
    }

    /// Creates a dialog for a 2xx with another To tag than that of `first` (RFC 3261 section 13.2.2.4). Confirm it next, with this key.
    /// `None` if the INVITE has too many. `id` becomes its id, except for the number of the call.
    pub fn fork(&mut self, first: DialogId, key: u64, id: u128) -> Option<DialogId> {
        let dialog = self.slab.get_mut(first.0)?;
        if dialog.forks.len() >= MAX_FORKS {
            return None;
        }
        dialog.forks = dialog.forks.iter().copied().chain([key]).collect();
        let mut forked = dialog.fork(id);
        Some(self.insert(|generation| {
            forked.generation = generation;
            forked
        }))
    }

    /// The confirmed dialog with this key.
    pub fn find(&self, key: u64) -> Option<DialogId> {
        let has_key = |index: &u32| {
            let dialog = self.slab.at(*index);
            dialog.is_some_and(|dialog| dialog.key == key)
        };
        let index = *self.by_key.find(key, has_key)?;
        let generation = self.slab.at(index)?.generation;
        Some(DialogId(SlabId { index, generation }))
    }

    /// A confirmed dialog now lives until `expires`.
    pub fn refresh(&mut self, id: DialogId, expires: Time) {
        let Some(dialog) = self.slab.get_mut(id.0) else {
            return;
        };
        let is_earlier = expires < dialog.expires;
        dialog.expires = expires;
        // A timer that fires too early is armed again then. Before the ACK, it ends the wait for the ACK.
        if is_earlier && dialog.is_acknowledged() {
            if let Some(timer) = dialog.timer.take() {
                self.wheel.cancel(timer);
            }
            dialog.timer = Some(self.wheel.arm(expires, id));
        }
    }

    /// Sets a text. Without `fits`, there is no memory for it.
    pub fn set_text(&mut self, id: DialogId, text: (Text, &[u8]), fits: bool) {
        if let Some(dialog) = self.slab.get_mut(id.0)
            && dialog.text(text.0) != text.1
        {
            let before = dialog.bytes();
            if fits {
                dialog.change(&[text]);
            } else {
                dialog.miss(text.0);
            }
            self.stats.bytes = (self.stats.bytes + dialog.bytes() as u64) - before as u64;
        }
    }

    /// Ends a dialog and returns it.
    pub fn end(&mut self, id: DialogId) -> Option<Dialog> {
        let dialog = self.slab.remove(id.0)?;
        if let Some(timer) = dialog.timer {
            self.wheel.cancel(timer);
        }
        if dialog.is_confirmed() {
            self.stats.confirmed -= 1;
            let index = id.0.index;
            if let Ok(entry) = self.by_key.find_entry(dialog.key, |other| *other == index) {
                entry.remove();
            }
        } else {
            self.stats.early -= 1;
        }
        self.stats.ended += 1;
        self.stats.bytes -= dialog.bytes() as u64;
        Some(dialog)
    }

    /// The next dialog whose time is over, and why it ends. Call [`Dialogs::end`] with it, and call this again until it returns `None`.
    pub fn pop_due(&mut self, now: Time) -> Option<(DialogId, Ended)> {
        while let Some(id) = self.wheel.pop_due(now) {
            let Some(dialog) = self.slab.get_mut(id.0) else {
                continue;
            };
            dialog.timer = None;
            if !dialog.is_acknowledged() {
                return Some((id, Ended::NoAck));
            }
            if dialog.expires() <= now {
                return Some((id, Ended::Expired));
            }
            dialog.timer = Some(self.wheel.arm(dialog.expires(), id));
        }
        None
    }

    /// When to call [`Dialogs::pop_due`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    /// Lets a confirmed dialog be found by its key.
    fn index(&mut self, id: DialogId, key: u64) {
        let slab = &self.slab;
        self.by_key.insert_unique(key, id.0.index, |index| {
            slab.at(*index).map_or(0, |dialog| dialog.key)
        });
    }

    fn insert(&mut self, make: impl FnOnce(u32) -> Dialog) -> DialogId {
        let id = DialogId(self.slab.insert(|id| make(id.generation)));
        self.stats.created += 1;
        self.stats.early += 1;
        self.stats.bytes += self.get(id).map_or(0, Dialog::bytes) as u64;
        id
    }
}
