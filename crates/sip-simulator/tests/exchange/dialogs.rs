//! The dialogs of a machine on its disk. As in the server, changes are written at intervals, and a call that ends before is never
//! written.

use sip_simulator::SavedDialog;
use sip_transport::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The state of a dialog, and when it ends.
type Row = (Box<[u8]>, Time);

/// The disk, and what is not yet on it.
#[derive(Default)]
pub struct DialogStore {
    /// The disk.
    rows: BTreeMap<u128, Row>,
    /// The latest change of each dialog; `None` removes its row.
    unsaved: BTreeMap<u128, Option<Row>>,
    save_at: Time,
}

impl DialogStore {
    /// Takes the new state of a dialog; `None` if it has ended.
    pub fn change(&mut self, id: u128, state: Option<Box<[u8]>>, expires: Time) {
        if state.is_none() && !self.rows.contains_key(&id) {
            self.unsaved.remove(&id);
        } else {
            let row = state.map(|state| (state, expires));
            self.unsaved.insert(id, row);
        }
    }

    /// Writes all changes, once in an interval.
    pub fn save(&mut self, now: Time, interval: Duration) {
        if now < self.save_at {
            return;
        }
        self.save_at = now + interval;
        for (id, row) in std::mem::take(&mut self.unsaved) {
            match row {
                Some(row) => self.rows.insert(id, row),
                None => self.rows.remove(&id),
            };
        }
    }

    /// Loses what is not on the disk.
    pub fn crash(&mut self) {
        self.unsaved.clear();
    }

    /// The states of the dialogs whose life is not over. The others are removed.
    pub fn load(&mut self, now: Time) -> impl Iterator<Item = &[u8]> {
        self.rows.retain(|_, (_, expires)| *expires > now);
        self.rows.values().map(|(state, _)| &**state)
    }

    /// The latest states of all dialogs, saved or not.
    pub fn latest(&self) -> impl Iterator<Item = &[u8]> {
        let saved = self
            .rows
            .iter()
            .filter(|(id, _)| !self.unsaved.contains_key(id));
        let unsaved = self.unsaved.values().flatten();
        let rows = saved.map(|(_, row)| row).chain(unsaved);
        rows.map(|(state, _)| &**state)
    }

    /// The dialogs on the disk.
    pub fn saved(&self) -> Vec<SavedDialog> {
        let rows = self.rows.iter();
        rows.map(|(id, (_, expires))| SavedDialog {
            id: *id,
            expires: *expires,
        })
        .collect()
    }
}
