//! A generational slab: values by index, in memory that grows without copying and is freed again.
//!
//! Indexes are reused. An id also contains a generation, so an outdated id finds nothing. Each value stores its own
//! generation ([`Tenant`]): most have four bytes of padding for it, and a lookup reads only the value.
//!
//! A `Vec` would move hundreds of thousands of transactions when it grows, under the very load that makes it grow, and
//! would never shrink. This slab grows by one chunk. New values go into the lowest chunk with room. After a peak, the
//! upper chunks therefore become empty and are freed. One empty chunk keeps its memory, so that a single value at the
//! edge does not allocate each time.

use std::ops::Range;

/// Values in a chunk: 50 kB of transactions, 16 kB of timers.
const CHUNK: usize = 512;

/// Identifies a value of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlabId {
    /// The index of its slot.
    pub index: u32,
    /// Counts the insertions into the slab, modulo 2^32.
    pub generation: u32,
}

impl SlabId {
    /// Identifies no value: no slab has that many slots.
    pub const NONE: Self = Self {
        index: u32::MAX,
        generation: 0,
    };
}

/// A value that stores the generation of its id.
pub trait Tenant {
    /// The generation of its id.
    fn generation(&self) -> u32;
}

/// Values by id.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// One bit for each chunk that has room.
    roomy: Vec<u64>,
    len: usize,
    /// The one empty chunk that keeps its memory.
    spare: Option<usize>,
    /// The generation of the last insertion.
    generation: u32,
}

/// One chunk. `slots` and `free` are empty while it holds no memory.
#[derive(Debug)]
struct Chunk<T> {
    slots: Box<[Option<T>]>,
    free: Vec<u16>,
}

impl<T> Chunk<T> {
    fn without_memory() -> Self {
        Self {
            slots: Box::new([]),
            free: Vec::new(),
        }
    }

    fn allocate(&mut self) {
        self.slots = std::iter::repeat_with(|| None).take(CHUNK).collect();
        // The list is used from its end: low indexes first.
        self.free = (0..CHUNK as u16).rev().collect();
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }
}

impl<T: Tenant> Slab<T> {
    /// Creates an empty slab. Generations start after `epoch`. If ids leave the process, `epoch` is random, so that ids from
    /// an earlier run of the program do not match.
    pub const fn new(epoch: u32) -> Self {
        Self {
            chunks: Vec::new(),
            roomy: Vec::new(),
            len: 0,
            spare: None,
            generation: epoch,
        }
    }

    /// Number of values.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no values.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts the value that `make` returns for its id. The value stores the generation of that id.
    pub fn insert(&mut self, make: impl FnOnce(SlabId) -> T) -> SlabId {
        self.generation = self.generation.wrapping_add(1);
        let number = self.roomy_chunk();
        let chunk = &mut self.chunks[number];
        if chunk.slots.is_empty() {
            chunk.allocate();
        }
        let slot = chunk.free.pop().unwrap_or_default();
        let id = SlabId {
            index: (number * CHUNK) as u32 + u32::from(slot),
            generation: self.generation,
        };
        let value = make(id);
        debug_assert_eq!(value.generation(), id.generation, "the value keeps it");
        chunk.slots[usize::from(slot)] = Some(value);
        if chunk.free.is_empty() {
            self.roomy[number / 64] &= !(1 << (number % 64));
        }
        if self.spare == Some(number) {
            self.spare = None;
        }
        self.len += 1;
        id
    }

    /// The value with this id; `None` if it has been removed.
    pub fn get(&self, id: SlabId) -> Option<&T> {
        self.at(id.index)
            .filter(|value| value.generation() == id.generation)
    }

    /// The value with this id, mutable; `None` if it has been removed.
    pub fn get_mut(&mut self, id: SlabId) -> Option<&mut T> {
        self.at_mut(id.index)
            .filter(|value| value.generation() == id.generation)
    }

    /// Removes and returns the value with this id.
    pub fn remove(&mut self, id: SlabId) -> Option<T> {
        self.get(id)?;
        self.remove_at(id.index)
    }

    /// The value at this index, of any generation. For indexes whose value cannot have changed.
    pub fn at(&self, index: u32) -> Option<&T> {
        let (number, slot) = place(index);
        self.chunks.get(number)?.slots.get(slot)?.as_ref()
    }

    /// The value at this index, of any generation, mutable.
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        let (number, slot) = place(index);
        self.chunks.get_mut(number)?.slots.get_mut(slot)?.as_mut()
    }

    /// Removes and returns the value at this index, of any generation.
    pub fn remove_at(&mut self, index: u32) -> Option<T> {
        let (number, slot) = place(index);
        let chunk = self.chunks.get_mut(number)?;
        let value = chunk.slots.get_mut(slot)?.take()?;
        chunk.free.push(slot as u16);
        self.roomy[number / 64] |= 1 << (number % 64);
        self.len -= 1;
        if chunk.is_empty() {
            match self.spare {
                None => self.spare = Some(number),
                Some(_) => *chunk = Chunk::without_memory(),
            }
        }
        Some(value)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.slots.iter().flatten())
    }

    /// The number of slots. The index of each value is below it.
    pub const fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// The values in these slots with their ids, in the order of their indexes.
    pub fn range(&self, slots: Range<u32>) -> impl Iterator<Item = (SlabId, &T)> {
        slots.filter_map(|index| {
            let value = self.at(index)?;
            let generation = value.generation();
            Some((SlabId { index, generation }, value))
        })
    }

    /// The number of the lowest chunk with room. Adds a chunk if none has room.
    fn roomy_chunk(&mut self) -> usize {
        let found = self.roomy.iter().enumerate().find(|(_, bits)| **bits != 0);
        if let Some((word, bits)) = found {
            return word * 64 + bits.trailing_zeros() as usize;
        }
        let number = self.chunks.len();
        self.chunks.push(Chunk::without_memory());
        if number.is_multiple_of(64) {
            self.roomy.push(0);
        }
        self.roomy[number / 64] |= 1 << (number % 64);
        number
    }
}

const fn place(index: u32) -> (usize, usize) {
    (index as usize / CHUNK, index as usize % CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Number(u32, u32);

    impl Tenant for Number {
        fn generation(&self) -> u32 {
            self.1
        }
    }

    fn insert(slab: &mut Slab<Number>, number: u32) -> SlabId {
        slab.insert(|id| Number(number, id.generation))
    }

    fn number(slab: &Slab<Number>, id: SlabId) -> Option<u32> {
        slab.get(id).map(|number| number.0)
    }

    fn chunks_with_memory<T>(slab: &Slab<T>) -> usize {
        slab.chunks
            .iter()
            .filter(|chunk| !chunk.slots.is_empty())
            .count()
    }

    #[test]
    fn an_id_finds_its_value_until_it_is_removed() {
        let mut slab = Slab::new(0);
        let ids: Vec<SlabId> = (0..2000).map(|n| insert(&mut slab, n)).collect();
        for (n, &id) in (0..).zip(&ids) {
            assert_eq!(number(&slab, id), Some(n));
        }
        assert_eq!(slab.remove(ids[700]).map(|number| number.0), Some(700));
        assert_eq!(number(&slab, ids[700]), None);
        assert_eq!(slab.remove(ids[700]), None, "twice");
        assert_eq!(slab.len(), 1999);
        assert_eq!(slab.get(SlabId::NONE), None);
    }

    #[test]
    fn a_stale_id_does_not_find_the_next_value_of_its_place() {
        let mut slab = Slab::new(u32::MAX - 1);
        let mut before = insert(&mut slab, 0);
        for n in 1..10 {
            slab.remove(before);
            let now = insert(&mut slab, n);
            assert_eq!(now.index, before.index);
            assert_eq!((number(&slab, before), number(&slab, now)), (None, Some(n)));
            assert_eq!(slab.remove(before), None);
            assert!(slab.get_mut(before).is_none() && slab.at(now.index).is_some());
            before = now;
        }
    }

    #[test]
    fn a_range_has_the_values_of_its_slots_and_all_slots_have_all_values() {
        let mut slab = Slab::new(0);
        let ids: Vec<SlabId> = (0..3 * CHUNK as u32)
            .map(|n| insert(&mut slab, n))
            .collect();
        for id in &ids[CHUNK - 2..=2 * CHUNK] {
            slab.remove(*id);
        }
        let edge = CHUNK as u32;
        let found: Vec<SlabId> = slab
            .range(edge - 4..2 * edge + 3)
            .map(|(id, _)| id)
            .collect();
        let expected = [CHUNK - 4, CHUNK - 3, 2 * CHUNK + 1, 2 * CHUNK + 2];
        assert_eq!(found, expected.map(|place| ids[place]));
        assert_eq!(slab.range(0..slab.slots()).count(), slab.len());
        assert_eq!(slab.range(slab.slots()..slab.slots() + 10).count(), 0);
    }

    #[test]
    fn low_places_are_taken_first() {
        let mut slab = Slab::new(0);
        for n in 0..3 * CHUNK as u32 {
            assert_eq!(insert(&mut slab, n).index, n);
        }
        slab.remove_at(2 * CHUNK as u32);
        slab.remove_at(7);
        assert_eq!(insert(&mut slab, 0).index, 7);
        assert_eq!(insert(&mut slab, 0).index, 2 * CHUNK as u32);
    }

    #[test]
    fn all_memory_is_freed_but_for_one_chunk() {
        let mut slab = Slab::new(0);
        let many = 100 * CHUNK as u32;
        let ids: Vec<SlabId> = (0..many).map(|n| insert(&mut slab, n)).collect();
        assert_eq!(chunks_with_memory(&slab), 100);
        for id in ids {
            slab.remove(id);
        }
        assert_eq!((slab.len(), chunks_with_memory(&slab)), (0, 1));
        // That one stays, however often it is used and emptied.
        for _ in 0..3 {
            let id = insert(&mut slab, 0);
            slab.remove(id);
            assert_eq!(chunks_with_memory(&slab), 1);
        }
        // And it can grow again.
        let again: Vec<SlabId> = (0..3 * CHUNK as u32)
            .map(|n| insert(&mut slab, n))
            .collect();
        assert!(
            (0..)
                .zip(&again)
                .all(|(n, &id)| number(&slab, id) == Some(n))
        );
    }
}
