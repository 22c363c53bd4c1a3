//! The connections of a worker, by keys of 32 bits, which fit into a `ConnectionId` and into a token of the event loop.

use sip_transport::{Slab, SlabId, Tenant};

/// Bits of a key that are the index. The others are the generation, reduced to 1 to 4,095: a key is never 0.
const PLACE_BITS: u32 = 20;
const MOST_PLACES: usize = 1 << PLACE_BITS;
const GENERATIONS: u32 = (1 << (32 - PLACE_BITS)) - 1;

/// Values by key. A key repeats after 4,095 further insertions at the earliest. Code that sends to a connection
/// therefore compares the peer's address, too.
#[derive(Debug)]
pub(super) struct Table<T>(Slab<Slot<T>>);

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Box<T>,
}

impl<T> Tenant for Slot<T> {
    fn generation(&self) -> u32 {
        self.generation
    }
}

impl<T> Table<T> {
    pub(super) const fn new() -> Self {
        Self(Slab::new(0))
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Inserts the value that `make` returns for its key; `None` if the table has `most` values.
    pub(super) fn insert(&mut self, most: usize, make: impl FnOnce(u32) -> T) -> Option<u32> {
        if self.len() >= most.min(MOST_PLACES) {
            return None;
        }
        let id = self.0.insert(|id| Slot {
            generation: id.generation,
            value: Box::new(make(name(id))),
        });
        Some(name(id))
    }

    pub(super) fn get(&mut self, name: u32) -> Option<&mut T> {
        let index = index(name);
        let slot = self.0.at_mut(index)?;
        is_named(slot, name).then_some(&mut *slot.value)
    }

    pub(super) fn remove(&mut self, name: u32) -> Option<Box<T>> {
        self.get(name)?;
        Some(self.0.remove_at(index(name))?.value)
    }
}

fn name(id: SlabId) -> u32 {
    (id.generation % GENERATIONS + 1) << PLACE_BITS | id.index
}

const fn index(name: u32) -> u32 {
    name % (1 << PLACE_BITS)
}

fn is_named<T>(slot: &Slot<T>, wanted: u32) -> bool {
    let id = SlabId {
        index: index(wanted),
        generation: slot.generation,
    };
    name(id) == wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_does_not_find_the_next_connection_of_its_place() {
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
        let names: Vec<u32> = (0..3)
            .filter_map(|_| table.insert(2, |name| name))
            .collect();
        assert_eq!((names.len(), table.len()), (2, 2));
        table.remove(names[0]);
        assert_eq!(table.len(), 1);
        assert!(table.insert(2, |name| name).is_some());
    }

    #[test]
    fn a_name_comes_again_only_after_thousands_of_connections() {
        let mut table = Table::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..GENERATIONS {
            let name = table.insert(1, |name| name).expect("room");
            assert!(name != 0 && seen.insert(name));
            table.remove(name);
        }
        let again = table.insert(1, |name| name).expect("room");
        assert!(!seen.insert(again));
    }
}
