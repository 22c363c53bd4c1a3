//! The dialogs of this node, and which of them the store does not have in their present state. It does no input or output.

use super::record::StoredDialog;
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Memory of a dialog besides its state, in bytes.
const OVERHEAD: usize = 160;
/// How long the end of a dialog is remembered: a search that began before must not bring it back.
const REMEMBERED: Duration = Duration::from_secs(30);
/// How much longer than the dialog its record is kept: until a node has ended it and written the record of the call.
pub(super) const KEPT: u32 = 3_600;

/// A dialog of this node.
#[derive(Debug)]
struct Entry {
    key: u64,
    claim: u32,
    expires_at: u32,
    state: Box<[u8]>,
    /// Whether the store may have it.
    may_be_stored: bool,
}

/// The end of a dialog that the store may have.
#[derive(Clone, Copy, Debug)]
struct End {
    key: u64,
    claim: u32,
    /// Whether it counts even if another node has claimed the dialog meanwhile.
    counts: bool,
}

/// What to do in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) key: u64,
    pub(super) dialog: StoredDialog,
    /// `Some`: the dialog has ended, which counts even against another owner or not.
    pub(super) ended: Option<bool>,
}

/// A dialog that another node has now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) id: u128,
    pub(super) key: u64,
    pub(super) state: Box<[u8]>,
}

/// All dialogs of this node.
#[derive(Debug)]
pub(super) struct Ledger {
    instance: Box<[u8]>,
    dialogs: HashMap<u128, Entry>,
    /// Those that the store does not have in their present state.
    changed: BTreeSet<u128>,
    /// Those that have ended.
    ends: BTreeMap<u128, End>,
    /// Those that have ended lately.
    ended: HashMap<u128, Time>,
    ended_in_order: VecDeque<(Time, u128)>,
    bytes: usize,
    most_bytes: usize,
    /// When the oldest change came that waits.
    oldest: Option<Time>,
}

impl Ledger {
    /// An empty ledger of the instance with this name. Dialogs take at most so many bytes.
    pub(super) fn new(instance: &str, most_bytes: usize) -> Self {
        Self {
            instance: instance.as_bytes().into(),
            dialogs: HashMap::new(),
            changed: BTreeSet::new(),
            ends: BTreeMap::new(),
            ended: HashMap::new(),
            ended_in_order: VecDeque::new(),
            bytes: 0,
            most_bytes,
            oldest: None,
        }
    }

    /// Takes the new state of a dialog. False: there is no room.
    pub(super) fn change(
        &mut self,
        (id, key): (u128, u64),
        state: Box<[u8]>,
        expires_at: u32,
        now: Time,
    ) -> bool {
        let known = self.remove(id);
        let (claim, may_be_stored) = known.map_or((1, false), |it| (it.claim, it.may_be_stored));
        let entry = Entry {
            key,
            claim,
            expires_at,
            state,
            may_be_stored,
        };
        if !self.insert(id, entry) {
            return false;
        }
        self.changed.insert(id);
        self.oldest.get_or_insert(now);
        true
    }

    /// Notes that a dialog has ended. `counts`: even if another node has claimed it meanwhile.
    pub(super) fn end(&mut self, id: u128, counts: bool, now: Time) {
        self.changed.remove(&id);
        self.ended.insert(id, now);
        self.ended_in_order.push_back((now, id));
        let known = self.remove(id);
        if let Some(Entry { key, claim, .. }) = known.filter(|it| it.may_be_stored) {
            self.ends.insert(id, End { key, claim, counts });
            self.oldest.get_or_insert(now);
        }
    }

    /// Takes a dialog of the store, which this node has claimed. False: it has ended here, or there is no room.
    pub(super) fn adopt(&mut self, key: u64, dialog: &StoredDialog) -> bool {
        if self.ended.contains_key(&dialog.id) {
            return false;
        }
        if let Some(known) = self.dialogs.get_mut(&dialog.id) {
            known.claim = known.claim.max(dialog.claim);
            return true;
        }
        let entry = Entry {
            key,
            claim: dialog.claim,
            expires_at: dialog.expires_at,
            state: dialog.state.clone(),
            may_be_stored: true,
        };
        self.insert(dialog.id, entry)
    }

    /// Takes news of the store about a claim. Returns the dialog if this node has it no more.
    pub(super) fn lose(&mut self, news: &StoredDialog) -> Option<Lost> {
        let known = self.dialogs.get(&news.id)?;
        let is_other = news.owner != self.instance || news.claim == u32::MAX;
        if !is_other || news.claim < known.claim {
            return None;
        }
        self.changed.remove(&news.id);
        let Entry { key, state, .. } = self.remove(news.id)?;
        let id = news.id;
        Some(Lost { id, key, state })
    }

    /// Everything must be written again: the store may have lost it, or other nodes may have claimed it.
    pub(super) fn write_all(&mut self, now: Time) {
        self.changed.extend(self.dialogs.keys());
        if !self.changed.is_empty() {
            self.oldest.get_or_insert(now);
        }
    }

    /// Takes the next changes: ends first, which need no room in the store, and not together with others.
    pub(super) fn batch(&mut self, most: usize) -> Vec<Write> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some((id, end)) = self.ends.pop_first()
        {
            let dialog = self.record(id, end.claim, 0, Box::default());
            batch.push(Write {
                key: end.key,
                dialog,
                ended: Some(end.counts),
            });
        }
        while batch.len() < most
            && batch.last().is_none_or(|it| it.ended.is_none())
            && let Some(id) = self.changed.pop_first()
        {
            let Some(entry) = self.dialogs.get_mut(&id) else {
                continue;
            };
            // Until the write has succeeded, the store may have it or not.
            entry.may_be_stored = true;
            let (key, claim, expires_at) = (entry.key, entry.claim, entry.expires_at);
            let state = entry.state.clone();
            batch.push(Write {
                key,
                dialog: self.record(id, claim, expires_at, state),
                ended: None,
            });
        }
        batch
    }

    /// Takes back a batch that could not be written. Later changes count.
    pub(super) fn take_back(&mut self, batch: Vec<Write>) {
        for Write { key, dialog, ended } in batch {
            let is_here = self.dialogs.contains_key(&dialog.id);
            match ended {
                None if is_here => {
                    self.changed.insert(dialog.id);
                }
                Some(counts) if !is_here => {
                    let claim = dialog.claim;
                    self.ends
                        .entry(dialog.id)
                        .or_insert(End { key, claim, counts });
                }
                _ => {}
            }
        }
    }

    /// Drops what is of no use any more: dialogs that no worker has ended, and the memory of those that have.
    pub(super) fn forget(&mut self, now: Time) {
        while let Some((at, id)) = self.ended_in_order.front().copied()
            && now.saturating_since(at) > REMEMBERED
        {
            self.ended_in_order.pop_front();
            if self.ended.get(&id) == Some(&at) {
                self.ended.remove(&id);
            }
        }
    }

    /// Drops dialogs whose records have expired in the store. No worker has them: it would have ended them.
    pub(super) fn forget_expired(&mut self, now: u32) {
        let is_over = |entry: &Entry| entry.expires_at.saturating_add(KEPT) < now;
        let over = self.dialogs.iter().filter(|(_, entry)| is_over(entry));
        let over: Vec<u128> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.changed.remove(&id);
            self.remove(id);
        }
    }

    /// Notes that a batch is written.
    pub(super) fn note_written(&mut self) {
        if self.is_settled() {
            self.oldest = None;
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_settled(&self) -> bool {
        self.changed.is_empty() && self.ends.is_empty()
    }

    /// How many changes wait, and since when.
    pub(super) fn waiting(&self) -> (usize, Option<Time>) {
        (self.changed.len() + self.ends.len(), self.oldest)
    }

    /// The number of dialogs, and their memory in bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.dialogs.len(), self.bytes)
    }

    fn record(&self, id: u128, claim: u32, expires_at: u32, state: Box<[u8]>) -> StoredDialog {
        StoredDialog {
            claim,
            owner: self.instance.clone(),
            id,
            expires_at,
            state,
        }
    }

    fn insert(&mut self, id: u128, entry: Entry) -> bool {
        let bytes = self.bytes + OVERHEAD + entry.state.len();
        if bytes > self.most_bytes {
            return false;
        }
        self.bytes = bytes;
        self.dialogs.insert(id, entry);
        true
    }

    fn remove(&mut self, id: u128) -> Option<Entry> {
        let entry = self.dialogs.remove(&id)?;
        self.bytes -= OVERHEAD + entry.state.len();
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix_seconds(1_000);

    fn ledger() -> Ledger {
        Ledger::new("a", 10_000)
    }

    fn change(ledger: &mut Ledger, id: u128, state: u8) {
        assert!(ledger.change((id, id as u64), [state].into(), 2_000, NOW));
    }

    fn written(ledger: &mut Ledger) -> Vec<(u128, u32, Vec<u8>, Option<bool>)> {
        let batch = ledger.batch(100);
        ledger.note_written();
        let parts = |it: Write| {
            (
                it.dialog.id,
                it.dialog.claim,
                it.dialog.state.into(),
                it.ended,
            )
        };
        batch.into_iter().map(parts).collect()
    }

    fn of(owner: &str, claim: u32, id: u128) -> StoredDialog {
        StoredDialog {
            claim,
            owner: owner.as_bytes().into(),
            id,
            expires_at: 2_000,
            state: [9].into(),
        }
    }

    #[test]
    fn the_latest_state_counts_and_a_brief_call_is_never_written() {
        let mut ledger = ledger();
        change(&mut ledger, 1, 1);
        change(&mut ledger, 1, 2);
        change(&mut ledger, 2, 1);
        ledger.end(2, true, NOW);
        assert_eq!(written(&mut ledger), [(1, 1, vec![2], None)]);
        assert_eq!((ledger.waiting(), ledger.size().0), ((0, None), 1));
        ledger.end(1, true, NOW);
        assert_eq!(written(&mut ledger), [(1, 1, vec![], Some(true))]);
        assert_eq!(ledger.size(), (0, 0));
    }

    #[test]
    fn a_batch_that_failed_waits_again_and_does_not_replace_what_came_later() {
        let mut ledger = ledger();
        change(&mut ledger, 1, 1);
        change(&mut ledger, 2, 1);
        let batch = ledger.batch(100);
        change(&mut ledger, 1, 2);
        ledger.end(2, true, NOW);
        ledger.take_back(batch);
        assert_eq!(written(&mut ledger), [(2, 1, vec![], Some(true))]);
        assert_eq!(written(&mut ledger), [(1, 1, vec![2], None)]);
    }

    #[test]
    fn a_dialog_that_another_node_has_claimed_is_lost_until_this_node_claims_it_again() {
        let mut ledger = ledger();
        change(&mut ledger, 1, 1);
        assert_eq!(ledger.lose(&of("a", 5, 1)), None, "its own");
        let lost = ledger.lose(&of("b", 2, 1)).expect("lost");
        assert_eq!((lost.id, lost.key, &*lost.state), (1, 1, &[1_u8][..]));
        assert!(ledger.is_settled());
        assert!(ledger.adopt(1, &of("a", 3, 1)));
        assert_eq!(ledger.lose(&of("b", 2, 1)), None, "old news");
        ledger.write_all(NOW);
        assert_eq!(written(&mut ledger), [(1, 3, vec![9], None)]);
        let ended = of("a", u32::MAX, 1);
        assert!(ledger.lose(&ended).is_some(), "it has ended elsewhere");
    }

    #[test]
    fn a_dialog_that_has_ended_is_not_brought_back_for_a_while() {
        let mut ledger = ledger();
        change(&mut ledger, 1, 1);
        ledger.end(1, true, NOW);
        assert!(!ledger.adopt(1, &of("a", 1, 1)));
        ledger.forget(NOW + REMEMBERED * 2);
        assert!(ledger.adopt(1, &of("a", 1, 1)));
        ledger.forget_expired(2_000 + KEPT);
        assert_eq!(ledger.size().0, 1);
        ledger.forget_expired(2_001 + KEPT);
        assert_eq!(ledger.size(), (0, 0));
    }

    #[test]
    fn dialogs_take_bounded_memory() {
        let mut ledger = Ledger::new("a", 3 * (OVERHEAD + 1));
        for id in 1..4 {
            change(&mut ledger, id, 1);
        }
        assert!(!ledger.change((4, 4), [1].into(), 2_000, NOW));
        assert!(!ledger.adopt(5, &of("a", 1, 5)));
        change(&mut ledger, 3, 2);
        ledger.end(1, true, NOW);
        change(&mut ledger, 4, 1);
        assert_eq!(ledger.size().0, 3);
    }
}
