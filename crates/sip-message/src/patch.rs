//! Forwards a message by patching it: the received bytes are copied once, and edits are applied during the copy.
use crate::grammar::{List, offset_in};
use crate::scan::Line;
use crate::via_source::push_completed_via;
use crate::write::{push_line_with, push_number, push_value};
use crate::{HeaderName, Message};
use edits::{Edit, Edits, Kind};
use smallvec::SmallVec;
use std::ops::Range;

mod edits;

/// A list of edits to a message, applied by [`Patch::write`]. Everything else stays byte for byte.
///
/// Edits at the same place apply in the order in which they were made. Of two values prepended to one header field, the second is
/// on top. Of two appended values, the second is last. Removing, replacing and counting refer to the message as received. Of two
/// edits to the value of the same line, the later one counts. [`HeaderName::Other`] and [`HeaderName::Invalid`] name no header
/// field: edits to them have no effect.
#[derive(Debug)]
pub struct Patch<'m, 'a> {
    message: &'m Message<'a>,
    edits: Edits,
}

impl<'m, 'a> Patch<'m, 'a> {
    /// Creates a patch without edits.
    pub fn new(message: &'m Message<'a>) -> Self {
        Self::with_scratch(message, Vec::new())
    }

    /// Creates a patch without edits that stores new text in `scratch`, which is cleared. [`Patch::into_scratch`] returns the
    /// buffer, so that one allocation serves many messages.
    pub fn with_scratch(message: &'m Message<'a>, mut scratch: Vec<u8>) -> Self {
        scratch.clear();
        Self {
            message,
            edits: Edits::new(scratch),
        }
    }

    /// Returns the buffer passed to [`Patch::with_scratch`].
    pub fn into_scratch(self) -> Vec<u8> {
        self.edits.into_buffer()
    }

    /// Replaces the Request-URI. Has no effect on a response.
    pub fn request_uri(&mut self, uri: &[u8]) -> &mut Self {
        if self.message.is_request() {
            let place = range_in(self.message, self.message.request_uri());
            self.edits.forget(|edit| edit.kind == Kind::Uri);
            self.edits
                .push(place, Kind::Uri, HeaderName::Other, |text| {
                    push_value(text, uri);
                });
        }
        self
    }

    /// Sets Max-Forwards: replaces it, or adds it if it is absent.
    pub fn max_forwards(&mut self, value: u8) -> &mut Self {
        self.replace_with(HeaderName::MaxForwards, |text| {
            push_number(text, u32::from(value));
        })
    }

    /// Adds a header field value (Via, Record-Route, Route, Path) on a new line above the first line with this name. If there is
    /// none, the line goes below the Vias (or to the top for Via).
    pub fn prepend(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.prepend_with(name, |text| push_value(text, value))
    }

    /// Like [`Patch::prepend`], but formats the value in place.
    pub fn prepend_with(
        &mut self,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        if is_named(name) {
            let place = self.place_above(name);
            let write = |text: &mut Vec<u8>| push_line_with(text, name.as_str().as_bytes(), write);
            self.edits.push(place..place, Kind::Prepend, name, write);
        }
        self
    }

    /// Adds a header field after all others.
    pub fn append(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.append_with(name, |text| push_value(text, value))
    }

    /// Like [`Patch::append`], but formats the value in place.
    pub fn append_with(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        if is_named(name) {
            self.append_line(name, name.as_str().as_bytes(), Kind::Append, write);
        }
        self
    }

    /// Adds a header field with any name after all others.
    pub fn append_raw(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        self.append_line(HeaderName::Other, name, Kind::Append, |text| {
            push_value(text, value);
        });
        self
    }

    /// Removes the first `count` values of a comma-separated header field (Via, Route), and fixes lines and commas. Another call
    /// removes the next ones.
    pub fn remove_first_values(&mut self, name: HeaderName, count: usize) -> &mut Self {
        for _ in 0..count {
            let first = self.kept_values(name).next();
            match first {
                Some(value) => self.remove_value(name, &value),
                None => break,
            }
        }
        self
    }

    /// Removes the last value (strict-route repair). Another call removes the one before it.
    pub fn remove_last_value(&mut self, name: HeaderName) -> &mut Self {
        let last = self.kept_values(name).last();
        if let Some(value) = last {
            self.remove_value(name, &value);
        }
        self
    }

    /// Removes all lines of this header field, including those added by this patch.
    pub fn remove(&mut self, name: HeaderName) -> &mut Self {
        if is_named(name) {
            self.edits.forget(|edit| edit.name == name);
            self.remove_lines(name, 0);
        }
        self
    }

    /// Removes all lines whose name, as written in the message, satisfies `is_named`: header fields without a [`HeaderName`]. Lines added
    /// by this patch stay.
    pub fn remove_raw(&mut self, is_named: impl Fn(&[u8]) -> bool) -> &mut Self {
        let lines = self.message.lines.iter().enumerate();
        for (index, line) in lines.filter(|(_, line)| line.name == HeaderName::Other) {
            let name = line.start as usize..line.start as usize + usize::from(line.name_length);
            let name = self.message.bytes().get(name).unwrap_or_default();
            if is_named(name) {
                let place = line.start as usize..self.message.line_end(index);
                self.edits
                    .push_removal(place, Kind::Remove, HeaderName::Other);
            }
        }
        self
    }

    /// Replaces the value of the first header field with this name, or adds it if it is absent.
    pub fn replace(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.replace_with(name, |text| push_value(text, value))
    }

    /// Like [`Patch::replace`], but formats the value in place.
    pub fn replace_with(
        &mut self,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        if !is_named(name) {
            return self;
        }
        self.edits
            .forget(|edit| edit.name == name && edit.kind == Kind::Add);
        let kept = self
            .message
            .lines_of(name)
            .find(|(_, line)| !self.edits.is_removed(line.start as usize));
        if let Some(line) = kept.map(|(_, line)| *line) {
            let value = line.value_start as usize..line.value_end as usize;
            self.edits.forget(|edit| is_edit_of_value(edit, &value));
            self.edits.push(value, Kind::Replace, name, write);
        } else {
            self.append_line(name, name.as_str().as_bytes(), Kind::Add, write);
        }
        self
    }

    /// Replaces a part of a header field's value. `part` must be a slice of the message. Has no effect if that value is removed.
    pub fn replace_part(
        &mut self,
        name: HeaderName,
        part: &[u8],
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        let place = range_in(self.message, part);
        if is_named(name) && !self.edits.is_removed(place.start) {
            self.edits.push(place, Kind::Replace, name, write);
        }
        self
    }

    /// Adds `received` to the topmost Via and fills in `rport` (RFC 3261 section 18.2.1, RFC 3581). `received` is added if the
    /// sent-by host differs from the source address, or if rport was requested. An existing `received` is replaced, or removed if
    /// the sent-by host is correct. A value that the sender gave to rport is replaced too.
    pub fn top_via_source(&mut self, source: std::net::SocketAddr) -> &mut Self {
        if let Some(via) = self.message.top_via() {
            let place = range_in(self.message, via.bytes);
            if !self.edits.is_removed(place.start) {
                self.edits
                    .forget(|edit| edit.name == HeaderName::Via && edit.kind == Kind::Replace);
                self.edits
                    .push(place, Kind::Replace, HeaderName::Via, |text| {
                        push_completed_via(text, &via, source);
                    });
            }
        }
        self
    }

    /// Replaces the body and Content-Length.
    pub fn body(&mut self, body: &[u8]) -> &mut Self {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.replace_with(HeaderName::ContentLength, |text| push_number(text, length));
        self.remove_lines(HeaderName::ContentLength, 1);
        self.edits.forget(|edit| edit.kind == Kind::Body);
        let place = self.message.layout.body_start..self.message.layout.body_end;
        self.edits
            .push(place, Kind::Body, HeaderName::Other, |text| {
                text.extend_from_slice(body);
            });
        self
    }

    /// Adds Content-Length if it is missing. In a datagram the body ends with the datagram, but a stream needs Content-Length
    /// (RFC 3261 section 18.3).
    pub fn complete_content_length(&mut self) -> &mut Self {
        if self.message.header(HeaderName::ContentLength).is_some() {
            return self;
        }
        let length = u32::try_from(self.message.body().len()).unwrap_or(u32::MAX);
        self.append_with(HeaderName::ContentLength, |text| push_number(text, length))
    }

    /// Appends the edited message to `into`. Bytes after the body of a datagram and line ends before the start line are omitted.
    pub fn write(&self, into: &mut Vec<u8>) {
        let layout = self.message.layout;
        let bytes = self.message.bytes();
        into.reserve(bytes.len() + self.edits.text_length());
        // A message that ends within its header is refused and not forwarded. Even so, no new text may run into its last line.
        let unterminated = layout.headers_end == layout.body_start;
        let mut copied = layout.start;
        for edit in self.edits.iter() {
            let place = edit.place();
            into.extend_from_slice(bytes.get(copied..place.start).unwrap_or_default());
            if unterminated && place.start >= layout.headers_end {
                if into.last() != Some(&b'\n') {
                    into.extend_from_slice(b"\r\n");
                }
                if edit.kind == Kind::Body {
                    into.extend_from_slice(b"\r\n");
                }
            }
            into.extend_from_slice(self.edits.text_of(edit));
            copied = copied.max(place.end);
        }
        into.extend_from_slice(bytes.get(copied..layout.body_end).unwrap_or_default());
    }

    /// The offset for a line above the first line with this name.
    fn place_above(&self, name: HeaderName) -> usize {
        if let Some((_, line)) = self.message.lines_of(name).next() {
            return line.start as usize;
        }
        match self.message.lines_of(HeaderName::Via).last() {
            Some((index, _)) if name != HeaderName::Via => self.message.line_end(index),
            _ => self
                .message
                .lines
                .first()
                .map_or(self.message.layout.headers_end, |line| line.start as usize),
        }
    }

    fn append_line(
        &mut self,
        name: HeaderName,
        name_bytes: &[u8],
        kind: Kind,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let end = self.message.layout.headers_end;
        self.edits.push(end..end, kind, name, |text| {
            push_line_with(text, name_bytes, write);
        });
    }

    /// Removes all lines with this name except the first `skip`.
    fn remove_lines(&mut self, name: HeaderName, skip: usize) {
        for (index, line) in self.message.lines_of(name).skip(skip) {
            self.edits.push_removal(
                line.start as usize..self.message.line_end(index),
                Kind::Remove,
                name,
            );
        }
    }

    /// The values that no edit has removed: index of the line, and range.
    fn kept_values(&self, name: HeaderName) -> impl Iterator<Item = (usize, Range<usize>)> {
        self.message.lines_of(name).flat_map(move |(index, line)| {
            let kept = |place: &Range<usize>| !self.edits.is_removed(place.start);
            values_of(self.message, line)
                .filter(kept)
                .map(move |place| (index, place))
        })
    }

    /// Removes one value together with its comma. It must be the first or last of the remaining values in its line. With the last
    /// remaining value, the whole line is removed.
    fn remove_value(&mut self, name: HeaderName, (index, value): &(usize, Range<usize>)) {
        let Some(line) = self.message.lines.get(*index).copied() else {
            return;
        };
        let kept: SmallVec<[Range<usize>; 8]> = values_of(self.message, &line)
            .filter(|place| place != value && !self.edits.is_removed(place.start))
            .collect();
        let all = line.value_start as usize..line.value_end as usize;
        // A completed topmost Via stays completed when other values of its line are removed.
        self.edits
            .forget(|edit| is_edit_of_value(edit, &all) && !kept.contains(&edit.place()));
        match (kept.first(), kept.last()) {
            (Some(first), Some(last)) => {
                for gap in [all.start..first.start, last.end..all.end] {
                    if !gap.is_empty() {
                        self.edits.push_removal(gap, Kind::Trim, name);
                    }
                }
            }
            _ => self.edits.push_removal(
                line.start as usize..self.message.line_end(*index),
                Kind::Remove,
                name,
            ),
        }
    }
}

/// Whether an edit changes a part of this header field value.
fn is_edit_of_value(edit: &Edit, value: &Range<usize>) -> bool {
    let place = edit.place();
    matches!(edit.kind, Kind::Replace | Kind::Trim)
        && place.start >= value.start
        && place.end <= value.end
}

/// The range of a part in the message.
fn range_in(message: &Message<'_>, part: &[u8]) -> Range<usize> {
    let start = offset_in(message.bytes(), part);
    start..start + part.len()
}

fn values_of(message: &Message<'_>, line: &Line) -> impl Iterator<Item = Range<usize>> {
    List::new(message.value_of(line)).map(move |value| range_in(message, value))
}

/// Whether the name stands for a single header field.
fn is_named(name: HeaderName) -> bool {
    !matches!(name, HeaderName::Other | HeaderName::Invalid)
}
