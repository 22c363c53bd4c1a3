//! Sets of final response codes.

use std::fmt;
use std::str::FromStr;

const FIRST: u16 = 200;
const LAST: u16 = 699;
const WORDS: usize = (LAST - FIRST) as usize / 64 + 1;

/// A set of final response codes (200 to 699), written as `408, 500-599`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatusSet([u64; WORDS]);

/// A list of response codes that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{item}` is not a final response code or range; allowed: codes and ranges from 200 to 699, such as `408, 500-599`"
)]
pub struct BadStatusSet {
    /// The item of the list.
    pub item: Box<str>,
}

impl StatusSet {
    /// No code.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Adds a range, both ends included. Codes outside 200 to 699 are ignored.
    #[must_use]
    pub const fn with(mut self, first: u16, last: u16) -> Self {
        let mut status = first;
        while status <= last {
            if let Some((word, bit)) = place(status) {
                self.0[word] |= bit;
            }
            status += 1;
        }
        self
    }

    /// Removes a range, both ends included.
    #[must_use]
    pub const fn without(mut self, first: u16, last: u16) -> Self {
        let mut status = first;
        while status <= last {
            if let Some((word, bit)) = place(status) {
                self.0[word] &= !bit;
            }
            status += 1;
        }
        self
    }

    /// Whether the set contains the code.
    pub const fn contains(&self, status: u16) -> bool {
        match place(status) {
            Some((word, bit)) => self.0[word] & bit != 0,
            None => false,
        }
    }

    /// Whether the set contains no code.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The codes in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (FIRST..=LAST).filter(|status| self.contains(*status))
    }
}

const fn place(status: u16) -> Option<(usize, u64)> {
    if status < FIRST || status > LAST {
        return None;
    }
    let index = (status - FIRST) as usize;
    Some((index / 64, 1 << (index % 64)))
}

impl FromStr for StatusSet {
    type Err = BadStatusSet;

    fn from_str(text: &str) -> Result<Self, BadStatusSet> {
        let mut set = Self::EMPTY;
        for item in text.split(',').map(str::trim) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let range = code(first).zip(code(last));
            let Some((first, last)) = range.filter(|(first, last)| first <= last) else {
                return Err(BadStatusSet { item: item.into() });
            };
            set = set.with(first, last);
        }
        Ok(set)
    }
}

fn code(text: &str) -> Option<u16> {
    let code = text.trim().parse().ok()?;
    place(code).map(|_| code)
}

impl fmt::Display for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut codes = self.iter().peekable();
        while let Some(first) = codes.next() {
            let mut last = first;
            while let Some(next) = codes.next_if(|next| *next == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn codes_and_ranges_are_read_and_written() {
        for (text, written) in [
            ("503", "503"),
            ("500 - 503,408", "408, 500-503"),
            ("200-699", "200-699"),
            ("500-502, 503", "500-503"),
        ] {
            let set: StatusSet = text.parse().expect(text);
            assert_eq!(set.to_string(), written);
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_names_the_item() {
        for (text, item) in [
            ("", ""),
            ("408,", ""),
            ("199", "199"),
            ("408, 700", "700"),
            ("5xx", "5xx"),
            ("503-500", "503-500"),
            ("500-", "500-"),
            ("-500", "-500"),
            ("500-599-699", "500-599-699"),
        ] {
            let error = text.parse::<StatusSet>().expect_err(text);
            assert_eq!(&*error.item, item, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read(codes in proptest::collection::btree_set(200_u16..700, 1..60)) {
            let set = codes.iter().fold(StatusSet::EMPTY, |set, code| set.with(*code, *code));
            prop_assert!(set.iter().eq(codes));
            prop_assert_eq!(set.to_string().parse::<StatusSet>(), Ok(set));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<StatusSet>();
        }
    }
}
