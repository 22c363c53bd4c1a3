//! The store of a fleet as a model: what nodes have written, each record with a version, and the log in which they read each other's changes.
//! The rules are those of the scripts that a real store runs: the newer record stays, whichever way it travels.

use crate::exchange::Saved;
use std::collections::BTreeMap;

/// Which binding a record is about: an address of record and a contact.
pub type Field = (Vec<u8>, Vec<u8>);

/// The order of changes: a hybrid logical clock, then the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub millis: u64,
    pub counter: u32,
    pub writer: usize,
}

/// What a node has written about a binding; `None`: it was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub version: Version,
    pub binding: Option<Saved>,
}

/// A dialog of a fleet. The node with the highest claim owns it.
#[derive(Clone, Debug)]
pub struct SharedDialog {
    pub id: u128,
    pub claim: u32,
    pub owner: usize,
    pub state: Box<[u8]>,
}

/// A dialog that its former owner has lost: its id, and the claim that counts.
pub type Lost = (u128, u32);

/// The data.
#[derive(Debug, Default)]
pub struct Store {
    /// Another one after all data was lost.
    pub epoch: u64,
    bindings: BTreeMap<Field, Record>,
    /// The bindings that have changed, in order.
    log: Vec<Field>,
    /// By key.
    dialogs: BTreeMap<u64, SharedDialog>,
    lost: BTreeMap<usize, Vec<Lost>>,
}

impl Store {
    /// Loses all data.
    pub fn empty(&mut self) {
        *self = Self {
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    /// Writes a record, unless there is a newer one.
    pub fn write(&mut self, field: &Field, record: &Record) {
        let known = self.bindings.get(field);
        if known.is_none_or(|known| known.version < record.version) {
            self.bindings.insert(field.clone(), record.clone());
            self.log.push(field.clone());
        }
    }

    pub const fn bindings(&self) -> &BTreeMap<Field, Record> {
        &self.bindings
    }

    /// The end of the log.
    pub const fn end(&self) -> usize {
        self.log.len()
    }

    /// The records that have changed since a position in the log.
    pub fn changes(&self, since: usize) -> impl Iterator<Item = (&Field, &Record)> {
        let changed = self.log.iter().skip(since);
        changed.filter_map(|field| self.bindings.get_key_value(field))
    }

    /// Writes a dialog. The claim of another node that is as high wins, and is returned.
    pub fn write_dialog(&mut self, key: u64, dialog: &SharedDialog) -> Option<Lost> {
        if let Some(known) = self.dialogs.get(&key)
            && known.owner != dialog.owner
        {
            if known.claim >= dialog.claim {
                return Some((known.id, known.claim));
            }
            let news = (known.id, dialog.claim);
            self.lost.entry(known.owner).or_default().push(news);
        }
        let claim = self.dialogs.get(&key).map_or(0, |known| known.claim);
        let claim = claim.max(dialog.claim);
        let dialog = SharedDialog {
            claim,
            ..dialog.clone()
        };
        self.dialogs.insert(key, dialog);
        None
    }

    /// A node has ended a dialog, whoever owns it.
    pub fn end_dialog(&mut self, key: u64, node: usize) {
        if let Some(known) = self.dialogs.remove(&key)
            && known.owner != node
        {
            let news = (known.id, u32::MAX);
            self.lost.entry(known.owner).or_default().push(news);
        }
    }

    /// Makes a node the owner of a dialog.
    pub fn claim(&mut self, keys: [u64; 2], node: usize) -> Option<(u64, SharedDialog)> {
        let key = keys
            .into_iter()
            .find(|key| self.dialogs.contains_key(key))?;
        let dialog = self.dialogs.get_mut(&key)?;
        if dialog.owner != node {
            dialog.claim += 1;
            let news = (dialog.id, dialog.claim);
            self.lost.entry(dialog.owner).or_default().push(news);
            dialog.owner = node;
        }
        Some((key, dialog.clone()))
    }

    /// The dialogs of a node that has started again.
    pub fn dialogs_of(&self, node: usize) -> Vec<(u64, SharedDialog)> {
        let own = self
            .dialogs
            .iter()
            .filter(|(_, dialog)| dialog.owner == node);
        own.map(|(key, dialog)| (*key, dialog.clone())).collect()
    }

    /// What a node has lost to others since it last asked.
    pub fn take_lost(&mut self, node: usize) -> Vec<Lost> {
        self.lost.remove(&node).unwrap_or_default()
    }
}
