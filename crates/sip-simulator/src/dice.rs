//! The only source of randomness. One seed gives every part of a world a random stream of its own.
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Duration;

/// A random stream. Streams with different labels are independent, so one more phone does not change the weather of all
/// the others.
#[derive(Clone, Debug)]
pub struct Dice {
    seed: u64,
    stream: ChaCha8Rng,
}

impl Dice {
    /// Creates the stream `label` of a seed.
    pub fn new(seed: u64, label: &str) -> Self {
        let mut key = [0_u8; 32];
        let mut hash = Fingerprint::default();
        hash.write(label.as_bytes());
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&hash.value().to_le_bytes());
        Self {
            seed,
            stream: ChaCha8Rng::from_seed(key),
        }
    }

    /// Creates a stream from a whole key.
    pub fn from_key(key: [u8; 32]) -> Self {
        Self {
            seed: 0,
            stream: ChaCha8Rng::from_seed(key),
        }
    }

    /// Creates a stream of the same seed with another label.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        Self::new(self.seed, label)
    }

    /// Draws 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.stream.next_u64()
    }

    /// Draws a key for another generator.
    pub fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        self.stream.fill_bytes(&mut key);
        key
    }

    /// Draws a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product needs no division. Its bias is far too small to matter in a simulation.
        let wide = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Draws a number from `low` to `high`, inclusive.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Returns true `per_mille` times in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    /// Draws a duration from `low` to `high`, in whole microseconds.
    pub fn span(&mut self, low: Duration, high: Duration) -> Duration {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.range(micros(low), micros(high)))
    }

    /// Picks one of `choices`.
    ///
    /// # Panics
    /// If `choices` is empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let length = u64::try_from(choices.len()).unwrap_or(u64::MAX);
        &choices[usize::try_from(self.below(length)).unwrap_or(0)]
    }

    /// Draws a short token of letters and digits, for tags, branches and Call-IDs.
    pub fn token(&mut self) -> String {
        format!("{:010x}", self.bits() >> 24)
    }
}

/// A running hash of all events: two runs of one seed must end with the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Hashes bytes, eight at a time.
    pub fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_word(u64::from_le_bytes(*word));
        }
        let mut last = [0_u8; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.write_word(u64::from_le_bytes(last));
        self.write_word(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }

    /// Hashes a number.
    pub fn write_word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// The current value.
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Dice, Fingerprint};

    #[test]
    fn the_same_seed_and_label_give_the_same_stream_and_other_labels_another() {
        let draw = |seed, label| Dice::new(seed, label).bits();
        assert_eq!(draw(7, "network"), draw(7, "network"));
        assert_ne!(draw(7, "network"), draw(7, "phone"));
        assert_ne!(draw(7, "network"), draw(8, "network"));
    }

    #[test]
    fn ranges_are_inclusive_and_chances_are_what_they_say() {
        let mut dice = Dice::new(1, "test");
        let mut seen = [0_u32; 4];
        for _ in 0..4000 {
            seen[usize::try_from(dice.range(1, 3)).unwrap()] += 1;
        }
        assert_eq!(seen[0], 0);
        assert!(seen[1..].iter().all(|&count| count > 1100), "{seen:?}");
        let hits = (0..10_000).filter(|_| dice.chance(300)).count();
        assert!((2700..3300).contains(&hits), "{hits}");
        assert_eq!(dice.below(0), 0);
    }

    #[test]
    fn a_fingerprint_depends_on_order_and_on_boundaries() {
        let of = |parts: &[&[u8]]| {
            let mut print = Fingerprint::default();
            for part in parts {
                print.write(part);
            }
            print
        };
        assert_eq!(of(&[b"ab", b"c"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"c", b"ab"]));
    }
}
