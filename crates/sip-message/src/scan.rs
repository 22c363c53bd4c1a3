//! Finds header field lines. The parser and the stream framing share this code, so they cannot disagree about where a line ends.
use crate::HeaderName;
use crate::grammar::{find, is_token_char, split_at, take_while, trim_end, trim_start};
use crate::header::known_at_start;

/// The longest name of a header field, in bytes.
const MAX_NAME: usize = 255;

/// One header field line with its folds, as offsets into the message. It ends where the next line begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// First byte of the name.
    pub(crate) start: u32,
    /// The value without surrounding white space.
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    /// Length of the name as received.
    pub(crate) name_length: u8,
    pub(crate) name: HeaderName,
}

/// The result of scanning at the beginning of a line.
pub(crate) enum Scanned {
    /// A line, and the offset of the next one.
    Line(Line, usize),
    /// The empty line that ends the header fields, of this many bytes (CRLF or LF).
    Empty(usize),
    /// The bytes end without an empty line.
    End,
}

/// Scans the line at `start`. Lines end with CRLF; a bare LF is tolerated. A line that begins with a space or tab continues the
/// previous one.
#[inline]
pub(crate) fn scan_line(bytes: &[u8], start: usize) -> Scanned {
    let (_, rest) = split_at(bytes, start);
    match rest {
        [] => return Scanned::End,
        [b'\r', b'\n', ..] => return Scanned::Empty(2),
        [b'\n', ..] => return Scanned::Empty(1),
        _ => {}
    }
    let (name, name_length, value_start) = scan_name(rest);
    let mut end = if name == HeaderName::Invalid {
        0
    } else {
        value_start
    };
    loop {
        match find(b'\n', split_at(rest, end).1) {
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
    let trimmed = trim_end(value);
    let value_end = value_start + trimmed.len();
    let value_start = value_end - trim_start(trimmed).len();
    let line = Line {
        start: offset(start),
        value_start: offset(start + value_start),
        value_end: offset(start + value_end),
        name_length: name_length as u8,
        name,
    };
    Scanned::Line(line, start + end)
}

/// The name of a line, its length, and the offset of the value. A line that is not a header field has no value.
#[inline]
pub(crate) fn scan_name(line: &[u8]) -> (HeaderName, usize, usize) {
    match known_at_start(line) {
        Some((name, length)) => (name, length, length + 1),
        None => scan_unusual_name(line),
    }
}

/// Scans names that are long, unknown, followed by white space, or invalid.
fn scan_unusual_name(line: &[u8]) -> (HeaderName, usize, usize) {
    let (name, rest) = take_while(line, is_token_char);
    let spaces = rest
        .iter()
        .take_while(|octet| matches!(octet, b' ' | b'\t'))
        .count();
    if name.is_empty() || name.len() > MAX_NAME || rest.get(spaces) != Some(&b':') {
        return (HeaderName::Invalid, name.len().min(MAX_NAME), line.len());
    }
    (
        HeaderName::from_bytes(name),
        name.len(),
        name.len() + spaces + 1,
    )
}

/// Offsets fit because the parser limits the length of its input.
#[inline]
fn offset(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
