//! A bounded table by address of record. One thread at a time changes it; workers read it without a lock.

use crate::location::{AddressHasher, AddressKey, AddressMap, address_map, make_room};
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Values by `user@domain`.
pub(super) struct Table<V> {
    map: AddressMap<V>,
    hasher: AddressHasher,
    most: usize,
    /// The number of entries. Most servers have none, which costs a call one load.
    len: AtomicUsize,
}

impl<V: Clone> Table<V> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            map: address_map(),
            hasher: AddressHasher::random(),
            most,
            len: AtomicUsize::new(0),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Looks up an address, given in any parts.
    pub(super) fn find(&self, address: &[&[u8]]) -> Option<V> {
        if self.len() == 0 {
            return None;
        }
        let key = self.hasher.key_of_parts(address);
        self.map.pin().get(&key).cloned()
    }

    /// Sets or removes a value. Returns false, without a change, if there is no room.
    pub(super) fn set(&self, address: &[&[u8]], value: Option<V>) -> bool {
        self.set_key(self.hasher.key_of_parts(address), value)
    }

    fn set_key(&self, key: AddressKey, value: Option<V>) -> bool {
        let map = self.map.pin();
        let Some(value) = value else {
            if map.remove(&key).is_some() {
                self.len.fetch_sub(1, Ordering::Relaxed);
            }
            return true;
        };
        if map.get(&key).is_none() {
            if self.len() >= self.most {
                return false;
            }
            self.len.fetch_add(1, Ordering::Relaxed);
        }
        map.insert(key, value);
        make_room(&self.map);
        true
    }

    /// Begins to replace all values.
    pub(super) fn replace(&self) -> Replacement<'_, V> {
        Replacement {
            table: self,
            kept: HashSet::new(),
            refused: 0,
        }
    }
}

impl<V> fmt::Debug for Table<V> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Table({:?} of {})", self.len, self.most)
    }
}

/// Replaces all values of a table while workers read it. At no time is a value missing that is in both.
#[derive(Debug)]
pub struct Replacement<'t, V> {
    table: &'t Table<V>,
    kept: HashSet<AddressKey>,
    refused: usize,
}

impl<V: Clone> Replacement<'_, V> {
    pub(super) fn set(&mut self, address: &[&[u8]], value: V) {
        let key = self.table.hasher.key_of_parts(address);
        if self.table.set_key(key, Some(value)) {
            self.kept.insert(key);
        } else {
            self.refused += 1;
        }
    }

    /// Removes all values that were not set again. Returns how many were left out for lack of room.
    pub fn finish(self) -> usize {
        let map = self.table.map.pin();
        map.retain(|key, _| self.kept.contains(key));
        self.table.len.store(map.len(), Ordering::Relaxed);
        self.refused
    }
}
