//! A bounded table of meters by key. The call path reads it without a lock; the control plane sweeps it.
//!
//! An absent key is the same as one without live calls and with a full bucket. So a sweep removes such meters, and the next call of
//! the key gets a new one. A sweep first retires the meter and then removes it. A call that meets a retired meter replaces it,
//! so neither waits for the other. [`Calls::retire_if`](super::calls::Calls::retire_if) says why no call is forgotten.
//!
//! **A full table.** A new key then uses one of [`SHARED`] spare meters, selected by a keyed hash, together with other such keys. Each
//! spare meter has the bounds of a single key. So an attacker who fills the table from many addresses shuts out no known key, and
//! all of his further addresses together get no more than `SHARED` keys would. The hash has a secret, so he cannot choose the
//! new keys that he gets in the way of. A key that gets a meter of its own later starts with a full bucket there.

use super::Bounds;
use super::calls::NotEntered;
use super::meter::{Entered, Meter};
use papaya::{Compute, Operation};
use sip_transport::Time;
use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Meters for the keys that do not fit, 32 bytes each.
pub(super) const SHARED: usize = 256;

pub(super) struct Table<K> {
    meters: papaya::HashMap<K, Arc<Meter>, RandomState>,
    /// Meters in the table, and places reserved for meters that are being added.
    occupied: AtomicUsize,
    shared: Box<[Arc<Meter>]>,
    /// Calls that used a shared meter.
    overflowed: AtomicU64,
    hasher: RandomState,
    /// How many meters the next sweep skips.
    swept_until: AtomicUsize,
}

impl<K: Hash + Eq> Default for Table<K> {
    fn default() -> Self {
        let hasher = RandomState::new();
        Self {
            meters: papaya::HashMap::with_hasher(hasher.clone()),
            occupied: AtomicUsize::new(0),
            shared: (0..SHARED).map(|_| Arc::default()).collect(),
            overflowed: AtomicU64::new(0),
            hasher,
            swept_until: AtomicUsize::new(0),
        }
    }
}

impl<K: Hash + Eq> Table<K> {
    /// Takes a place for a call of `key` if less than `maximum`, which is above 0, are live. The table holds up to `max_keys` meters.
    pub(super) fn enter<Q>(&self, key: &Q, maximum: u32, max_keys: usize) -> Option<Entered>
    where
        K: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        let meters = self.meters.pin();
        let known = meters.get(key).map(|meter| meter.enter(maximum));
        match known {
            Some(Ok(entered)) => Some(entered),
            Some(Err(NotEntered::Full)) => None,
            Some(Err(NotEntered::Retired)) | None => self.enter_new(key, maximum, max_keys),
        }
    }

    /// Adds a meter that has one live call, in place of a retired one if there is one.
    #[cold]
    fn enter_new<Q>(&self, key: &Q, maximum: u32, max_keys: usize) -> Option<Entered>
    where
        K: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        let meters = self.meters.pin();
        while self.reserve(max_keys) {
            let entered = Meter::entered();
            let added = meters.compute(K::from(key), |entry| match entry {
                Some((_, meter)) if !meter.is_retired() => Operation::Abort(meter),
                _ => Operation::Insert(Arc::clone(entered.place.meter())),
            });
            match added {
                Compute::Inserted(..) => return Some(entered),
                Compute::Aborted(meter) => {
                    self.release();
                    match meter.enter(maximum) {
                        Ok(entered) => return Some(entered),
                        Err(NotEntered::Full) => return None,
                        Err(NotEntered::Retired) => {}
                    }
                }
                Compute::Updated { .. } | Compute::Removed(..) => {
                    self.release();
                    return Some(entered);
                }
            }
        }
        self.overflowed.fetch_add(1, Ordering::Relaxed);
        self.shared_meter(key)?.enter(maximum).ok()
    }

    fn shared_meter<Q: Hash + ?Sized>(&self, key: &Q) -> Option<&Arc<Meter>> {
        let place = self.hasher.hash_one(key) >> 32;
        self.shared.get(place as usize % SHARED)
    }

    fn reserve(&self, max_keys: usize) -> bool {
        let fits = self.occupied.fetch_add(1, Ordering::Relaxed) < max_keys;
        if !fits {
            self.release();
        }
        fits
    }

    fn release(&self) {
        self.occupied.fetch_sub(1, Ordering::Relaxed);
    }

    /// Examines up to `budget` meters, beginning where the last sweep ended, and removes the idle ones. Reserves room for a quarter more,
    /// so that the map does not grow on the call path. Returns how many meters it examined and removed.
    pub(super) fn sweep(&self, bounds: &Bounds, now: Time, budget: usize) -> (usize, usize) {
        let meters = self.meters.pin();
        meters.reserve(meters.len() / 4);
        let skipped = self.swept_until.load(Ordering::Relaxed);
        let (mut examined, mut removed) = (0, 0);
        for (key, meter) in meters.iter().skip(skipped).take(budget) {
            examined += 1;
            if meter.retire_if_idle(bounds, now) {
                // A call may have replaced the meter in the meantime.
                let swept = meters.remove_if(key, |_, present| Arc::ptr_eq(present, meter));
                if matches!(swept, Ok(Some(_))) {
                    self.release();
                    removed += 1;
                }
            }
        }
        let is_at_end = examined < budget;
        let next = if is_at_end {
            0
        } else {
            skipped + examined - removed
        };
        self.swept_until.store(next, Ordering::Relaxed);
        (examined, removed)
    }

    /// Whether a call of `key` would use this meter.
    pub(super) fn is_of<Q>(&self, key: &Q, meter: &Arc<Meter>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_same = |known: &Arc<Meter>| Arc::ptr_eq(known, meter);
        let meters = self.meters.pin();
        meters.get(key).is_some_and(is_same) || self.shared_meter(key).is_some_and(is_same)
    }

    /// Live calls of a key that has a meter of its own.
    pub(super) fn live<Q>(&self, key: &Q) -> u32
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let meters = self.meters.pin();
        meters.get(key).map_or(0, |meter| meter.live())
    }

    /// Calls `visit` with each key and its live calls.
    pub(super) fn for_each(&self, mut visit: impl FnMut(&K, u32)) {
        for (key, meter) in &self.meters.pin() {
            visit(key, meter.live());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.occupied.load(Ordering::Relaxed)
    }

    /// How many calls used a shared meter.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

impl<K> fmt::Debug for Table<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = formatter.debug_struct("Table");
        table.field("occupied", &self.occupied);
        table.finish_non_exhaustive() // The secret of the hashes stays out of logs.
    }
}
