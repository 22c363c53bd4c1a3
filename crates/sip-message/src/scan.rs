//! Finds header field lines. The parser and the stream framing share it, so they can't disagree about where a line ends.
use crate::HeaderName;
use crate::grammar::{is_token_char, split_at};
use memchr::memchr;

/// One header field line as offsets into the message, folds included. The line ends where the next begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// First octet of the name.
    pub(crate) start: u32,
    /// The value without white space around it.
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    /// Length of the name as written.
    pub(crate) name_length: u16,
    pub(crate) name: HeaderName,
}

/// What stands at a position where a header field line may begin.
pub(crate) enum Scanned {
    /// A line, and where the next begins.
    Line(Line, usize),
    /// The empty line that ends the header fields, of that many octets (CRLF or LF).
    Empty(usize),
    /// The bytes end without an empty line.
    End,
}

/// Looks at the line that begins at `start`. CRLF is the rule, a bare LF is tolerated; a line that begins with a space or
/// tab continues the one before.
#[inline]
pub(crate) fn scan_line(bytes: &[u8], start: usize) -> Scanned {
    let (_, rest) = split_at(bytes, start);
    match rest {
        [] => return Scanned::End,
        [b'\r', b'\n', ..] => return Scanned::Empty(2),
        [b'\n', ..] => return Scanned::Empty(1),
        _ => {}
    }
    let name_length = rest
        .iter()
        .position(|&octet| !is_token_char(octet))
        .unwrap_or(rest.len());
    let mut colon = name_length;
    while matches!(rest.get(colon), Some(b' ' | b'\t')) {
        colon += 1;
    }
    let (name, value_start) = match rest.get(colon) {
        Some(b':') => (classify(split_at(rest, name_length).0), colon + 1),
        // Not a header field: the line is kept as it is and has no value.
        _ => (HeaderName::Invalid, rest.len()),
    };
    let mut end = if name == HeaderName::Invalid {
        0
    } else {
        value_start
    };
    loop {
        match memchr(b'\n', split_at(rest, end).1) {
            None => {
                end = rest.len();
                break;
            }
            Some(found) => {
                end += found + 1;
                if !matches!(rest.get(end), Some(b' ' | b'\t')) {
                    break;
                }
            }
        }
    }
    let value_start = value_start.min(end);
    let value = split_at(split_at(rest, end).0, value_start).1;
    let trimmed = crate::grammar::trim_end(value);
    let value_end = value_start + trimmed.len();
    let value_start = value_end - crate::grammar::trim_start(trimmed).len();
    let line = Line {
        start: offset(start),
        value_start: offset(start + value_start),
        value_end: offset(start + value_end),
        name_length: u16::try_from(name_length).unwrap_or(0),
        name: if name_length > usize::from(u16::MAX) {
            HeaderName::Invalid
        } else {
            name
        },
    };
    Scanned::Line(line, start + end)
}

/// The name is made of token characters already.
#[inline]
fn classify(name: &[u8]) -> HeaderName {
    match HeaderName::known(name) {
        Some(name) => name,
        None if name.is_empty() => HeaderName::Invalid,
        None => HeaderName::Other,
    }
}

/// Offsets fit, as the parser bounds the length of what it looks at.
#[inline]
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
