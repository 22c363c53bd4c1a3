//! A limit with a name: of all calls, of a network, of a rule.

use super::calls::NotEntered;
use super::meter::{Entered, Meter, Place};
use super::{Bounds, Excess, Scope};
use sip_transport::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A limit with a name. Its live calls, bucket and counts belong to the name and outlive a configuration.
#[derive(Debug)]
pub struct Limit {
    name: Box<str>,
    scope: Scope,
    bounds: Bounds,
    meter: Arc<Meter>,
    counts: Arc<Counts>,
}

/// What a limit has counted, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Counts {
    admitted: AtomicU64,
    refused_by_rate: AtomicU64,
    refused_by_calls: AtomicU64,
    highest: AtomicU32,
}

/// What a limit allows and has counted since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitStats<'l> {
    /// The name of the limit.
    pub name: &'l str,
    /// What the limit applies to.
    pub scope: Scope,
    /// What the limit allows.
    pub bounds: Bounds,
    /// Calls that are live. More than the maximum if it was lowered or if calls were restored.
    pub live: u32,
    /// The most calls that were live at the same time.
    pub highest: u32,
    /// New calls that this limit and all others admitted. Restored calls are not included.
    pub admitted: u64,
    /// New calls that exceeded the rate.
    pub refused_by_rate: u64,
    /// New calls that exceeded the number of calls at the same time.
    pub refused_by_calls: u64,
}

impl Limit {
    /// Creates a limit that takes over the live calls, bucket and counts of `previous`.
    pub(super) fn new(scope: Scope, name: &str, bounds: Bounds, previous: Option<&Self>) -> Self {
        Self {
            name: name.into(),
            scope,
            bounds,
            meter: previous.map_or_else(Arc::default, |limit| Arc::clone(&limit.meter)),
            counts: previous.map_or_else(Arc::default, |limit| Arc::clone(&limit.counts)),
        }
    }

    /// The name of the limit.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the limit applies to.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// What the limit allows.
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Takes a place for a new call and charges it.
    pub(super) fn enter(&self, now: Time) -> Result<Entered, Excess> {
        let entered = self.meter.enter(self.bounds.most());
        // A meter with a name is never retired, so it is full.
        let entered = entered.map_err(|_: NotEntered| Excess::Calls);
        let charged = entered.and_then(|entered| {
            entered.place.charge(&self.bounds, now)?;
            Ok(entered)
        });
        charged.inspect_err(|excess| self.counts.refused(*excess))
    }

    /// Charges something other than a call, such as a REGISTER, against the rate alone.
    pub fn charge(&self, now: Time) -> Result<(), Excess> {
        let Ok(entered) = self.meter.enter(u32::MAX) else {
            return Ok(());
        };
        let charged = entered.place.charge(&self.bounds, now);
        charged.inspect_err(|excess| self.counts.refused(*excess))
    }

    /// Takes a place for a call that is live already, whatever the maximum is. New calls wait until there are fewer again.
    pub(super) fn restore(&self) -> Option<Place> {
        let entered = self.meter.enter(u32::MAX).ok()?;
        self.counts.reached(entered.live);
        Some(entered.place)
    }

    /// Moves the place of a live call here, unless it is here.
    pub(super) fn recount(&self, place: &mut Option<Place>) {
        let is_here = |place: &Place| Arc::ptr_eq(place.meter(), &self.meter);
        if !place.as_ref().is_some_and(is_here) {
            *place = self.restore();
        }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Reads the counts.
    pub fn stats(&self) -> LimitStats<'_> {
        LimitStats {
            name: &self.name,
            scope: self.scope,
            bounds: self.bounds,
            live: self.meter.live(),
            highest: self.counts.highest(),
            admitted: self.counts.admitted.load(Ordering::Relaxed),
            refused_by_rate: self.counts.refused_by_rate(),
            refused_by_calls: self.counts.refused_by_calls(),
        }
    }
}

impl Counts {
    pub(super) fn admitted(&self) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, excess: Excess) {
        let count = match excess {
            Excess::Rate => &self.refused_by_rate,
            Excess::Calls => &self.refused_by_calls,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many calls were live.
    pub(super) fn reached(&self, live: u32) {
        if live > self.highest.load(Ordering::Relaxed) {
            self.highest.fetch_max(live, Ordering::Relaxed);
        }
    }

    pub(super) fn highest(&self) -> u32 {
        self.highest.load(Ordering::Relaxed)
    }

    pub(super) fn refused_by_rate(&self) -> u64 {
        self.refused_by_rate.load(Ordering::Relaxed)
    }

    pub(super) fn refused_by_calls(&self) -> u64 {
        self.refused_by_calls.load(Ordering::Relaxed)
    }
}
