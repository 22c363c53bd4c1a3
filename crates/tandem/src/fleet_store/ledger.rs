//! The version of each binding that this node has written or received, and of each removal. The bindings themselves are in the location
//! service, which knows no versions. So a worker that refreshes a binding pays nothing for the fleet.
//!
//! The entry of a binding has a fingerprint of it. If the binding in memory has another one, a worker has changed it, and the change has no
//! version yet.

use super::layout::BUCKETS;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tandem_store::fleet::{BindingId, HybridClock, HybridTime, Version, WriterId};

/// How much longer than its last use an entry is kept: for clocks that differ.
const GRACE: u32 = 120;
/// How far the clock of another node may be ahead.
const TOLERANCE: Duration = Duration::from_secs(600);
/// Names of instances that are remembered. A fleet that replaces a node every minute has as many in six weeks.
const MOST_WRITERS: usize = 60_000;
/// Memory of an entry in its map, in bytes: measured with a million.
const ENTRY_BYTES: usize = 64;

/// A binding: a hash of its address of record with the secret of this process, and its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) address: u64,
    pub(super) binding: BindingId,
}

/// A binding with the bucket of its address.
pub(super) type Place = (u16, Key);

/// What is known about a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) time: HybridTime,
    pub(super) fingerprint: u64,
    /// When the binding expires, in seconds since the Unix epoch; 0: it was removed.
    pub(super) expires_at: u32,
    pub(super) writer: u16,
}

impl Entry {
    pub(super) const fn is_removed(&self) -> bool {
        self.expires_at == 0
    }
}

/// All entries.
#[derive(Debug)]
pub(super) struct Ledger {
    clock: HybridClock,
    writers: Writers,
    buckets: Vec<BTreeMap<Key, Entry>>,
    /// The addresses of record of bindings that were removed. They are needed if the store loses the removal.
    removed: HashMap<Place, Box<[u8]>>,
    entries: usize,
    most_entries: usize,
    /// The longest lifetime of a binding, in seconds.
    longest: u32,
}

impl Ledger {
    /// An empty ledger of the instance with this name.
    pub(super) fn new(instance: &str, most_entries: usize, longest: Duration) -> Self {
        Self {
            clock: HybridClock::default(),
            writers: Writers::new(instance),
            buckets: vec![BTreeMap::new(); usize::from(BUCKETS)],
            removed: HashMap::new(),
            entries: 0,
            most_entries,
            longest: u32::try_from(longest.as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// The time of a change by this instance. `now` in milliseconds.
    pub(super) fn tick(&mut self, now: u64) -> HybridTime {
        self.clock.tick(now)
    }

    /// Notes the time of a change by another instance. False: it is too far ahead.
    pub(super) fn observe(&mut self, time: HybridTime, now: u64) -> bool {
        self.clock.observe(time, now, TOLERANCE)
    }

    /// The number of an instance, for [`Entry::writer`]. `None`: there are too many.
    pub(super) fn writer(&mut self, name: &str) -> Option<u16> {
        self.writers.number(name)
    }

    /// The name of an instance.
    pub(super) fn writer_name(&self, entry: &Entry) -> &str {
        self.writers.name(entry.writer)
    }

    /// The version of an entry.
    pub(super) fn version(&self, entry: &Entry) -> Version {
        Version {
            time: entry.time,
            writer: self.writers.id(entry.writer),
        }
    }

    /// When an entry is of no use any more: every binding that is older than it has expired.
    pub(super) fn forget_at(&self, time: HybridTime, expires_at: u32) -> u32 {
        let written = u32::try_from(time.millis() / 1_000).unwrap_or(u32::MAX);
        let oldest_end = written.saturating_add(self.longest);
        expires_at.max(oldest_end).saturating_add(GRACE)
    }

    /// What is known about a binding.
    pub(super) fn known(&self, (bucket, key): Place) -> Option<&Entry> {
        self.buckets.get(usize::from(bucket))?.get(&key)
    }

    /// Whether there is room for an entry at this place.
    pub(super) fn has_room(&self, place: Place) -> bool {
        self.entries < self.most_entries || self.known(place).is_some()
    }

    /// Adds or replaces an entry. `address` is its address of record.
    pub(super) fn insert(&mut self, place: Place, entry: Entry, address: &[u8]) {
        let (bucket, key) = place;
        let Some(entries) = self.buckets.get_mut(usize::from(bucket)) else {
            return;
        };
        let before = entries.insert(key, entry);
        if before.is_none() {
            self.entries += 1;
        }
        if entry.is_removed() {
            self.removed.insert(place, address.into());
        } else if before.is_some_and(|before| before.is_removed()) {
            self.removed.remove(&place);
        }
    }

    /// The entries of an address of record.
    pub(super) fn of_address(
        &self,
        bucket: u16,
        address: u64,
    ) -> impl Iterator<Item = (Key, Entry)> {
        let key = |binding| Key { address, binding };
        let range = key(BindingId::LEAST)..=key(BindingId::GREATEST);
        let entries = self.buckets.get(usize::from(bucket)).into_iter();
        entries
            .flat_map(move |entries| entries.range(range.clone()))
            .map(|(key, entry)| (*key, *entry))
    }

    /// The entries of a bucket that `seen` lacks, or has in an older version.
    pub(super) fn newer_than(
        &self,
        bucket: u16,
        seen: &HashMap<Key, Version>,
    ) -> Vec<(Key, Entry)> {
        let entries = self.buckets.get(usize::from(bucket)).into_iter().flatten();
        entries
            .filter(|(key, entry)| seen.get(key).is_none_or(|seen| *seen < self.version(entry)))
            .map(|(key, entry)| (*key, *entry))
            .collect()
    }

    /// The address of record of a binding that was removed.
    pub(super) fn removed_address(&self, place: Place) -> Option<&[u8]> {
        self.removed.get(&place).map(|address| &**address)
    }

    /// Drops the entries of a bucket that are of no use any more at `now` (Unix seconds).
    pub(super) fn forget(&mut self, bucket: u16, now: u32) {
        let longest = self.longest;
        let Some(entries) = self.buckets.get_mut(usize::from(bucket)) else {
            return;
        };
        let before = entries.len();
        let removed = &mut self.removed;
        entries.retain(|key, entry| {
            let written = u32::try_from(entry.time.millis() / 1_000).unwrap_or(u32::MAX);
            let last_use = entry.expires_at.max(written.saturating_add(longest));
            let keeps = last_use.saturating_add(GRACE) > now;
            if !keeps && entry.is_removed() {
                removed.remove(&(bucket, *key));
            }
            keeps
        });
        self.entries -= before - entries.len();
    }

    /// The number of entries.
    pub(super) const fn len(&self) -> usize {
        self.entries
    }

    /// About how much memory the entries take, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.entries * ENTRY_BYTES
    }
}

/// The names of instances, each stored once.
#[derive(Debug)]
struct Writers {
    names: Vec<(WriterId, Box<str>)>,
    numbers: HashMap<WriterId, u16>,
}

impl Writers {
    fn new(own: &str) -> Self {
        let mut writers = Self {
            names: Vec::new(),
            numbers: HashMap::new(),
        };
        writers.number(own);
        writers
    }

    fn number(&mut self, name: &str) -> Option<u16> {
        let id = WriterId::of(name);
        if let Some(number) = self.numbers.get(&id) {
            return Some(*number);
        }
        if self.names.len() >= MOST_WRITERS {
            return None;
        }
        let number = u16::try_from(self.names.len()).ok()?;
        self.names.push((id, name.into()));
        self.numbers.insert(id, number);
        Some(number)
    }

    fn id(&self, number: u16) -> WriterId {
        let found = self.names.get(usize::from(number));
        found.map(|(id, _)| *id).unwrap_or_default()
    }

    fn name(&self, number: u16) -> &str {
        let found = self.names.get(usize::from(number));
        found.map_or("", |(_, name)| name)
    }
}
