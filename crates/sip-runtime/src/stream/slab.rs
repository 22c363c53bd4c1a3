//! The table of a worker's connections. A slot is reused under a new key.

use std::collections::VecDeque;

/// Bits of a key that are the slot index. The others are the slot's generation.
const PLACE_BITS: u32 = 20;
const MOST_PLACES: usize = 1 << PLACE_BITS;
const USES: u32 = 1 << (32 - PLACE_BITS);

/// Values by key. A key is never 0. It is reused only after its slot has been used 4,095 times.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    /// Free slots, the one free for longest first.
    free: VecDeque<u32>,
}

#[derive(Debug)]
struct Place<T> {
    /// The generation; starts at 1.
    uses: u16,
    thing: Option<Box<T>>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            places: Vec::new(),
            free: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Inserts the value that `make` builds from its key. Returns `None` if there are `most` values already.
    pub(super) fn insert(&mut self, most: usize, make: impl FnOnce(u32) -> T) -> Option<u32> {
        if self.len() >= most.min(MOST_PLACES) {
            return None;
        }
        let place = self.free.pop_front().unwrap_or_else(|| {
            self.places.push(Place {
                uses: 0,
                thing: None,
            });
            self.places.len() as u32 - 1
        });
        let entry = self.places.get_mut(place as usize)?;
        entry.uses = (entry.uses + 1) % USES as u16;
        entry.uses = entry.uses.max(1);
        let name = u32::from(entry.uses) << PLACE_BITS | place;
        entry.thing = Some(Box::new(make(name)));
        Some(name)
    }

    pub(super) fn get(&mut self, name: u32) -> Option<&mut T> {
        let entry = self.places.get_mut(place(name))?;
        if u32::from(entry.uses) != name >> PLACE_BITS {
            return None;
        }
        entry.thing.as_deref_mut()
    }

    pub(super) fn remove(&mut self, name: u32) -> Option<Box<T>> {
        self.get(name)?;
        let thing = self.places.get_mut(place(name))?.thing.take()?;
        self.free.push_back(place(name) as u32);
        Some(thing)
    }
}

const fn place(name: u32) -> usize {
    (name % (1 << PLACE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_does_not_find_what_came_after() {
        let mut slab = Slab::new();
        let old = slab.insert(10, |_| 'a').expect("room");
        assert_eq!(slab.remove(old).map(|thing| *thing), Some('a'));
        let new = slab.insert(10, |_| 'b').expect("room");
        assert_ne!(old, new);
        assert_eq!(slab.get(old), None);
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab.get(new), Some(&mut 'b'));
        assert_eq!(slab.get(0), None);
    }

    #[test]
    fn there_are_no_more_than_the_most() {
        let mut slab = Slab::new();
        let names: Vec<u32> = (0..3).filter_map(|_| slab.insert(2, |name| name)).collect();
        assert_eq!((names.len(), slab.len()), (2, 2));
        slab.remove(names[0]);
        assert_eq!(slab.len(), 1);
        assert!(slab.insert(2, |name| name).is_some());
    }

    #[test]
    fn a_name_comes_again_only_after_thousands_of_uses() {
        let mut slab = Slab::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 1..USES {
            let name = slab.insert(1, |name| name).expect("room");
            assert!(name != 0 && seen.insert(name));
            slab.remove(name);
        }
        let again = slab.insert(1, |name| name).expect("room");
        assert!(!seen.insert(again));
    }
}
