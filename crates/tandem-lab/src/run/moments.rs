//! Times of calls that another thread needs: a call's two parties may belong to two threads.
//!
//! Each calling thread has a ring of slots, written and read without locks. A slot is overwritten by a later call; a reader notices that.

use super::phones::thread_of;
use sip_transport::Time;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Calls of a thread whose times are kept. A power of two.
const KEPT: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Moments(Vec<Box<[Moment]>>);

#[derive(Debug, Default)]
struct Moment {
    /// The number of the call; 0 while the time is written.
    call: AtomicU64,
    /// Nanoseconds since the epoch.
    at: AtomicU64,
}

impl Moments {
    pub(super) fn new(threads: u16) -> Self {
        let ring = |_| (0..KEPT).map(|_| Moment::default()).collect();
        Self((0..threads).map(ring).collect())
    }

    /// Notes the time of a call. Only one thread notes the times of a call at a time.
    pub(super) fn note(&self, call: u64, at: Time) {
        if let Some(moment) = self.slot(call) {
            moment.call.store(0, Ordering::Relaxed);
            fence(Ordering::Release);
            let since_epoch = at.saturating_since(Time::default());
            moment
                .at
                .store(since_epoch.as_nanos() as u64, Ordering::Relaxed);
            moment.call.store(call, Ordering::Release);
        }
    }

    /// The last time of a call. `None` before the first one, or if a later call has overwritten it.
    pub(super) fn of(&self, call: u64) -> Option<Time> {
        let moment = self.slot(call)?;
        let before = moment.call.load(Ordering::Acquire);
        let at = moment.at.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_of_call = before == call && moment.call.load(Ordering::Relaxed) == call;
        is_of_call.then(|| Time::default() + std::time::Duration::from_nanos(at))
    }

    fn slot(&self, call: u64) -> Option<&Moment> {
        let ring = self.0.get(usize::from(thread_of(call)))?;
        ring.get((call % KEPT) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_lasts_until_a_later_call_takes_its_slot() {
        let moments = Moments::new(2);
        let at = |seconds| Time::default() + Duration::from_secs(seconds);
        let (call, of_other_thread) = (7, 1 << 40 | 7);
        moments.note(call, at(1));
        moments.note(of_other_thread, at(2));
        assert_eq!(moments.of(call), Some(at(1)));
        assert_eq!(moments.of(of_other_thread), Some(at(2)));
        moments.note(call + KEPT, at(3));
        assert_eq!(moments.of(call), None);
        assert_eq!(moments.of(2 << 40), None, "no such thread");
    }
}
