//! A fast look at a message, for programs that see a million messages per second and need only the transaction of each.
//!
//! [`Message`](crate::Message) records where every header field is, so that any field can be read or patched. A glance keeps only
//! the few values that identify transactions, and skips all other lines. Both find the same values; `tests/glance.rs` checks
//! this.
use crate::grammar::{List, parse_u32, split_at, trim};
use crate::line_ends::LineEnds;
use crate::message::start_line::StartLine;
use crate::scan::scan_name;
use crate::{CSeq, HeaderName, Method, ParseError};

/// The longest message that is parsed, in bytes.
const MAX_LENGTH: usize = 256 * 1024;

/// The result of a glance. Of a repeated header field it has the first one. Values are as in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance<'a> {
    /// The method of the request line; `None` in a response.
    pub method: Option<Method<'a>>,
    /// The status code; 0 in a request.
    pub status: u16,
    /// Call-ID.
    pub call_id: Option<&'a [u8]>,
    /// `CSeq`.
    pub cseq: Option<&'a [u8]>,
    /// The topmost Via value.
    pub top_via: Option<&'a [u8]>,
    /// The second Via value.
    pub second_via: Option<&'a [u8]>,
    /// To.
    pub to: Option<&'a [u8]>,
    /// Whether there is an Authorization or a Proxy-Authorization header field.
    pub has_credentials: bool,
    /// Whether the empty line after the header fields is present.
    pub is_complete: bool,
    /// Bytes up to the end of the body, including leading line ends.
    pub length: usize,
}

impl<'a> Glance<'a> {
    /// Looks at a message. It is as tolerant as [`Message::parse`](crate::Message::parse), but has no limit on the number of
    /// header fields.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() > MAX_LENGTH {
            return Err(ParseError::TooLong);
        }
        let start = bytes
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'));
        let (_, message) = split_at(bytes, start.ok_or(ParseError::Empty)?);
        let mut line_ends = LineEnds::new(message);
        let line_feed = line_ends.next();
        let first_end = line_feed.unwrap_or(message.len());
        let (first, _) = split_at(message, first_end);
        // A CR without LF ends no line.
        let without_cr = first.strip_suffix(b"\r").filter(|_| line_feed.is_some());
        let first = without_cr.unwrap_or(first);
        let (method, status) = match StartLine::parse(first).ok_or(ParseError::NotSip)? {
            StartLine::Request { method, .. } => (Some(method), 0),
            StartLine::Response { status, .. } => (None, status),
        };
        let mut seen = Self {
            method,
            status,
            call_id: None,
            cseq: None,
            top_via: None,
            second_via: None,
            to: None,
            has_credentials: false,
            is_complete: false,
            length: bytes.len(),
        };
        let mut content_length = None;
        let mut line = first_end + 1;
        while line < message.len() {
            let (_, rest) = split_at(message, line);
            let empty = match rest {
                [b'\r', b'\n', ..] => 2,
                [b'\n', ..] => 1,
                _ => 0,
            };
            if empty > 0 {
                seen.is_complete = true;
                seen.end(
                    bytes.len() - rest.len() + empty,
                    content_length.and_then(parse_u32),
                    bytes,
                );
                break;
            }
            let mut end = line_ends.next().map_or(message.len(), |end| end + 1);
            // A line that begins with white space continues the previous one.
            while matches!(message.get(end), Some(b' ' | b'\t')) {
                end = line_ends.next().map_or(message.len(), |end| end + 1);
            }
            seen.field(rest, end - line, &mut content_length);
            line = end;
        }
        Ok(seen)
    }

    /// Sets the length from the offset of the body and Content-Length.
    fn end(&mut self, body: usize, content_length: Option<u32>, bytes: &[u8]) {
        if let Some(length) = content_length {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            self.length = body.saturating_add(length).min(bytes.len());
        }
    }

    /// Keeps the value of a header field if a glance needs it. `rest` begins with the line, which has this length.
    #[inline]
    fn field(&mut self, rest: &'a [u8], length: usize, content_length: &mut Option<&'a [u8]>) {
        let (name, value) = match usual_name(rest) {
            Some((name, length)) => (name, length + 1),
            None if !may_be_looked_for(rest) => return,
            None => {
                let (name, _, value) = scan_name(rest);
                (name, value.min(length))
            }
        };
        let (line, _) = split_at(rest, length);
        let value = trim_usual(split_at(line, value).1);
        match name {
            HeaderName::Via if self.second_via.is_none() => {
                for via in List::new(value).take(2) {
                    if self.top_via.is_none() {
                        self.top_via = Some(via);
                    } else {
                        self.second_via.get_or_insert(via);
                    }
                }
            }
            HeaderName::CallId => _ = self.call_id.get_or_insert(value),
            HeaderName::CSeq => _ = self.cseq.get_or_insert(value),
            HeaderName::To => _ = self.to.get_or_insert(value),
            HeaderName::ContentLength => _ = content_length.get_or_insert(value),
            HeaderName::Authorization | HeaderName::ProxyAuthorization => {
                self.has_credentials = true;
            }
            _ => {}
        }
    }

    /// `CSeq`, parsed.
    pub fn sequence(&self) -> Option<CSeq<'a>> {
        CSeq::parse(self.cseq?)
    }
}

/// The name of a line and the length of the name, if a glance needs it and it has its most common spelling.
#[inline]
fn usual_name(line: &[u8]) -> Option<(HeaderName, usize)> {
    match line {
        [b'V', b'i', b'a', b':', ..] => Some((HeaderName::Via, 3)),
        [b'T', b'o', b':', ..] => Some((HeaderName::To, 2)),
        [b'C', b'S', b'e', b'q', b':', ..] => Some((HeaderName::CSeq, 4)),
        [b'C', b'a', ..] if line.starts_with(b"Call-ID:") => Some((HeaderName::CallId, 7)),
        [b'C', b'o', ..] if line.starts_with(b"Content-Length:") => {
            Some((HeaderName::ContentLength, 14))
        }
        _ => None,
    }
}

/// Whether a line may be one that a glance needs, in another spelling: Via, Call-ID, `CSeq`, Content-Length, To,
/// (Proxy-)Authorization, and their compact forms.
#[inline]
fn may_be_looked_for(line: &[u8]) -> bool {
    matches!(
        line,
        [
            b'V' | b'v' | b'I' | b'i' | b'L' | b'l' | b'T' | b't',
            b':' | b' ' | b'\t',
            ..
        ] | [b'V' | b'v', b'I' | b'i', ..]
            | [b'T' | b't', b'O' | b'o', ..]
            | [b'C' | b'c', b'A' | b'a' | b'S' | b's', ..]
            | [b'C' | b'c', b'O' | b'o', _, _, b'E' | b'e', ..]
            | [b'P' | b'p', b'R' | b'r', ..]
            | [b'A' | b'a', b'U' | b'u', ..]
    )
}

/// Trims white space around a value. Fast for the common case: one space before it and a line end after it.
#[inline]
fn trim_usual(value: &[u8]) -> &[u8] {
    let value = value.strip_suffix(b"\r\n").unwrap_or(value);
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match (value.first(), value.last()) {
        (Some(b'!'..), Some(b'!'..)) => value,
        _ => trim(value),
    }
}
