//! The number of live calls as one atomic word, which also says whether its meter was retired.
//!
//! The word has three parts: the live calls (32 bits), how often a call entered (31 bits, wraps), and the retired bit. A sweep that wants
//! to retire a meter does so only if no call entered since it looked, even if that call has left again. See [`Calls::retire_if`].

use std::sync::atomic::{AtomicU64, Ordering};

const ONE_ENTERED: u64 = 1 << 32 | 1;
const RETIRED: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(super) struct Calls(AtomicU64);

/// Why a call did not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotEntered {
    /// As many calls are live as may be.
    Full,
    /// The meter has left its table. The table has another one, or none, for the key.
    Retired,
}

impl Calls {
    /// One call is live.
    pub(super) const fn entered() -> Self {
        Self(AtomicU64::new(ONE_ENTERED))
    }

    /// Adds a call if less than `maximum` are live. Returns how many are live then.
    pub(super) fn enter(&self, maximum: u32) -> Result<u32, NotEntered> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            if word & RETIRED != 0 {
                return Err(NotEntered::Retired);
            }
            if live(word) >= maximum {
                return Err(NotEntered::Full);
            }
            let next = (word + ONE_ENTERED) & !RETIRED;
            let swapped =
                self.0
                    .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Acquire);
            match swapped {
                Ok(_) => return Ok(live(next)),
                Err(present) => word = present,
            }
        }
    }

    /// Subtracts a call that has entered.
    pub(super) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    pub(super) fn live(&self) -> u32 {
        live(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Acquire) & RETIRED != 0
    }

    /// Lets no more calls enter, if none is live and `is_full` finds the bucket full. Returns whether this call did it.
    ///
    /// No charge is lost. A call charges the bucket only while it is live, between `enter` and `leave`. If the word is unchanged from the
    /// first load to the exchange, no call entered in between. Every call that entered earlier had left by the first load, which is
    /// ordered after its `leave` and therefore after its charge: all changes of the word are read-modify-writes, so the load
    /// acquires what each of them released. `is_full` thus sees every charge there will ever be.
    ///
    /// The word could also be unchanged after exactly 2³¹ calls entered and left between the two steps. That takes minutes, the steps take
    /// nanoseconds.
    pub(super) fn retire_if(&self, is_full: impl FnOnce() -> bool) -> bool {
        let word = self.0.load(Ordering::Acquire);
        let is_idle = live(word) == 0 && word & RETIRED == 0;
        is_idle
            && is_full()
            && self
                .0
                .compare_exchange(word, word | RETIRED, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}

const fn live(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_enter_up_to_the_maximum_and_again_after_one_has_left() {
        let calls = Calls::default();
        assert_eq!(calls.enter(0), Err(NotEntered::Full));
        assert_eq!(calls.enter(2), Ok(1));
        assert_eq!(calls.enter(2), Ok(2));
        assert_eq!(calls.enter(2), Err(NotEntered::Full));
        assert_eq!(calls.enter(u32::MAX), Ok(3));
        calls.leave();
        assert_eq!(calls.enter(2), Err(NotEntered::Full));
        calls.leave();
        assert_eq!(calls.enter(2), Ok(2));
    }

    #[test]
    fn only_an_idle_meter_is_retired_and_then_no_call_enters() {
        let calls = Calls::entered();
        assert!(!calls.retire_if(|| true));
        calls.leave();
        assert!(!calls.retire_if(|| false));
        assert_eq!(calls.enter(1), Ok(1));
        calls.leave();
        assert!(calls.retire_if(|| true) && calls.is_retired());
        assert!(!calls.retire_if(|| true));
        assert_eq!(calls.enter(u32::MAX), Err(NotEntered::Retired));
    }

    #[test]
    fn the_count_of_entries_wraps_without_retiring() {
        let calls = Calls(AtomicU64::new(RETIRED - (1 << 32) + 5));
        assert_eq!(calls.enter(9), Ok(6));
        assert!(!calls.is_retired());
    }
}
