//! What belongs to the name of a gateway over all configurations, and the place that a call holds there.

use super::statistics::Counters;
use crate::limit::Bucket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What belongs to the name of a gateway.
#[derive(Debug, Default)]
pub(super) struct GatewayState {
    pub(super) disabled: AtomicBool,
    pub(super) calls: Calls,
}

/// What every call writes, in cache lines of its own: all workers read `disabled` for every choice.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Calls {
    pub(super) live: AtomicU64,
    pub(super) counters: Counters,
    pub(super) bucket: Bucket,
}

/// The place of a live call on a gateway. Dropping it frees the place.
#[derive(Debug)]
pub struct Place(Arc<GatewayState>);

impl Place {
    /// Takes a place if fewer than `most` are taken.
    pub(super) fn take(state: &Arc<GatewayState>, most: Option<u32>) -> Option<Self> {
        let Some(most) = most else {
            return Some(Self::occupy(state));
        };
        let more = |live| (live < u64::from(most)).then(|| live + 1);
        let taken = state.calls.live.fetch_update(Relaxed, Relaxed, more);
        taken.ok().map(|_| Self(Arc::clone(state)))
    }

    /// Takes a place, even above the maximum.
    pub(super) fn occupy(state: &Arc<GatewayState>) -> Self {
        state.calls.live.fetch_add(1, Relaxed);
        Self(Arc::clone(state))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.calls.live.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_as_large_as_a_pointer() {
        assert_eq!(size_of::<Place>(), 8);
        assert_eq!(size_of::<Option<Place>>(), 8);
    }

    #[test]
    fn workers_never_take_more_places_than_there_are() {
        const MOST: u32 = 7;
        let state = Arc::new(GatewayState::default());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let places: [_; 3] =
                            std::array::from_fn(|_| Place::take(&state, Some(MOST)));
                        assert!(state.calls.live.load(Relaxed) <= u64::from(MOST));
                        drop(places);
                    }
                });
            }
        });
        assert_eq!(state.calls.live.load(Relaxed), 0);
        let all: Vec<_> = (0..MOST)
            .map(|_| Place::take(&state, Some(MOST)).expect("room"))
            .collect();
        assert!(Place::take(&state, Some(MOST)).is_none());
        let above = Place::occupy(&state);
        drop(all);
        assert_eq!(state.calls.live.load(Relaxed), 1);
        drop(above);
    }
}
