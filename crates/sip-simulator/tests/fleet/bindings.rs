//! The bindings of one node of a fleet: gives versions to what its workers have changed, and exchanges them with the store.

use super::store::{Field, Record, Store, Version};
use crate::exchange::Saved;
use sip_elements::location::{Binding, Locations, Merge, Merged};
use sip_transport::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What one life of a node knows about versions.
#[derive(Debug, Default)]
pub struct SharedBindings {
    node: usize,
    known: BTreeMap<Field, Record>,
    last: Version,
    /// What the store does not have yet.
    outbox: BTreeSet<Field>,
    /// The position in the log of the store.
    read: usize,
    /// How often each binding has changed here.
    changes: BTreeMap<Field, u64>,
}

impl SharedBindings {
    pub fn new(node: usize) -> Self {
        Self {
            node,
            ..Self::default()
        }
    }

    pub const fn changes(&self) -> &BTreeMap<Field, u64> {
        &self.changes
    }

    /// A version that is later than all that this node has given or seen.
    fn tick(&mut self, now: Time) -> Version {
        let now = Version {
            millis: now.as_micros() / 1_000,
            ..Version::default()
        };
        let next = Version {
            counter: self.last.counter + 1,
            ..self.last
        };
        self.last = Version {
            writer: self.node,
            ..now.max(next)
        };
        self.last
    }

    /// Gives versions to what workers have changed.
    pub fn stamp(&mut self, locations: &Locations, now: Time) {
        let changes = locations.take_changes();
        let mut addresses: BTreeSet<Vec<u8>> =
            changes.addresses.into_iter().map(Vec::from).collect();
        if changes.everything {
            addresses.extend(self.known.keys().map(|(address, _)| address.clone()));
            locations.for_each(now, |address, _| {
                addresses.insert(address.to_vec());
            });
        }
        for address in addresses {
            self.stamp_address(locations, &address, now);
        }
    }

    fn stamp_address(&mut self, locations: &Locations, address: &[u8], now: Time) {
        let mut present = BTreeMap::new();
        locations.visit(address, now, |binding| {
            let field = (address.to_vec(), binding.contact.to_vec());
            present.insert(field, Saved::new(binding));
        });
        let known = self.known.iter();
        let gone = known.filter(|(field, record)| {
            field.0 == address && is_live(record, now) && !present.contains_key(*field)
        });
        let gone: Vec<Field> = gone.map(|(field, _)| field.clone()).collect();
        for field in gone {
            self.change(field, None, now);
        }
        for (field, saved) in present {
            let known = self.known.get(&field).and_then(|it| it.binding.as_ref());
            if known != Some(&saved) {
                self.change(field, Some(saved), now);
            }
        }
    }

    fn change(&mut self, field: Field, binding: Option<Saved>, now: Time) {
        let version = self.tick(now);
        *self.changes.entry(field.clone()).or_default() += 1;
        self.outbox.insert(field.clone());
        self.known.insert(field, Record { version, binding });
    }

    /// Takes over a record of the store if it is newer than what this node knows.
    fn receive(&mut self, locations: &Locations, field: &Field, record: &Record, now: Time) {
        self.last = self.last.max(record.version);
        let known = self.known.get(field);
        if known.is_some_and(|known| known.version >= record.version) {
            return;
        }
        let expected = known.filter(|known| is_live(known, now));
        let expected = expected.and_then(|known| known.binding.clone());
        let binding = record.binding.as_ref().filter(|_| is_live(record, now));
        let change = Merge {
            binding: binding.map(Saved::binding),
            selects: |other: &Binding<'_>| other.contact == field.1,
            expects: |present: Option<&Binding<'_>>| present.map(Saved::new) == expected,
        };
        match locations.merge(&field.0, now, &change, |_| ()) {
            Merged::Done(()) => {
                self.known.insert(field.clone(), record.clone());
            }
            Merged::Unexpected => self.stamp_address(locations, &field.0, now),
            Merged::NoRoom => {}
        }
    }

    /// Takes over all records of the store that are newer. Everything that is newer here waits for the store.
    pub fn compare(&mut self, store: &Store, locations: &Locations, now: Time) {
        self.read = store.end();
        for (field, record) in store.bindings() {
            self.receive(locations, field, record, now);
        }
        let newer = self.known.iter().filter(|(field, record)| {
            let there = store.bindings().get(*field);
            there.is_none_or(|there| there.version < record.version)
        });
        let newer: Vec<Field> = newer.map(|(field, _)| field.clone()).collect();
        self.outbox.extend(newer);
    }

    /// Takes over what other nodes have written since the last time.
    pub fn read(&mut self, store: &Store, locations: &Locations, now: Time) {
        for (field, record) in store.changes(self.read) {
            self.receive(locations, field, record, now);
        }
        self.read = store.end();
    }

    /// Writes what waits. If the answer of the store is lost, it is written again.
    pub fn write(&mut self, store: &mut Store, is_answered: bool) {
        for field in &self.outbox {
            if let Some(record) = self.known.get(field) {
                store.write(field, record);
            }
        }
        if is_answered {
            self.outbox.clear();
        }
    }
}

fn is_live(record: &Record, now: Time) -> bool {
    let binding = record.binding.as_ref();
    binding.is_some_and(|saved| u64::from(saved.binding().expires_at) > now.unix_seconds())
}
