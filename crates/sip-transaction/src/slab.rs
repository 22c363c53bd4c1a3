//! A slab in chunks: values by index, in memory that grows without copying and is freed again.
//!
//! A `Vec` would move hundreds of thousands of transactions when it grows, under the very load that makes it grow, and
//! would never shrink. This slab grows by one chunk. New values go into the lowest chunk with room. After a peak, the
//! upper chunks therefore become empty and are freed. One empty chunk keeps its memory, so that a single transaction at
//! the edge does not allocate each time.

/// Values per chunk: 50 kB of transactions, 16 kB of timers.
const CHUNK: usize = 512;

/// Values by index. Indexes are reused, so the caller must distinguish generations.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// One bit for each chunk that has room.
    roomy: Vec<u64>,
    len: usize,
    /// The one empty chunk that keeps its memory.
    spare: Option<usize>,
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

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            roomy: Vec::new(),
            len: 0,
            spare: None,
        }
    }
}

impl<T> Slab<T> {
    /// The number of values.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Inserts a value and returns its index.
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let number = self.roomy_chunk();
        let chunk = &mut self.chunks[number];
        if chunk.slots.is_empty() {
            chunk.allocate();
        }
        let slot = chunk.free.pop().unwrap_or_default();
        chunk.slots[usize::from(slot)] = Some(value);
        if chunk.free.is_empty() {
            self.roomy[number / 64] &= !(1 << (number % 64));
        }
        if self.spare == Some(number) {
            self.spare = None;
        }
        self.len += 1;
        (number * CHUNK) as u32 + u32::from(slot)
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
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

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (number, slot) = place(index);
        self.chunks.get(number)?.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (number, slot) = place(index);
        self.chunks.get_mut(number)?.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.slots.iter().flatten())
    }

    /// The lowest chunk with room; if there is none, a new one.
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

    fn chunks_with_memory<T>(slab: &Slab<T>) -> usize {
        slab.chunks
            .iter()
            .filter(|chunk| !chunk.slots.is_empty())
            .count()
    }

    #[test]
    fn an_index_finds_its_value_until_it_is_removed() {
        let mut slab = Slab::default();
        let indexes: Vec<u32> = (0..2000).map(|n| slab.insert(n)).collect();
        for (n, &index) in indexes.iter().enumerate() {
            assert_eq!(slab.get(index), Some(&n));
        }
        assert_eq!(slab.remove(indexes[700]), Some(700));
        assert_eq!(slab.get(indexes[700]), None);
        assert_eq!(slab.remove(indexes[700]), None, "twice");
        assert_eq!(slab.len(), 1999);
        assert_eq!(slab.get(u32::MAX), None);
    }

    #[test]
    fn low_places_are_taken_first() {
        let mut slab = Slab::default();
        for n in 0..3 * CHUNK as u32 {
            assert_eq!(slab.insert(n), n);
        }
        slab.remove(2 * CHUNK as u32);
        slab.remove(7);
        assert_eq!(slab.insert(0), 7);
        assert_eq!(slab.insert(0), 2 * CHUNK as u32);
    }

    #[test]
    fn memory_is_given_back_but_for_one_chunk() {
        let mut slab = Slab::default();
        let indexes: Vec<u32> = (0..100 * CHUNK).map(|n| slab.insert(n)).collect();
        assert_eq!(chunks_with_memory(&slab), 100);
        for index in indexes {
            slab.remove(index);
        }
        assert_eq!((slab.len(), chunks_with_memory(&slab)), (0, 1));
        // The spare chunk stays, however often it is used and emptied.
        for _ in 0..3 {
            let index = slab.insert(0);
            slab.remove(index);
            assert_eq!(chunks_with_memory(&slab), 1);
        }
        // The slab can grow again.
        let again: Vec<u32> = (0..3 * CHUNK).map(|n| slab.insert(n)).collect();
        assert!(
            again
                .iter()
                .enumerate()
                .all(|(n, &index)| slab.get(index) == Some(&n))
        );
    }
}
