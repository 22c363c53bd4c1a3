//! Places of transactions by a part of their keys, beside the slab that the transactions lie in.

use hashbrown::HashTable;

/// The places of the transactions of one slab. The keys themselves lie in the slab. An entry has only 8 bytes, so more of the table stays in
/// the cache, and growth touches no transaction.
#[derive(Debug, Default)]
pub(crate) struct Places(HashTable<Entry>);

/// A part of the key, which is a keyed hash already, and the place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u32,
    index: u32,
}

impl Entry {
    /// Repeats the tag, because the table takes bits from both ends of a hash.
    const fn hash(self) -> u64 {
        (self.tag as u64) << 32 | self.tag as u64
    }
}

impl Places {
    /// A nearly empty table shrinks if it has room for more entries than this.
    const SHRINK_ABOVE: usize = 4096;

    /// Creates an empty table.
    pub(crate) const fn new() -> Self {
        Self(HashTable::new())
    }

    /// The first place with this tag that `is_wanted`.
    pub(crate) fn find(&self, tag: u32, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let wanted = Entry { tag, index: 0 };
        let same = |entry: &Entry| entry.tag == tag && is_wanted(entry.index);
        self.0.find(wanted.hash(), same).map(|entry| entry.index)
    }

    /// Adds a place.
    pub(crate) fn insert(&mut self, tag: u32, index: u32) {
        let entry = Entry { tag, index };
        self.0
            .insert_unique(entry.hash(), entry, |entry| entry.hash());
    }

    /// Removes a place, and gives memory back after a peak.
    pub(crate) fn remove(&mut self, tag: u32, index: u32) {
        let entry = Entry { tag, index };
        let same = |other: &Entry| other.index == index;
        if let Ok(occupied) = self.0.find_entry(entry.hash(), same) {
            occupied.remove();
        }
        let (len, buckets) = (self.0.len(), self.0.num_buckets());
        if buckets > Self::SHRINK_ABOVE && len < buckets / 16 {
            self.0.shrink_to(len * 2, |entry| entry.hash());
        }
    }
}

#[cfg(test)]
impl Places {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn num_buckets(&self) -> usize {
        self.0.num_buckets()
    }
}
