//! Finds the line ends of a message, sixty-four bytes at a time.
//!
//! Lines are short. A search that starts again for each line spends most of its time starting.

use crate::grammar::split_at;
use wide::u8x16;

/// Bytes that are searched at a time.
const AT_ONCE: usize = u64::BITS as usize;

/// Iterates over the offsets of line feeds.
#[derive(Clone, Debug)]
pub struct LineEnds<'a> {
    bytes: &'a [u8],
    /// How many bytes have been searched.
    looked: usize,
    /// Offset of the block that was searched last.
    first: usize,
    /// Line feeds in this block that have not been returned yet. The lowest bit is the first byte.
    untold: u64,
}

impl<'a> LineEnds<'a> {
    /// Creates an iterator over the line feeds in `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            looked: 0,
            first: 0,
            untold: 0,
        }
    }

    /// Searches the next block, which must not be empty.
    #[inline]
    fn look(&mut self) {
        let (_, rest) = split_at(self.bytes, self.looked);
        self.untold = if let Some(next) = rest.first_chunk() {
            line_feeds(next)
        } else if let Some(last) = self.bytes.last_chunk() {
            // Bits of bytes that have been searched before are shifted out.
            line_feeds(last) >> (AT_ONCE - rest.len())
        } else {
            let mut padded = [0; AT_ONCE];
            padded
                .iter_mut()
                .zip(rest)
                .for_each(|(to, from)| *to = *from);
            line_feeds(&padded)
        };
        self.first = self.looked;
        self.looked += AT_ONCE;
    }
}

impl Iterator for LineEnds<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.untold == 0 {
            if self.looked >= self.bytes.len() {
                return None;
            }
            self.look();
        }
        let place = self.first + self.untold.trailing_zeros() as usize;
        self.untold &= self.untold - 1;
        Some(place)
    }
}

/// A bit for each byte that is a line feed.
#[inline]
fn line_feeds(octets: &[u8; AT_ONCE]) -> u64 {
    let (parts, _) = octets.as_chunks();
    parts.iter().rev().fold(0, |bits, part| {
        let found = u8x16::new(*part).simd_eq(u8x16::splat(b'\n'));
        bits << 16 | u64::from(found.to_bitmask())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_are_found_wherever_they_are(bytes in prop::collection::vec(prop::sample::select(vec![b'\n', b'\r', b'a', 0, 0x8a, 0xff]), 0..300)) {
            let expected: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
            prop_assert_eq!(LineEnds::new(&bytes).collect::<Vec<_>>(), expected);
        }
    }
}
