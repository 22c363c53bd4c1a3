//! Counts the failures of each source within a time window.

use super::Source;
use super::order::Order;
use sip_transport::Time;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The failure counts by source.
#[derive(Debug)]
pub(super) struct Strikes {
    sources: papaya::HashMap<Source, Window>,
    order: Order<Source>,
    known: AtomicUsize,
    evicted: AtomicU64,
}

#[derive(Debug)]
struct Window {
    /// In microseconds.
    began: AtomicU64,
    failures: AtomicU32,
}

impl Strikes {
    /// Creates a table for `most` sources. When it is full, a new source evicts the oldest one.
    pub(super) fn new(most: usize) -> Self {
        Self {
            sources: papaya::HashMap::new(),
            order: Order::new(most),
            known: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// Counts a failure. Returns its number within the window, from 1.
    pub(super) fn count(&self, source: Source, window: Duration, now: Time) -> u32 {
        let sources = self.sources.pin();
        let entry = sources.get(&source).unwrap_or_else(|| {
            self.order.enter(source, |oldest| {
                if self.remove(oldest) {
                    self.evicted.fetch_add(1, Ordering::Relaxed);
                }
            });
            sources.get_or_insert_with(source, || {
                self.known.fetch_add(1, Ordering::Relaxed);
                Window {
                    began: AtomicU64::new(now.as_micros()),
                    failures: AtomicU32::new(0),
                }
            })
        });
        let began = entry.began.load(Ordering::Relaxed);
        if Time::from_micros(began) + window <= now
            && entry
                .began
                .compare_exchange(began, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            entry.failures.store(0, Ordering::Relaxed);
        }
        entry.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn forget(&self, source: Source) {
        self.remove(source);
    }

    fn remove(&self, source: Source) -> bool {
        let removed = self.sources.pin().remove(&source).is_some();
        if removed {
            self.known.fetch_sub(1, Ordering::Relaxed);
        }
        removed
    }

    /// The number of sources that were evicted.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Removes sources whose window has ended.
    pub(super) fn sweep(&self, window: Duration, now: Time) {
        let is_over =
            |entry: &Window| Time::from_micros(entry.began.load(Ordering::Relaxed)) + window <= now;
        let sources = self.sources.pin();
        for (source, _) in &sources {
            if let Ok(Some(_)) = sources.remove_if(source, |_, entry| is_over(entry)) {
                self.known.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The number of sources with failures.
    pub(super) fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Time {
        Time::from_unix_seconds(1_000 + seconds)
    }

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    #[test]
    fn failures_count_within_a_window_and_each_source_for_itself() {
        let strikes = Strikes::new(2);
        assert_eq!(strikes.count(source(1), WINDOW, at(0)), 1);
        assert_eq!(strikes.count(source(1), WINDOW, at(59)), 2);
        assert_eq!(strikes.count(source(2), WINDOW, at(59)), 1);
        assert_eq!(strikes.count(source(1), WINDOW, at(60)), 1);
        strikes.sweep(WINDOW, at(119));
        assert_eq!(strikes.len(), 1);
        strikes.forget(source(1));
        strikes.forget(source(1));
        assert_eq!(strikes.len(), 0);
    }

    #[test]
    fn the_oldest_source_makes_room() {
        let strikes = Strikes::new(2);
        for last in [1, 2, 2, 3] {
            strikes.count(source(last), WINDOW, at(0));
        }
        assert_eq!((strikes.len(), strikes.evicted()), (2, 1));
        assert_eq!(strikes.count(source(2), WINDOW, at(1)), 3);
        assert_eq!(strikes.count(source(3), WINDOW, at(1)), 2);
        assert_eq!(strikes.count(source(1), WINDOW, at(1)), 1);
    }
}
