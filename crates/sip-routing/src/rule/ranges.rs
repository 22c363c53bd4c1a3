//! Sets of values as ranges: addresses, and texts in the order of their bytes.

use std::cmp::Ordering;

/// The values from `start` up to, but not including, `end`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Range<K> {
    pub(super) start: K,
    /// `None`: no end.
    pub(super) end: Option<K>,
}

/// A set of values. A lookup is a binary search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges<K> {
    /// Disjoint, with gaps between them, and in ascending order.
    list: Box<[Range<K>]>,
}

impl<K> Default for Ranges<K> {
    fn default() -> Self {
        Self {
            list: Box::default(),
        }
    }
}

impl<K: Ord + Clone> Ranges<K> {
    /// Builds the set. The ranges may overlap.
    pub(super) fn new(mut ranges: Vec<Range<K>>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, range| {
            let is_joined = range.end.as_ref().is_none_or(|end| next.start <= *end);
            if is_joined {
                let ends_later = |end: &K| next.end.as_ref().is_none_or(|next| next > end);
                if range.end.as_ref().is_some_and(ends_later) {
                    range.end.clone_from(&next.end);
                }
            }
            is_joined
        });
        Self {
            list: ranges.into(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<K>> {
        self.list.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the set contains a value. `compare` compares a bound with the value.
    #[inline]
    pub(super) fn contains(&self, compare: impl Fn(&K) -> Ordering) -> bool {
        let starts = |range: &Range<K>| compare(&range.start).is_le();
        let place = self.list.partition_point(starts);
        let range = place.checked_sub(1).and_then(|place| self.list.get(place));
        range.is_some_and(|range| range.end.as_ref().is_none_or(|end| compare(end).is_gt()))
    }

    /// Whether the set contains all values of a range.
    pub(super) fn covers(&self, other: &Range<K>) -> bool {
        let place = self
            .list
            .partition_point(|range| range.start <= other.start);
        let range = place.checked_sub(1).and_then(|place| self.list.get(place));
        range.is_some_and(|range| match (&range.end, &other.end) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(end), Some(other)) => end >= other,
        })
    }
}
