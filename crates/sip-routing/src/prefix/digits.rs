//! Dialled digits, four bits each.

use super::DEFAULT;
use super::bad_rows::{Problem, excerpt};
use crate::number::{self, SYMBOLS};
use std::fmt::{self, Display, Formatter};

/// The maximum number of digits of a prefix, and those of a number that are compared.
pub const MAX_DIGITS: usize = 32;
/// The maximum number of digits that a [key](Digits::key) holds.
pub(super) const MAX_KEY_DIGITS: u32 = 15;

/// Up to 32 digits. The order is that of the digits from left to right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Digits {
    /// The first digit in the highest four bits; 0 behind the last one.
    bits: u128,
    length: u32,
}

impl Digits {
    /// The digits of a dialled number, of which the first 32 count. `None` if the user part is no number.
    #[inline]
    pub(super) fn of_number(number: &[u8]) -> Option<Self> {
        let mut digits = Self::default();
        number::read(number, |digit| digits.push(digit))?;
        Some(digits.aligned())
    }

    /// The digits of a prefix in a row.
    pub(super) fn of_prefix(text: &str) -> Result<Self, Problem> {
        let text = text.trim();
        if text == DEFAULT {
            return Ok(Self::default());
        }
        let digits = text.strip_prefix('+').unwrap_or(text);
        if digits.is_empty() {
            return Err(Problem::EmptyPrefix);
        }
        let value = |c: char| u8::try_from(c).ok().and_then(number::value);
        if let Some(character) = digits.chars().find(|c| value(*c).is_none()) {
            return Err(Problem::NotADigit {
                prefix: excerpt(text),
                character,
            });
        }
        if digits.len() > MAX_DIGITS {
            return Err(Problem::PrefixTooLong {
                prefix: excerpt(text),
                digits: digits.len(),
            });
        }
        let mut prefix = Self::default();
        for digit in digits.bytes().filter_map(number::value) {
            prefix.push(digit);
        }
        Ok(prefix.aligned())
    }

    pub(super) const fn len(self) -> u32 {
        self.length
    }

    /// The first digits, at most as many as there are.
    pub(super) const fn first(self, length: u32) -> Self {
        if length >= self.length {
            return self;
        }
        let bits = match length {
            0 => 0,
            _ => self.bits & (u128::MAX << (128 - 4 * length)),
        };
        Self { bits, length }
    }

    /// The first 16 digits, the first one in the highest four bits.
    #[inline]
    pub(super) const fn first_word(self) -> u64 {
        (self.bits >> 64) as u64
    }

    /// The first digits and their number in one word, which differs for all prefixes of 1 to 15 digits, and is never 0.
    #[inline]
    pub(super) const fn key(self, length: u32) -> u64 {
        self.first_word() & (u64::MAX << (64 - 4 * length)) | length as u64
    }

    /// The digits of a [key](Self::key).
    pub(super) fn of_key(key: u64) -> Self {
        let length = (key & 15) as u32;
        Self {
            bits: u128::from(key & !15) << 64,
            length,
        }
    }

    /// Appends a digit at the right end. [`aligned`](Self::aligned) moves all to the left.
    #[inline]
    fn push(&mut self, digit: u8) {
        if (self.length as usize) < MAX_DIGITS {
            self.bits = self.bits << 4 | u128::from(digit);
            self.length += 1;
        }
    }

    /// Not for zero digits, which are aligned.
    const fn aligned(self) -> Self {
        Self {
            bits: self.bits << (128 - 4 * self.length),
            length: self.length,
        }
    }
}

impl Display for Digits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        (0..self.length)
            .map(|index| (self.bits >> (124 - 4 * index)) as usize & 15)
            .filter_map(|symbol| SYMBOLS.get(symbol))
            .try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(number: &str) -> Option<String> {
        Digits::of_number(number.as_bytes()).map(|digits| digits.to_string())
    }

    #[test]
    fn numbers_are_read_as_they_are_dialled() {
        for (number, expected) in [
            ("4930123", "4930123"),
            ("+4930123", "4930123"),
            ("004930123", "004930123"),
            ("+49(30)1-2.3", "4930123"),
            ("+4930123;npdi=yes", "4930123"),
            ("*21#", "*21#"),
            ("*21%23", "*21#"),
            ("d018", "D018"),
            ("%2a21", "*21"),
            ("%2B49%2D30", "4930"),
        ] {
            assert_eq!(digits(number).as_deref(), Some(expected), "{number}");
        }
        let long = "123456789*#ABCD0".repeat(3);
        assert_eq!(digits(&long).as_deref(), long.get(..MAX_DIGITS));
    }

    #[test]
    fn a_name_is_no_number() {
        for name in [
            "", "+", "-", ";ext=1", "alice", "dave", "49x", "4930 1", "++49", "4+9", "4%2B9",
            "%65", "%2", "%", "٣", "dad", "-%2B49",
        ] {
            assert_eq!(digits(name), None, "{name}");
        }
    }

    #[test]
    fn a_key_holds_its_digits() {
        let number = Digits::of_number(b"0000000000000000").expect("digits");
        let keys: Vec<u64> = (1..=MAX_KEY_DIGITS)
            .map(|length| number.key(length))
            .collect();
        for (key, length) in keys.iter().zip(1..) {
            assert_eq!(Digits::of_key(*key), number.first(length));
            assert_eq!(*key, u64::from(length), "zeros differ by their number");
        }
    }
}
