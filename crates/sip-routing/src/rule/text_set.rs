//! Sets of texts: what a list of patterns matches.

use super::glob::Glob;
use super::pattern::Pattern;
use super::ranges::{Range, Ranges};
use super::text::Text;

/// What any of some patterns matches. Exact patterns and prefixes are ranges, so that a lookup in a long list is a binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextSet {
    ranges: Ranges<Box<[u8]>>,
    globs: Box<[Glob]>,
}

impl TextSet {
    pub(super) fn new(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let (mut ranges, mut globs) = (Vec::new(), Vec::new());
        for pattern in patterns {
            match pattern {
                Pattern::Exact(text) => ranges.push(only(text)),
                Pattern::Prefix(text) => ranges.push(beginning_with(text)),
                Pattern::Glob(glob) => globs.push(glob),
            }
        }
        Self {
            ranges: Ranges::new(ranges),
            globs: globs.into(),
        }
    }

    pub(super) fn contains(&self, text: &Text<'_>) -> bool {
        (!self.ranges.is_empty() && self.ranges.contains(|bound| text.compare(bound)))
            || self.globs.iter().any(|glob| glob.matches(text))
    }

    /// Whether there are patterns with wildcards inside, so that [`Self::bounds`] contain more than the set.
    pub(super) fn has_globs(&self) -> bool {
        !self.globs.is_empty()
    }

    /// Ranges with all texts of the set, and perhaps more. They may overlap.
    pub(super) fn bounds(&self) -> Vec<Range<Box<[u8]>>> {
        let globs = self
            .globs
            .iter()
            .map(|glob| beginning_with(glob.literal().into()));
        self.ranges.iter().cloned().chain(globs).collect()
    }

    /// Whether the set certainly contains all of the other set.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.ranges.iter().all(|range| self.covers_range(range))
            && other.globs.iter().all(|glob| {
                self.globs.contains(glob)
                    || self.ranges.covers(&beginning_with(glob.literal().into()))
            })
    }

    fn covers_range(&self, range: &Range<Box<[u8]>>) -> bool {
        let matches = |text: &[u8]| {
            self.globs
                .iter()
                .any(|glob| glob.matches(&Text::normalized_user(text)))
        };
        self.ranges.covers(range) || is_single(range).is_some_and(matches)
    }
}

/// The range of one text.
fn only(text: Box<[u8]>) -> Range<Box<[u8]>> {
    let next = text.iter().copied().chain([0]).collect();
    Range {
        start: text,
        end: Some(next),
    }
}

/// The range of all texts that begin with `prefix`.
fn beginning_with(prefix: Box<[u8]>) -> Range<Box<[u8]>> {
    let kept = prefix.iter().rposition(|&octet| octet != u8::MAX);
    let end = kept.map(|last| {
        let mut end = prefix.to_vec();
        end.truncate(last + 1);
        if let Some(octet) = end.last_mut() {
            *octet += 1;
        }
        end.into()
    });
    Range { start: prefix, end }
}

/// The text, if a range contains only one.
fn is_single(range: &Range<Box<[u8]>>) -> Option<&[u8]> {
    let end = range.end.as_deref()?;
    end.strip_suffix(&[0]).filter(|text| **text == *range.start)
}
