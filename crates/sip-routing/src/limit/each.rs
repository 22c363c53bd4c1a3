//! A limit that applies to each key of a kind: to each source address, to each subscriber.

use super::meter::Entered;
use super::single::Counts;
use super::table::Table;
use super::{Bounds, Excess, Place, Scope};
use sip_transport::Time;
use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

/// The same bounds for each key. The table and the counts outlive a configuration.
#[derive(Debug)]
pub(super) struct Each<K> {
    scope: Scope,
    bounds: Bounds,
    max_keys: usize,
    table: Arc<Table<K>>,
    counts: Arc<Counts>,
}

/// What the limit of each source address or each subscriber allows and has counted since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EachStats {
    /// What the limit applies to.
    pub scope: Scope,
    /// What the limit allows each key.
    pub bounds: Bounds,
    /// The maximum number of keys with counts of their own.
    pub max_keys: usize,
    /// Keys that have live calls, or had new ones recently.
    pub keys: usize,
    /// The most calls of one key that were live at the same time.
    pub highest: u32,
    /// New calls that exceeded the rate of their key.
    pub refused_by_rate: u64,
    /// New calls that exceeded the number of calls of their key.
    pub refused_by_calls: u64,
    /// Calls that shared a limit with others, because the table was full.
    pub overflowed: u64,
}

impl<K: Hash + Eq> Each<K> {
    pub(super) fn new(
        scope: Scope,
        bounds: Bounds,
        max_keys: usize,
        previous: Option<&Self>,
    ) -> Self {
        Self {
            scope,
            bounds,
            max_keys,
            table: previous.map_or_else(Arc::default, |each| Arc::clone(&each.table)),
            counts: previous.map_or_else(Arc::default, |each| Arc::clone(&each.counts)),
        }
    }

    pub(super) const fn scope(&self) -> Scope {
        self.scope
    }

    pub(super) const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Takes a place for a new call of `key` and charges it. A limit of 0 adds no key.
    pub(super) fn enter<Q>(&self, key: &Q, now: Time) -> Result<Entered, Excess>
    where
        K: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entered = self.bounds.closed().map_or(Ok(()), Err).and_then(|()| {
            let entered = self.table.enter(key, self.bounds.most(), self.max_keys);
            let entered = entered.ok_or(Excess::Calls)?;
            entered.place.charge(&self.bounds, now)?;
            Ok(entered)
        });
        entered.inspect_err(|excess| self.counts.refused(*excess))
    }

    /// Takes a place for a call that is live already, whatever the maximum is.
    pub(super) fn restore<Q>(&self, key: &Q) -> Option<Place>
    where
        K: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        let entered = self.table.enter(key, u32::MAX, self.max_keys)?;
        self.counts.reached(entered.live);
        Some(entered.place)
    }

    /// Moves the place of a live call to `key`, unless it is there.
    pub(super) fn recount<Q>(&self, key: &Q, place: &mut Option<Place>)
    where
        K: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        let is_there = |place: &Place| self.table.is_of(key, place.meter());
        if !place.as_ref().is_some_and(is_there) {
            *place = self.restore(key);
        }
    }

    pub(super) fn sweep(&self, now: Time, budget: usize) -> (usize, usize) {
        self.table.sweep(&self.bounds, now, budget)
    }

    pub(super) fn table(&self) -> &Table<K> {
        &self.table
    }

    pub(super) fn stats(&self) -> EachStats {
        EachStats {
            scope: self.scope,
            bounds: self.bounds,
            max_keys: self.max_keys,
            keys: self.table.len(),
            highest: self.counts.highest(),
            refused_by_rate: self.counts.refused_by_rate(),
            refused_by_calls: self.counts.refused_by_calls(),
            overflowed: self.table.overflowed(),
        }
    }
}
