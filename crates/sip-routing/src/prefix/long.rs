//! Prefixes of 16 to 32 digits, which are longer than telephone numbers: few, sorted, one search for each length.

use super::digits::{Digits, MAX_KEY_DIGITS};
use super::lists::ListId;

/// A prefix in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongRow {
    pub(super) prefix: Digits,
    pub(super) list: ListId,
    pub(super) line: u32,
}

#[derive(Debug, Default)]
pub(super) struct Long {
    /// In ascending order.
    prefixes: Box<[(Digits, ListId)]>,
}

impl Long {
    /// Builds the table. Of rows with one prefix, the first counts, and `repeated` gets it with each further one.
    pub(super) fn build(
        mut rows: Vec<LongRow>,
        mut repeated: impl FnMut(&LongRow, &LongRow),
    ) -> Self {
        // Stable: rows with one prefix stay in their order.
        rows.sort_by_key(|row| row.prefix);
        rows.dedup_by(|next, first| {
            let same = next.prefix == first.prefix;
            if same {
                repeated(first, next);
            }
            same
        });
        Self {
            prefixes: rows.iter().map(|row| (row.prefix, row.list)).collect(),
        }
    }

    /// All matching prefixes with their length, the longest first.
    #[inline]
    pub(super) fn matches(&self, number: Digits) -> impl Iterator<Item = (u32, ListId)> {
        let longest = if self.prefixes.is_empty() {
            0
        } else {
            number.len()
        };
        (MAX_KEY_DIGITS + 1..=longest)
            .rev()
            .filter_map(move |length| Some((length, self.get(number.first(length))?)))
    }

    pub(super) const fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.prefixes)
    }

    fn get(&self, prefix: Digits) -> Option<ListId> {
        let found = self.prefixes.binary_search_by_key(&prefix, |entry| entry.0);
        let (_, list) = self.prefixes.get(found.ok()?)?;
        Some(*list)
    }
}
