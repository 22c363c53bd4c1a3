//! Counters and gauges of a worker. Only the worker writes them; any thread may read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with a single writer, so adding needs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.set(self.value().wrapping_add(count));
    }

    /// Sets the value, for a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
