//! The data plane's copy of credentials: a bounded cache in front of the store, read without a lock.
//!
//! Subscribers and recent answers of the store are kept apart, so that a scan of random names cannot evict subscribers.
//! Each kind has two generations. When the young one holds half of the capacity, the old one is dropped and the young one
//! becomes the old. So the most recent half is always there, and eviction costs nothing on the call path.
//!
//! Before you ask the store, take an [`Asking`]. Pass it in with the answer. If the subscriber was invalidated in
//! between, the answer may be outdated and is not kept.

use super::StoredCredentials;
use crate::location::{
    AddressHasher, AddressKey, AddressMap, address_map, make_room, unix_seconds,
};
use sip_transport::Time;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The number of counters that the changes of all subscribers share. If two subscribers share one, a change of one costs
/// the other a second question, but only while an answer is on its way.
const COUNTED_TOGETHER: usize = u8::MAX as usize + 1;

/// What the cache knows about a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// The subscriber exists.
    Known(StoredCredentials),
    /// The subscriber is known not to exist.
    Unknown,
    /// Not known: ask the control plane.
    NotCached,
}

/// A concurrent, bounded cache of credentials, keyed by `user@domain`. Entries expire after a lifetime.
#[derive(Debug)]
pub struct CredentialCache {
    known: Generations<StoredCredentials>,
    /// Names that the store was asked for recently, and whether the subscriber exists.
    asked: Generations<bool>,
    hasher: AddressHasher,
    lifetime: u32,
    unknown_lifetime: u32,
    /// How often subscribers were invalidated, by the hash of their key.
    forgotten: Box<[AtomicU64; COUNTED_TOGETHER]>,
}

/// A question for the store that is about to be asked. See [`CredentialCache::asking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    key: AddressKey,
    forgotten: u64,
}

impl CredentialCache {
    /// Creates a cache of `capacity` subscribers, and an eighth as many names that the store was asked for recently.
    ///
    /// When there are more, at least the most recent half of each kind stays. Subscribers expire after `lifetime`
    /// seconds, answers of the store after `unknown_lifetime` seconds.
    pub fn new(capacity: usize, lifetime: u32, unknown_lifetime: u32) -> Self {
        Self::with_hasher(
            AddressHasher::random(),
            capacity,
            lifetime,
            unknown_lifetime,
        )
    }

    /// Like [`CredentialCache::new`], but the caller provides the secret of the hashes. Then two runs behave alike.
    pub fn with_secret(
        secret: (u64, u64),
        capacity: usize,
        lifetime: u32,
        unknown_lifetime: u32,
    ) -> Self {
        Self::with_hasher(
            AddressHasher::new(secret),
            capacity,
            lifetime,
            unknown_lifetime,
        )
    }

    fn with_hasher(
        hasher: AddressHasher,
        capacity: usize,
        lifetime: u32,
        unknown_lifetime: u32,
    ) -> Self {
        Self {
            known: Generations::new(capacity),
            asked: Generations::new(capacity / 8),
            hasher,
            lifetime,
            unknown_lifetime,
            forgotten: Box::new(std::array::from_fn(|_| AtomicU64::default())),
        }
    }

    /// Looks up a subscriber.
    pub fn find(&self, username: &[u8], domain: &[u8], now: Time) -> Cached {
        let key = self.hasher.key_of_user(username, domain);
        let now = unix_seconds(now);
        if let Some(credentials) = self.known.find(key, now) {
            return Cached::Known(credentials);
        }
        match self.asked.find(key, now) {
            Some(false) => Cached::Unknown,
            Some(true) | None => Cached::NotCached,
        }
    }

    /// Reports that credentials of a known subscriber have failed.
    ///
    /// The first time, and again after `unknown_lifetime`, this ends the entry's lifetime and returns true: ask the store.
    /// So a wrong password costs the store as many questions, and the sender as much time, as an unknown name. A password
    /// that was just changed also takes effect at once.
    pub fn doubt(&self, username: &[u8], domain: &[u8], now: Time) -> bool {
        let key = self.hasher.key_of_user(username, domain);
        let is_first = self.asked.find(key, unix_seconds(now)).is_none();
        if is_first {
            // Not removed: a wrong password must not shut a subscriber out while the store is away.
            self.known.expire(key);
        }
        is_first
    }

    /// Call this when the store can't be asked. A subscriber whose lifetime has passed, or that was doubted, is then good for another
    /// `unknown_lifetime`. Returns the credentials; `None`: the cache has none.
    pub fn revive(&self, username: &[u8], domain: &[u8], now: Time) -> Option<StoredCredentials> {
        let asking = self.asking(username, domain);
        let credentials = self.known.find(asking.key, 0)?;
        let good_until = unix_seconds(now).saturating_add(self.unknown_lifetime);
        self.known.insert(asking.key, credentials, good_until);
        self.note_asked(asking.key, true, now);
        self.keep_if_current(asking).then_some(credentials)
    }

    /// Stores a subscriber without a preceding question. `None`: the subscriber does not exist.
    pub fn insert(
        &self,
        username: &[u8],
        domain: &[u8],
        credentials: Option<StoredCredentials>,
        now: Time,
    ) {
        self.put(self.hasher.key_of_user(username, domain), credentials, now);
    }

    /// Call this before you ask the store for a subscriber. Pass the result to [`CredentialCache::answered`] together
    /// with the answer.
    pub fn asking(&self, username: &[u8], domain: &[u8]) -> Asking {
        let key = self.hasher.key_of_user(username, domain);
        Asking {
            key,
            forgotten: self.times_forgotten(key).load(Ordering::SeqCst),
        }
    }

    /// Stores the answer of the store like [`CredentialCache::insert`] and returns true. If the subscriber was
    /// invalidated since the question, it keeps nothing and returns false: the answer may be from before the change.
    pub fn answered(
        &self,
        asking: Asking,
        credentials: Option<StoredCredentials>,
        now: Time,
    ) -> bool {
        if !self.is_current(asking) {
            return false;
        }
        self.put(asking.key, credentials, now);
        if credentials.is_some() {
            self.note_asked(asking.key, true, now);
        }
        self.keep_if_current(asking)
    }

    /// Whether the subscriber was not invalidated since the question.
    fn is_current(&self, asking: Asking) -> bool {
        self.times_forgotten(asking.key).load(Ordering::SeqCst) == asking.forgotten
    }

    /// Removes a new entry if the subscriber was invalidated since the question. Returns whether it stays.
    ///
    /// Invalidation first counts and then removes. So it either removes the new entry, or its count is visible here.
    fn keep_if_current(&self, asking: Asking) -> bool {
        let is_kept = self.is_current(asking);
        if !is_kept {
            self.remove(asking.key);
        }
        is_kept
    }

    fn put(&self, key: AddressKey, credentials: Option<StoredCredentials>, now: Time) {
        if let Some(credentials) = credentials {
            let good_until = unix_seconds(now).saturating_add(self.lifetime);
            self.known.insert(key, credentials, good_until);
            self.asked.remove(key);
        } else {
            self.note_asked(key, false, now);
            self.known.remove(key);
        }
    }

    fn note_asked(&self, key: AddressKey, exists: bool, now: Time) {
        let good_until = unix_seconds(now).saturating_add(self.unknown_lifetime);
        self.asked.insert(key, exists, good_until);
    }

    /// Forgets one subscriber, after its password changed or it was removed.
    pub fn invalidate(&self, username: &[u8], domain: &[u8]) {
        let key = self.hasher.key_of_user(username, domain);
        self.times_forgotten(key).fetch_add(1, Ordering::SeqCst);
        self.remove(key);
    }

    /// Forgets all entries.
    pub fn clear(&self) {
        for times in &*self.forgotten {
            times.fetch_add(1, Ordering::SeqCst);
        }
        self.known.clear();
        self.asked.clear();
    }

    fn remove(&self, key: AddressKey) {
        self.known.remove(key);
        self.asked.remove(key);
    }

    /// The counter that a key uses.
    fn times_forgotten(&self, key: AddressKey) -> &AtomicU64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let [place, ..] = hasher.finish().to_le_bytes();
        &self.forgotten[usize::from(place)]
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.known.len() + self.asked.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The end of the lifetime of an entry that is no longer good. Later than 0, the time at which [`CredentialCache::revive`] looks.
const EXPIRED: u32 = 1;

#[derive(Clone, Copy, Debug)]
struct Entry<V> {
    value: V,
    /// In Unix seconds.
    good_until: u32,
}

/// Two maps, a young and an old one.
#[derive(Debug)]
struct Generations<V> {
    maps: [AddressMap<Entry<V>>; 2],
    /// The index of the young map.
    young: AtomicUsize,
    /// Whether a thread is switching the generations.
    turning: AtomicBool,
    /// The capacity of each map.
    half: usize,
}

impl<V: Copy> Generations<V> {
    fn new(capacity: usize) -> Self {
        Self {
            maps: [address_map(), address_map()],
            young: AtomicUsize::new(0),
            turning: AtomicBool::new(false),
            half: (capacity / 2).max(1),
        }
    }

    /// The young map and the old one.
    fn by_age(&self) -> (&AddressMap<Entry<V>>, &AddressMap<Entry<V>>) {
        let [first, second] = &self.maps;
        if self.young.load(Ordering::Acquire) == 0 {
            (first, second)
        } else {
            (second, first)
        }
    }

    fn find(&self, key: AddressKey, now: u32) -> Option<V> {
        let (young, old) = self.by_age();
        let find = |map: &AddressMap<Entry<V>>| map.pin().get(&key).copied();
        find(young)
            .or_else(|| find(old))
            .filter(|entry| entry.good_until > now)
            .map(|entry| entry.value)
    }

    fn insert(&self, key: AddressKey, value: V, good_until: u32) {
        let (young, _) = self.by_age();
        if young.len() >= self.half && young.pin().get(&key).is_none() {
            self.turn();
        }
        let (young, old) = self.by_age();
        young.pin().insert(key, Entry { value, good_until });
        make_room(young);
        old.pin().remove(&key);
    }

    /// Drops the old generation. If another thread already does this, the caller continues without waiting.
    fn turn(&self) {
        if self.turning.swap(true, Ordering::Acquire) {
            return;
        }
        let (young, old) = self.by_age();
        if young.len() >= self.half {
            old.pin().clear();
            let _young_before = self.young.fetch_xor(1, Ordering::AcqRel);
        }
        self.turning.store(false, Ordering::Release);
    }

    fn remove(&self, key: AddressKey) {
        for map in &self.maps {
            map.pin().remove(&key);
        }
    }

    /// Ends the lifetime of an entry, but keeps it.
    fn expire(&self, key: AddressKey) {
        for map in &self.maps {
            map.pin().update(key, |entry| Entry {
                good_until: EXPIRED,
                ..*entry
            });
        }
    }

    fn clear(&self) {
        for map in &self.maps {
            map.pin().clear();
        }
    }

    fn len(&self) -> usize {
        self.maps.iter().map(papaya::HashMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix_seconds(1_000_000);

    fn later(seconds: u64) -> Time {
        Time::from_unix_seconds(1_000_000 + seconds)
    }

    fn credentials(byte: u8) -> StoredCredentials {
        StoredCredentials {
            ha1_md5: [byte; 16],
            ha1_sha256: [byte; 32],
        }
    }

    fn cache(capacity: usize) -> CredentialCache {
        CredentialCache::with_secret((1, 2), capacity, 300, 10)
    }

    #[test]
    fn an_entry_is_good_for_its_lifetime() {
        let cache = cache(100);
        assert_eq!(cache.find(b"alice", b"example.org", NOW), Cached::NotCached);
        cache.insert(b"alice", b"example.org", Some(credentials(1)), NOW);
        cache.insert(b"nobody", b"example.org", None, NOW);
        assert_eq!(
            cache.find(b"alice", b"example.org", later(299)),
            Cached::Known(credentials(1))
        );
        assert_eq!(
            cache.find(b"alice", b"example.org", later(300)),
            Cached::NotCached
        );
        assert_eq!(cache.find(b"alice", b"example.net", NOW), Cached::NotCached);
        assert_eq!(
            cache.find(b"nobody", b"example.org", later(9)),
            Cached::Unknown
        );
        assert_eq!(
            cache.find(b"nobody", b"example.org", later(10)),
            Cached::NotCached
        );
    }

    #[test]
    fn what_has_expired_or_was_doubted_is_revived_while_the_store_is_away() {
        let cache = cache(100);
        cache.insert(b"alice", b"example.org", Some(credentials(1)), NOW);
        assert!(cache.doubt(b"alice", b"example.org", NOW));
        for now in [NOW, later(5_000)] {
            assert_eq!(cache.find(b"alice", b"example.org", now), Cached::NotCached);
            let revived = cache.revive(b"alice", b"example.org", now);
            assert_eq!(revived, Some(credentials(1)));
            let found = cache.find(b"alice", b"example.org", now);
            assert_eq!(found, Cached::Known(credentials(1)));
            assert!(!cache.doubt(b"alice", b"example.org", now), "just asked");
        }
        let end = later(5_010);
        assert_eq!(cache.find(b"alice", b"example.org", end), Cached::NotCached);
        cache.invalidate(b"alice", b"example.org");
        assert_eq!(cache.revive(b"alice", b"example.org", end), None);
    }

    #[test]
    fn the_last_answer_of_the_store_counts() {
        let cache = cache(100);
        cache.insert(b"alice", b"example.org", Some(credentials(1)), NOW);
        cache.insert(b"alice", b"example.org", Some(credentials(2)), NOW);
        assert_eq!(
            cache.find(b"alice", b"example.org", NOW),
            Cached::Known(credentials(2))
        );
        cache.insert(b"alice", b"example.org", None, NOW);
        assert_eq!(cache.find(b"alice", b"example.org", NOW), Cached::Unknown);
        cache.insert(b"alice", b"example.org", Some(credentials(3)), NOW);
        assert_eq!(
            cache.find(b"alice", b"example.org", NOW),
            Cached::Known(credentials(3))
        );
        assert_eq!(cache.len(), 1);
        cache.invalidate(b"alice", b"example.org");
        assert_eq!(cache.find(b"alice", b"example.org", NOW), Cached::NotCached);
        assert!(cache.is_empty());
    }

    #[test]
    fn an_answer_from_before_a_change_is_not_kept() {
        let changes: [fn(&CredentialCache); 2] = [
            |cache| cache.invalidate(b"alice", b"example.org"),
            CredentialCache::clear,
        ];
        for change in changes {
            let cache = cache(100);
            let (late, in_time) = (Some(credentials(1)), Some(credentials(2)));
            let asking = cache.asking(b"alice", b"example.org");
            change(&cache);
            for answer in [late, None] {
                assert!(!cache.answered(asking, answer, NOW));
                assert_eq!(cache.find(b"alice", b"example.org", NOW), Cached::NotCached);
            }
            let asking_again = cache.asking(b"alice", b"example.org");
            assert!(cache.answered(asking_again, in_time, NOW));
            assert!(!cache.answered(asking, late, NOW));
            assert_eq!(
                cache.find(b"alice", b"example.org", NOW),
                Cached::Known(credentials(2))
            );
        }
    }

    #[test]
    fn a_change_and_a_late_answer_at_once_leave_nothing_old() {
        const ROUNDS: usize = 100_000;
        let until = |reached: &AtomicUsize, round| {
            while reached.load(Ordering::Acquire) < round {
                std::thread::yield_now();
            }
        };
        let cache = cache(100);
        let (asked, answered, looked): (AtomicUsize, AtomicUsize, AtomicUsize) = Default::default();
        let mut kept = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    let asking = cache.asking(b"alice", b"example.org");
                    asked.store(round, Ordering::Release);
                    cache.answered(asking, Some(credentials(1)), NOW);
                    answered.store(round, Ordering::Release);
                    until(&looked, round);
                }
            });
            for round in 1..=ROUNDS {
                until(&asked, round);
                // Invalidate at a different moment of the other thread in each round.
                for _ in 0..round % 64 {
                    std::hint::spin_loop();
                }
                cache.invalidate(b"alice", b"example.org");
                until(&answered, round);
                kept += cache.len();
                looked.store(round, Ordering::Release);
            }
        });
        assert_eq!(kept, 0);
    }

    #[test]
    fn it_never_holds_more_than_its_capacity_and_keeps_the_latest_half() {
        let cache = cache(100);
        for number in 0..1000_u32 {
            cache.insert(
                number.to_string().as_bytes(),
                b"x",
                Some(credentials(1)),
                NOW,
            );
            assert!(cache.len() <= 100, "{} entries", cache.len());
            for latest in number.saturating_sub(49)..=number {
                let found = cache.find(latest.to_string().as_bytes(), b"x", NOW);
                assert_eq!(
                    found,
                    Cached::Known(credentials(1)),
                    "{latest} after {number}"
                );
            }
        }
    }

    #[test]
    fn an_entry_that_is_renewed_is_there_once() {
        let cache = cache(4);
        for (name, entries) in [(b"a", 1), (b"b", 2), (b"c", 3), (b"a", 3), (b"a", 3)] {
            cache.insert(name, b"x", Some(credentials(1)), NOW);
            assert_eq!(cache.len(), entries);
        }
    }

    #[test]
    fn a_scan_of_random_names_pushes_no_subscriber_out() {
        let cache = cache(100);
        for number in 0..50_u32 {
            cache.insert(
                number.to_string().as_bytes(),
                b"x",
                Some(credentials(1)),
                NOW,
            );
        }
        for number in 0..10_000_u32 {
            cache.insert(format!("scan{number}").as_bytes(), b"x", None, NOW);
        }
        for number in 0..50_u32 {
            let found = cache.find(number.to_string().as_bytes(), b"x", NOW);
            assert_eq!(found, Cached::Known(credentials(1)));
        }
        assert!(cache.len() <= 50 + 100 / 8, "{} entries", cache.len());
    }
}
