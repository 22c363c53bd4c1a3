//! Back-off of an agent that reconnects to its controller: exponential, with jitter.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

/// Pauses that double up to a maximum.
#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
    random: ChaCha8Rng,
}

impl Default for Backoff {
    fn default() -> Self {
        // Without randomness, the pauses are those of seed 0: they still grow.
        Self::with_seed(getrandom::u64().unwrap_or_default())
    }
}

impl Backoff {
    fn with_seed(seed: u64) -> Self {
        Self {
            pause: FIRST,
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// The next pause, between half of the current length and all of it.
    pub(super) fn next(&mut self) -> Duration {
        let whole = self.pause;
        self.pause = (whole * 2).min(LONGEST);
        let share = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        whole.mul_f64(0.5 + share / 2.0)
    }

    /// Starts again with short pauses, after a successful connection.
    pub(super) fn reset(&mut self) {
        self.pause = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_after_success() {
        let mut backoff = Backoff::with_seed(7);
        let pauses: Vec<Duration> = (0..10).map(|_| backoff.next()).collect();
        for (place, pause) in pauses.iter().enumerate() {
            let whole = (FIRST * (1 << place.min(8))).min(LONGEST);
            assert!(*pause >= whole / 2 && *pause <= whole, "{place}: {pause:?}");
        }
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn two_agents_do_not_wait_alike() {
        let (mut one, mut other) = (Backoff::with_seed(1), Backoff::with_seed(2));
        assert_ne!(one.next(), other.next());
    }
}
