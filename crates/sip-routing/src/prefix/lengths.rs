//! Which lengths the prefixes in the neighbourhood of a number have: a lookup tries no other length.

use super::digits::{Digits, MAX_KEY_DIGITS};

/// One word for each sequence of the first digits; 200 KB for five digits, which stay in a processor's cache.
const MAX_DEPTH: u32 = 5;

#[derive(Debug, Default)]
pub(super) struct Lengths {
    /// How many digits select a word.
    depth: u32,
    /// Bit n: there is a prefix with n digits here.
    masks: Box<[u16]>,
}

impl Lengths {
    /// No lengths, with not more words than there will be prefixes.
    pub(super) fn for_prefixes(count: usize) -> Self {
        let depth = count.max(1).ilog10().min(MAX_DEPTH);
        Self {
            depth,
            masks: vec![0; 10_usize.pow(depth)].into(),
        }
    }

    /// Notes a prefix of 1 to 15 digits.
    pub(super) fn insert(&mut self, prefix: Digits) {
        let first = self.index(prefix);
        let span = 10_usize.pow(self.depth.saturating_sub(prefix.len()));
        for mask in self.masks.iter_mut().skip(first).take(span) {
            *mask |= 1 << prefix.len();
        }
    }

    /// Bit n: there may be a prefix of n digits, 1 to 15.
    #[inline]
    pub(super) fn of(&self, number: Digits) -> u32 {
        let mask = self.masks.get(self.index(number)).copied().unwrap_or(0);
        let longest = number.len().min(MAX_KEY_DIGITS);
        u32::from(mask) & ((2 << longest) - 1)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.masks)
    }

    /// Digits above 9 are rare, and share the words of the 9.
    #[inline]
    fn index(&self, digits: Digits) -> usize {
        let word = digits.first_word();
        let symbol = |at: u32| (word >> (60 - 4 * at)) as usize & 15;
        (0..self.depth).fold(0, |index, at| index * 10 + symbol(at).min(9))
    }
}
