//! The edits of a patch, in the order in which they are written.
use crate::HeaderName;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::ops::Range;

/// A range of bytes in the message, possibly empty, and their replacement.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) place: Range<u32>,
    text: Range<u32>,
    pub(super) kind: Kind,
    pub(super) name: HeaderName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line above the first line with its name.
    Prepend,
    /// A line at the end of the header.
    Append,
    /// A line at the end of the header, because there was none to replace.
    Add,
    /// A new value in place of another.
    Replace,
    /// Some values of a line removed.
    Trim,
    /// A whole line removed.
    Remove,
    /// The Request-URI.
    Uri,
    /// The body.
    Body,
}

impl Edit {
    /// The range in the message.
    pub(super) fn place(&self) -> Range<usize> {
        self.place.start as usize..self.place.end as usize
    }
}

#[derive(Debug)]
pub(super) struct Edits {
    list: SmallVec<[Edit; 8]>,
    /// The new text of all edits.
    text: Vec<u8>,
}

impl Edits {
    /// Creates an empty list. `text` must be an empty buffer.
    pub(super) fn new(text: Vec<u8>) -> Self {
        Self {
            list: SmallVec::new(),
            text,
        }
    }

    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.text
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Edit> {
        self.list.iter()
    }

    /// The replacement text of an edit.
    pub(super) fn text_of(&self, edit: &Edit) -> &[u8] {
        self.text
            .get(edit.text.start as usize..edit.text.end as usize)
            .unwrap_or_default()
    }

    /// Upper bound on the bytes to write in addition to those of the message.
    pub(super) fn text_length(&self) -> usize {
        self.text.len()
    }

    /// Removes the edits that satisfy `test`.
    pub(super) fn forget(&mut self, test: impl Fn(&Edit) -> bool) {
        self.list.retain(|edit| !test(edit));
    }

    /// Whether an edit removes the byte at this offset.
    pub(super) fn is_removed(&self, at: usize) -> bool {
        let at = offset(at);
        self.list
            .iter()
            .any(|edit| matches!(edit.kind, Kind::Trim | Kind::Remove) && edit.place.contains(&at))
    }

    /// Adds an edit that removes a range.
    pub(super) fn push_removal(&mut self, place: Range<usize>, kind: Kind, name: HeaderName) {
        self.push(place, kind, name, |_| {});
    }

    /// Adds an edit. Edits are written by offset, and at one offset in the order in which they were made. There are two
    /// exceptions: a prepended line goes above others of its name, and the body goes last.
    pub(super) fn push(
        &mut self,
        place: Range<usize>,
        kind: Kind,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.text.capacity() == 0 {
            self.text.reserve(512);
        }
        let text_start = offset(self.text.len());
        write(&mut self.text);
        let text = text_start..offset(self.text.len());
        let place = offset(place.start)..offset(place.end);
        let is_behind = |other: &Edit| match other.place.start.cmp(&place.start) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => match kind {
                Kind::Prepend => is_below_prepended(other, name),
                Kind::Body => false,
                _ => other.kind == Kind::Body,
            },
        };
        let index = self
            .list
            .iter()
            .position(is_behind)
            .unwrap_or(self.list.len());
        self.list.insert(
            index,
            Edit {
                place,
                text,
                kind,
                name,
            },
        );
    }
}

/// Whether a prepended line goes above this edit at the same offset: older lines of its name, and lines added at the end of the
/// header.
fn is_below_prepended(other: &Edit, name: HeaderName) -> bool {
    match other.kind {
        Kind::Prepend => other.name == name,
        Kind::Append | Kind::Add | Kind::Body => true,
        _ => false,
    }
}

/// Offsets fit because the parser limits the length of messages.
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
