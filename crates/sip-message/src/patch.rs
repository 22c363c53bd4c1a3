//! Forwarding a message by patching it: the received bytes are copied once, with the edits on the way.
use crate::grammar::{List, offset_in};
use crate::scan::Line;
use crate::via_source::push_completed_via;
use crate::write::{push_line_with, push_number, push_value};
use crate::{HeaderName, Message};
use smallvec::SmallVec;
use std::ops::Range;

/// A list of edits to a message. Applied by [`Patch::write`]; whatever is not edited stays byte for byte.
///
/// Edits of the same place apply in the order they were made: of two values prepended to one header the second is on top, of
/// two appended the second is the last. Removing, replacing and counting looks at the message as received; of two edits of the
/// same line's value the later one counts. [`HeaderName::Other`] and [`HeaderName::Invalid`] name no header field:
/// edits of them do nothing.
#[derive(Debug)]
pub struct Patch<'m, 'a> {
    message: &'m Message<'a>,
    /// In the order in which they are written.
    edits: SmallVec<[Edit; 8]>,
    /// The new text of all edits.
    text: Vec<u8>,
}

/// Some bytes of the message, perhaps none, and what stands in their place.
#[derive(Clone, Debug)]
struct Edit {
    place: Range<u32>,
    text: Range<u32>,
    kind: Kind,
    name: HeaderName,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A line above the first of its name.
    Prepend,
    /// A line at the end of the header.
    Append,
    /// A line that [`Patch::replace`] had to add.
    Add,
    /// Another value in place of one.
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

impl<'m, 'a> Patch<'m, 'a> {
    /// No edits yet.
    pub fn new(message: &'m Message<'a>) -> Self {
        Self::with_scratch(message, Vec::new())
    }

    /// No edits yet; `scratch` is emptied and used to hold the new text, [`Patch::into_scratch`] gives it back. So one
    /// allocation serves many messages.
    pub fn with_scratch(message: &'m Message<'a>, mut scratch: Vec<u8>) -> Self {
        scratch.clear();
        Self {
            message,
            edits: SmallVec::new(),
            text: scratch,
        }
    }

    /// The buffer of [`Patch::with_scratch`].
    pub fn into_scratch(self) -> Vec<u8> {
        self.text
    }

    /// Replaces the Request-URI; nothing in a response.
    pub fn request_uri(&mut self, uri: &[u8]) -> &mut Self {
        if !self.message.is_request() {
            return self;
        }
        let old = self.message.request_uri();
        let start = offset_in(self.message.bytes(), old);
        self.edits.retain(|edit| edit.kind != Kind::Uri);
        let text = self.write_text(|text| push_value(text, uri));
        self.push(start..start + old.len(), text, Kind::Uri, HeaderName::Other);
        self
    }

    /// Sets Max-Forwards: replaced where present, added where not.
    pub fn max_forwards(&mut self, value: u8) -> &mut Self {
        self.replace_with(HeaderName::MaxForwards, |text| {
            push_number(text, u32::from(value))
        })
    }

    /// Adds a header field value above the first of that name (Via, Record-Route, Route, Path), as a line of its own; where none
    /// is present: below the Vias (or at the top for Via).
    pub fn prepend(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.prepend_with(name, |text| push_value(text, value))
    }

    /// The same, formatting in place.
    pub fn prepend_with(
        &mut self,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        if !is_named(name) {
            return self;
        }
        let place = self.place_above(name);
        let text = self.write_text(|text| push_line_with(text, name.as_str().as_bytes(), write));
        self.push(place..place, text, Kind::Prepend, name);
        self
    }

    /// Adds a header field as the last one.
    pub fn append(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.append_with(name, |text| push_value(text, value))
    }

    /// The same, formatting in place.
    pub fn append_with(&mut self, name: HeaderName, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        if is_named(name) {
            self.append_line(name, name.as_str().as_bytes(), Kind::Append, write);
        }
        self
    }

    /// Adds a header field under any name as the last one.
    pub fn append_raw(&mut self, name: &[u8], value: &[u8]) -> &mut Self {
        self.append_line(HeaderName::Other, name, Kind::Append, |text| {
            push_value(text, value)
        });
        self
    }

    /// Removes the first `count` values of a comma-listed header (pop Via, pop Route), lines and commas kept right. Called
    /// again it removes the next ones.
    pub fn remove_first_values(&mut self, name: HeaderName, count: usize) -> &mut Self {
        for _ in 0..count {
            let first = self.kept_values(name).next();
            let Some(value) = first else {
                break;
            };
            self.remove_value(name, &value);
        }
        self
    }

    /// Removes the last value (strict-route repair).
    pub fn remove_last_value(&mut self, name: HeaderName) -> &mut Self {
        let last = self.kept_values(name).last();
        if let Some(value) = last {
            self.remove_value(name, &value);
        }
        self
    }

    /// Removes all lines of that header, those added by this patch too.
    pub fn remove(&mut self, name: HeaderName) -> &mut Self {
        if !is_named(name) {
            return self;
        }
        self.edits.retain(|edit| edit.name != name);
        for (index, line) in self.message.lines_of(name) {
            let place = line.start as usize..self.message.line_end(index);
            self.push(place, 0..0, Kind::Remove, name);
        }
        self
    }

    /// Replaces the value of the first header field of that name, added where not present.
    pub fn replace(&mut self, name: HeaderName, value: &[u8]) -> &mut Self {
        self.replace_with(name, |text| push_value(text, value))
    }

    /// The same, formatting in place.
    pub fn replace_with(
        &mut self,
        name: HeaderName,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        if !is_named(name) {
            return self;
        }
        self.edits
            .retain(|edit| edit.name != name || edit.kind != Kind::Add);
        let line = self
            .message
            .lines_of(name)
            .find(|(_, line)| !self.is_removed(line.start))
            .map(|(_, line)| *line);
        let Some(Line {
            value_start,
            value_end,
            ..
        }) = line
        else {
            self.append_line(name, name.as_str().as_bytes(), Kind::Add, write);
            return self;
        };
        self.edits.retain(|edit| {
            !matches!(edit.kind, Kind::Replace | Kind::Trim)
                || edit.place.end < value_start
                || edit.place.start > value_end
        });
        let text = self.write_text(write);
        self.push(
            value_start as usize..value_end as usize,
            text,
            Kind::Replace,
            name,
        );
        self
    }

    /// Adds `received` and fills in `rport` of the topmost Via (RFC 3261 18.2.1, RFC 3581): `received` when the sent-by host
    /// differs from the source address or rport was asked for; an existing `received` is replaced.
    pub fn top_via_source(&mut self, source: std::net::SocketAddr) -> &mut Self {
        let Some(via) = self.message.top_via() else {
            return self;
        };
        let start = offset_in(self.message.bytes(), via.bytes);
        if self.is_removed(offset(start)) {
            return self;
        }
        self.edits
            .retain(|edit| edit.name != HeaderName::Via || edit.kind != Kind::Replace);
        let text = self.write_text(|text| push_completed_via(text, &via, source));
        self.push(
            start..start + via.bytes.len(),
            text,
            Kind::Replace,
            HeaderName::Via,
        );
        self
    }

    /// Replaces the body and Content-Length.
    pub fn body(&mut self, body: &[u8]) -> &mut Self {
        self.replace_with(HeaderName::ContentLength, |text| {
            push_number(text, u32::try_from(body.len()).unwrap_or(u32::MAX))
        });
        for (index, line) in self.message.lines_of(HeaderName::ContentLength).skip(1) {
            let place = line.start as usize..self.message.line_end(index);
            self.push(place, 0..0, Kind::Remove, HeaderName::ContentLength);
        }
        self.edits.retain(|edit| edit.kind != Kind::Body);
        let text = self.write_text(|text| text.extend_from_slice(body));
        let layout = self.message.layout;
        self.push(
            layout.body_start..layout.body_end,
            text,
            Kind::Body,
            HeaderName::Other,
        );
        self
    }

    /// Appends the edited message to `into`. Octets behind the body of a datagram and line ends before the start line are left
    /// out.
    pub fn write(&self, into: &mut Vec<u8>) {
        let layout = self.message.layout;
        let bytes = self.message.bytes();
        into.reserve(bytes.len() + self.text.len());
        // A message that ends within its header can be answered, not forwarded; what is added must not run into its last line.
        let unterminated = layout.headers_end == layout.body_start;
        let mut copied = layout.start;
        for edit in &self.edits {
            let place = edit.place.start as usize..edit.place.end as usize;
            into.extend_from_slice(bytes.get(copied..place.start).unwrap_or_default());
            copied = copied.max(place.start);
            if unterminated && place.start >= layout.headers_end {
                if into.last() != Some(&b'\n') {
                    into.extend_from_slice(b"\r\n");
                }
                if edit.kind == Kind::Body {
                    into.extend_from_slice(b"\r\n");
                }
            }
            into.extend_from_slice(
                self.text
                    .get(edit.text.start as usize..edit.text.end as usize)
                    .unwrap_or_default(),
            );
            copied = copied.max(place.end);
        }
        into.extend_from_slice(bytes.get(copied..layout.body_end).unwrap_or_default());
    }

    /// Where a line above the first of that name begins.
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
        let text = self.write_text(|text| push_line_with(text, name_bytes, write));
        self.push(end..end, text, kind, name);
    }

    /// The values that no edit has removed, as ranges, each with its line.
    fn kept_values(&self, name: HeaderName) -> impl Iterator<Item = ValuePlace> {
        self.message.lines_of(name).flat_map(move |(index, line)| {
            values_of(self.message, line)
                .filter(|place| !self.is_removed(offset(place.start)))
                .map(move |place| ValuePlace { line: index, place })
        })
    }

    /// Removes one value, the first or last of those that are left in its line, together with the comma.
    fn remove_value(&mut self, name: HeaderName, value: &ValuePlace) {
        let Some(line) = self.message.lines.get(value.line).copied() else {
            return;
        };
        let kept: SmallVec<[Range<usize>; 8]> = values_of(self.message, &line)
            .filter(|place| *place != value.place && !self.is_removed(offset(place.start)))
            .collect();
        let line_place = line.start as usize..self.message.line_end(value.line);
        self.edits.retain(|edit| {
            let inside = edit.place.start as usize >= line.value_start as usize
                && edit.place.end as usize <= line_place.end;
            // The completed topmost Via may stay while others of its line go.
            let survives = edit.kind == Kind::Replace
                && kept
                    .iter()
                    .any(|place| *place == (edit.place.start as usize..edit.place.end as usize));
            !inside || survives || !matches!(edit.kind, Kind::Replace | Kind::Trim)
        });
        match (kept.first(), kept.last()) {
            (Some(first), Some(last)) => {
                let (start, end) = (first.start, last.end);
                if start > line.value_start as usize {
                    self.push(line.value_start as usize..start, 0..0, Kind::Trim, name);
                }
                if end < line.value_end as usize {
                    self.push(end..line.value_end as usize, 0..0, Kind::Trim, name);
                }
            }
            _ => self.push(line_place, 0..0, Kind::Remove, name),
        }
    }

    /// Whether the octet at that place is gone.
    fn is_removed(&self, at: u32) -> bool {
        self.edits
            .iter()
            .any(|edit| matches!(edit.kind, Kind::Trim | Kind::Remove) && edit.place.contains(&at))
    }

    fn write_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Range<u32> {
        if self.text.capacity() == 0 {
            self.text.reserve(512);
        }
        let start = offset(self.text.len());
        write(&mut self.text);
        start..offset(self.text.len())
    }

    /// Puts an edit where it is written: by place, then in the order made; a prepended line above those of the same name, the
    /// body behind everything.
    fn push(&mut self, place: Range<usize>, text: Range<u32>, kind: Kind, name: HeaderName) {
        let edit = Edit {
            place: offset(place.start)..offset(place.end),
            text,
            kind,
            name,
        };
        let above = |other: &Edit| match other.place.start.cmp(&edit.place.start) {
            std::cmp::Ordering::Equal => {
                (kind == Kind::Prepend && other.kind == Kind::Prepend && other.name == name)
                    || (other.kind == Kind::Body && kind != Kind::Body)
            }
            order => order.is_gt(),
        };
        let index = self
            .edits
            .iter()
            .position(above)
            .unwrap_or(self.edits.len());
        self.edits.insert(index, edit);
    }
}

/// One value of a comma list.
struct ValuePlace {
    /// Index of its line.
    line: usize,
    /// Where it lies.
    place: Range<usize>,
}

fn values_of(message: &Message<'_>, line: &Line) -> impl Iterator<Item = Range<usize>> {
    let bytes = message.bytes();
    List::new(message.value_of(line)).map(move |value| {
        let start = offset_in(bytes, value);
        start..start + value.len()
    })
}

/// Whether it stands for one header field.
fn is_named(name: HeaderName) -> bool {
    !matches!(name, HeaderName::Other | HeaderName::Invalid)
}

/// The parser bounds the length of messages, so offsets fit.
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
