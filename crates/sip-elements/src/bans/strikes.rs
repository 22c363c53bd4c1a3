//! Failures of each source within a window of time.

use super::Source;
use sip_transport::Time;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Failures by source.
#[derive(Debug)]
pub(super) struct Strikes {
    sources: papaya::HashMap<Source, Window>,
    most: usize,
    known: AtomicUsize,
}

#[derive(Debug)]
struct Window {
    /// In microseconds.
    began: AtomicU64,
    failures: AtomicU32,
}

impl Strikes {
    /// Counts for so many sources at a time.
    pub(super) fn new(most: usize) -> Self {
        Self {
            sources: papaya::HashMap::new(),
            most,
            known: AtomicUsize::new(0),
        }
    }

    /// Counts a failure. Returns which one of its window it is, from 1; `None`: there was no room to count it.
    pub(super) fn count(&self, source: Source, window: Duration, now: Time) -> Option<u32> {
        let sources = self.sources.pin();
        let entry = match sources.get(&source) {
            Some(entry) => entry,
            None if self.known.load(Ordering::Relaxed) >= self.most => return None,
            None => sources.get_or_insert_with(source, || {
                self.known.fetch_add(1, Ordering::Relaxed);
                Window {
                    began: AtomicU64::new(now.as_micros()),
                    failures: AtomicU32::new(0),
                }
            }),
        };
        let began = entry.began.load(Ordering::Relaxed);
        if Time::from_micros(began) + window <= now
            && entry
                .began
                .compare_exchange(began, now.as_micros(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            entry.failures.store(0, Ordering::Relaxed);
        }
        Some(entry.failures.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Forgets a source.
    pub(super) fn forget(&self, source: Source) {
        if self.sources.pin().remove(&source).is_some() {
            self.known.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Forgets those whose window is over.
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

    /// Sources with failures.
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
        assert_eq!(strikes.count(source(1), WINDOW, at(0)), Some(1));
        assert_eq!(strikes.count(source(1), WINDOW, at(59)), Some(2));
        assert_eq!(strikes.count(source(2), WINDOW, at(59)), Some(1));
        assert_eq!(strikes.count(source(1), WINDOW, at(60)), Some(1));
        assert_eq!(strikes.count(source(3), WINDOW, at(60)), None, "no room");
        strikes.sweep(WINDOW, at(119));
        assert_eq!(strikes.len(), 1);
        strikes.forget(source(1));
        assert_eq!(strikes.count(source(3), WINDOW, at(60)), Some(1));
    }
}
