//! The connections of a worker, by keys of 32 bits, which fit into a `ConnectionId` and into a token of the event loop.

use sip_transport::{Slab, Tenant};

/// Bits of a key that are the index. The others count the uses of the slot, from 1 to 4,095: a key is never 0.
const INDEX_BITS: u32 = 20;
const MAX_SLOTS: usize = 1 << INDEX_BITS;
const USES: u16 = (1 << (32 - INDEX_BITS)) - 1;

/// Values by key. A key repeats after its slot has been used 4,095 times. Code that sends to a connection therefore
/// compares the peer's address, too.
#[derive(Debug)]
pub(super) struct Table<T> {
    slots: Slab<Slot<T>>,
    /// How often each slot has been used, modulo `USES`.
    uses: Vec<u16>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    key: u32,
    value: Box<T>,
}

impl<T> Tenant for Slot<T> {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<T> Table<T> {
    /// Creates an empty table.
    pub(super) const fn new() -> Self {
        Self {
            slots: Slab::new(0),
            uses: Vec::new(),
        }
    }

    /// Number of values.
    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Inserts the value that `make` returns for its key; `None` if the table has `most` values.
    pub(super) fn insert(&mut self, most: usize, make: impl FnOnce(u32) -> T) -> Option<u32> {
        if self.len() >= most.min(MAX_SLOTS) {
            return None;
        }
        let (slots, uses) = (&mut self.slots, &mut self.uses);
        let mut inserted = 0;
        slots.insert(|id| {
            inserted = next_key(uses, id.index);
            Slot {
                generation: id.generation,
                key: inserted,
                value: Box::new(make(inserted)),
            }
        });
        Some(inserted)
    }

    /// The value with this key; `None` if it has been removed.
    pub(super) fn get(&mut self, key: u32) -> Option<&mut T> {
        let slot = self.slots.at_mut(index(key))?;
        (slot.key == key).then_some(&mut *slot.value)
    }

    /// Removes and returns the value with this key.
    pub(super) fn remove(&mut self, key: u32) -> Option<Box<T>> {
        self.get(key)?;
        Some(self.slots.remove_at(index(key))?.value)
    }
}

/// The key of the next value in this slot.
fn next_key(uses: &mut Vec<u16>, index: u32) -> u32 {
    let place = index as usize;
    if uses.len() <= place {
        uses.resize(place + 1, 0);
    }
    let count = uses.get_mut(place).map_or(1, |count| {
        *count = *count % USES + 1;
        *count
    });
    u32::from(count) << INDEX_BITS | index
}

const fn index(key: u32) -> u32 {
    key % (1 << INDEX_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_find_the_next_connection_of_its_place() {
        let mut table = Table::new();
        let old = table.insert(10, |_| 'a').expect("room");
        assert_eq!(table.remove(old).map(|value| *value), Some('a'));
        let new = table.insert(10, |_| 'b').expect("room");
        assert_ne!(old, new);
        assert_eq!(table.get(old), None);
        assert_eq!(table.remove(old), None);
        assert_eq!(table.get(new), Some(&mut 'b'));
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn there_are_no_more_than_the_most() {
        let mut table = Table::new();
        let keys: Vec<u32> = (0..3).filter_map(|_| table.insert(2, |key| key)).collect();
        assert_eq!((keys.len(), table.len()), (2, 2));
        table.remove(keys[0]);
        assert_eq!(table.len(), 1);
        assert!(table.insert(2, |key| key).is_some());
    }

    #[test]
    fn a_key_repeats_only_after_thousands_of_connections() {
        let mut table = Table::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..USES {
            let key = table.insert(1, |key| key).expect("room");
            assert!(key != 0 && seen.insert(key));
            table.remove(key);
        }
        let again = table.insert(1, |key| key).expect("room");
        assert!(!seen.insert(again));
    }
}
