//! The dialogs of one node of a fleet: writes those that it owns, claims those that its requests miss, and drops those that it has lost.

use super::store::{Lost, SharedDialog, Store};
use sip_elements::{ControlMessage, Exchange, MissedDialog};
use sip_message::KeyHasher;
use std::collections::{BTreeMap, BTreeSet};

/// A dialog that this node owns.
#[derive(Debug)]
struct Own {
    key: u64,
    dialog: SharedDialog,
}

/// What one life of a node knows about dialogs.
#[derive(Debug)]
pub struct SharedDialogs {
    node: usize,
    workers: u16,
    hasher: KeyHasher,
    own: BTreeMap<u128, Own>,
    changed: BTreeSet<u128>,
    /// The keys of those that have ended.
    ends: Vec<u64>,
    ended: BTreeSet<u128>,
    missed: Vec<MissedDialog>,
}

/// Orders for workers.
type Orders = Vec<(usize, ControlMessage)>;

impl SharedDialogs {
    pub const fn new(node: usize, workers: u16, hasher: KeyHasher) -> Self {
        Self {
            node,
            workers,
            hasher,
            own: BTreeMap::new(),
            changed: BTreeSet::new(),
            ends: Vec::new(),
            ended: BTreeSet::new(),
            missed: Vec::new(),
        }
    }

    /// Takes the new state of a dialog; `None` if it has ended.
    pub fn change(&mut self, id: u128, state: Option<Box<[u8]>>) {
        let Some(state) = state else {
            self.changed.remove(&id);
            self.ended.insert(id);
            self.ends.extend(self.own.remove(&id).map(|own| own.key));
            return;
        };
        let key = Exchange::key_of_dialog(&state, &self.hasher).expect("a state that it wrote");
        let claim = self.own.get(&id).map_or(1, |own| own.dialog.claim);
        let dialog = SharedDialog {
            id,
            claim,
            owner: self.node,
            state,
        };
        self.own.insert(id, Own { key, dialog });
        self.changed.insert(id);
    }

    /// A request came for a dialog that is not here.
    pub fn miss(&mut self, missed: MissedDialog) {
        self.missed.push(missed);
    }

    fn adopt(&mut self, key: u64, dialog: SharedDialog, orders: &mut Orders) {
        if self.ended.contains(&dialog.id) {
            return;
        }
        if let Some(own) = self.own.get_mut(&dialog.id) {
            own.dialog.claim = own.dialog.claim.max(dialog.claim);
            return;
        }
        let home = Exchange::home_of_dialog(&dialog.state, self.workers);
        let state = dialog.state.clone();
        orders.push((
            usize::from(home.unwrap_or(0)),
            ControlMessage::Adopt { state },
        ));
        self.own.insert(dialog.id, Own { key, dialog });
    }

    fn lose(&mut self, (id, claim): Lost, orders: &mut Orders) {
        let is_lost = |own: &Own| own.dialog.claim <= claim;
        if !self.own.get(&id).is_some_and(is_lost) {
            return;
        }
        self.changed.remove(&id);
        if let Some(Own { key, dialog }) = self.own.remove(&id) {
            let home = Exchange::home_of_dialog(&dialog.state, self.workers);
            let order = ControlMessage::Disown { id, key };
            orders.push((usize::from(home.unwrap_or(0)), order));
        }
    }

    /// Takes back the dialogs that this node had before it was restarted.
    pub fn restore(&mut self, store: &Store, orders: &mut Orders) {
        for (key, dialog) in store.dialogs_of(self.node) {
            self.adopt(key, dialog, orders);
        }
    }

    /// The store may have lost everything.
    pub fn write_all(&mut self) {
        self.changed.extend(self.own.keys());
    }

    /// Learns what it has lost, searches what it misses, and writes what waits.
    pub fn exchange(&mut self, store: &mut Store, orders: &mut Orders) {
        for lost in store.take_lost(self.node) {
            self.lose(lost, orders);
        }
        for missed in std::mem::take(&mut self.missed) {
            if let Some((key, dialog)) = store.claim(missed.keys, self.node)
                && dialog.id as u32 == missed.call
            {
                self.adopt(key, dialog, orders);
            }
        }
        for id in std::mem::take(&mut self.changed) {
            let Some(own) = self.own.get(&id) else {
                continue;
            };
            if let Some(lost) = store.write_dialog(own.key, &own.dialog) {
                self.lose(lost, orders);
            }
        }
        for key in self.ends.drain(..) {
            store.end_dialog(key, self.node);
        }
    }
}
