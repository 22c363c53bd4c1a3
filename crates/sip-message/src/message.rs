//! The lazily parsed message. One pass finds where each header field is. Values that are needed often are parsed once, on first
//! use.
use crate::grammar::{List, find, parse_u32, split_at};
use crate::scan::{Line, Scanned, scan_line};
use crate::{CSeq, HeaderName, Method, NameAddr, Uri, Via};
use smallvec::SmallVec;
use start_line::StartLine;
use std::cell::OnceCell;

pub(crate) mod start_line;

/// The longest message that is parsed, in bytes.
const MAX_LENGTH: usize = 256 * 1024;
/// Maximum number of header field lines.
const MAX_HEADERS: usize = 512;
/// Number of header field lines that fit without a heap allocation.
const INLINE_HEADERS: usize = 40;
/// In [`Message::first`]: no such header field.
const ABSENT: u8 = u8::MAX;
/// In [`Message::first`]: there is one, at this index or later.
const FAR: u8 = u8::MAX - 1;

/// A parsed message that borrows its bytes.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    pub(crate) start_line: StartLine<'a>,
    pub(crate) lines: SmallVec<[Line; INLINE_HEADERS]>,
    /// Index of the first line of each header field name.
    first: [u8; HeaderName::COUNT],
    /// One bit for each name that occurs on more than one line.
    repeated: u64,
    pub(crate) layout: Layout,
    parsed: Parsed<'a>,
}

/// Values parsed so far. An inner `None` means that the value is missing or malformed.
#[derive(Clone, Debug, Default)]
struct Parsed<'a> {
    uri: OnceCell<Option<Uri<'a>>>,
    top_via: OnceCell<Option<Via<'a>>>,
    from: OnceCell<Option<NameAddr<'a>>>,
    from_uri: OnceCell<Option<Uri<'a>>>,
    to: OnceCell<Option<NameAddr<'a>>>,
    to_uri: OnceCell<Option<Uri<'a>>>,
    cseq: OnceCell<Option<CSeq<'a>>>,
    top_route: OnceCell<Option<Uri<'a>>>,
}

/// Offsets of the parts of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// First byte of the start line. Leading line ends are not part of the message.
    pub(crate) start: usize,
    /// End of the last header field line.
    pub(crate) headers_end: usize,
    /// End of the empty line; equal to `headers_end` if it is missing.
    pub(crate) body_start: usize,
    pub(crate) body_end: usize,
    /// The value of Content-Length, if it is a single number.
    pub(crate) content_length: Option<u32>,
}

/// One header field line (folded lines included).
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The known name.
    pub name: HeaderName,
    /// The name as received.
    pub name_bytes: &'a [u8],
    /// The value, trimmed on both sides. Folds are kept.
    pub value: &'a [u8],
}

/// Why bytes are not a message: there is no start line of any SIP version, or a limit is exceeded. Bytes without a start line
/// cannot be answered: drop and count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what is wrong")]
pub enum ParseError {
    Empty,
    NotSip,
    TooManyHeaders,
    TooLong,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Empty => "nothing but line ends",
            Self::NotSip => "no SIP start line",
            Self::TooManyHeaders => "too many header fields",
            Self::TooLong => "message too long",
        })
    }
}

impl std::error::Error for ParseError {}

impl<'a> Message<'a> {
    /// Finds the start line, the header fields and the body. It is tolerant: it accepts messages that can be answered with 4xx,
    /// and [`Message::validate`] checks them. Leading line ends are skipped (RFC 3261 section 7.5). The limits are 256 KiB and
    /// 512 header field lines.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        if bytes.len() > MAX_LENGTH {
            return Err(ParseError::TooLong);
        }
        let start = bytes
            .iter()
            .position(|octet| !matches!(octet, b'\r' | b'\n'))
            .ok_or(ParseError::Empty)?;
        let (line, headers_start) = split_line(bytes, start);
        let start_line = StartLine::parse(line).ok_or(ParseError::NotSip)?;
        // Built in place: the message is large enough that a copy would cost measurable time.
        let mut message = Ok(Self {
            bytes,
            start_line,
            lines: SmallVec::new(),
            first: [ABSENT; HeaderName::COUNT],
            repeated: 0,
            layout: Layout {
                start,
                headers_end: headers_start,
                body_start: headers_start,
                body_end: bytes.len(),
                content_length: None,
            },
            parsed: Parsed::default(),
        });
        let scanned = message.as_mut().map_or(Ok(()), Self::scan_headers);
        if let Err(error) = scanned {
            message = Err(error);
        }
        message
    }

    /// The number of header field lines.
    pub fn header_count(&self) -> usize {
        self.lines.len()
    }

    fn scan_headers(&mut self) -> Result<(), ParseError> {
        let mut position = self.layout.headers_end;
        loop {
            match scan_line(self.bytes, position) {
                Scanned::Line(line, end) => {
                    if self.lines.len() == MAX_HEADERS {
                        return Err(ParseError::TooManyHeaders);
                    }
                    self.note(line.name);
                    self.lines.push(line);
                    position = end;
                }
                Scanned::Empty(length) => {
                    self.layout.headers_end = position;
                    self.layout.body_start = position + length;
                    break;
                }
                Scanned::End => {
                    self.layout.headers_end = position;
                    self.layout.body_start = position;
                    break;
                }
            }
        }
        self.layout.content_length = self.header(HeaderName::ContentLength).and_then(parse_u32);
        if let Some(length) = self.layout.content_length {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            self.layout.body_end = self
                .layout
                .body_start
                .saturating_add(length)
                .min(self.bytes.len());
        }
        Ok(())
    }

    /// Records the name of the next line.
    #[inline]
    fn note(&mut self, name: HeaderName) {
        let index = u8::try_from(self.lines.len()).unwrap_or(FAR).min(FAR);
        if let Some(first) = self.first.get_mut(name as usize) {
            if *first == ABSENT {
                *first = index;
            } else {
                self.repeated |= 1 << name as u32;
            }
        }
    }

    /// All bytes, as received.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether this is a request.
    pub fn is_request(&self) -> bool {
        matches!(self.start_line, StartLine::Request { .. })
    }

    /// The method of the request line, or of `CSeq` in a response (an empty token if that is missing).
    pub fn method(&self) -> Method<'a> {
        match self.start_line {
            StartLine::Request { method, .. } => method,
            StartLine::Response { .. } => {
                self.cseq().map_or(Method::Other(b""), |cseq| cseq.method)
            }
        }
    }

    /// The Request-URI as received; empty in a response.
    pub fn request_uri(&self) -> &'a [u8] {
        match self.start_line {
            StartLine::Request { uri, .. } => uri,
            StartLine::Response { .. } => b"",
        }
    }

    /// The Request-URI, parsed; `None` in a response.
    pub fn uri(&self) -> Option<&Uri<'a>> {
        self.parsed
            .uri
            .get_or_init(|| Uri::parse(self.request_uri()))
            .as_ref()
    }

    /// The status code; 0 in a request.
    pub fn status(&self) -> u16 {
        match self.start_line {
            StartLine::Request { .. } => 0,
            StartLine::Response { status, .. } => status,
        }
    }

    /// The reason phrase; empty in a request.
    pub fn reason(&self) -> &'a [u8] {
        match self.start_line {
            StartLine::Request { .. } => b"",
            StartLine::Response { reason, .. } => reason,
        }
    }

    /// All header fields, in order.
    pub fn headers(&self) -> impl Iterator<Item = Header<'a>> + '_ {
        self.lines.iter().map(|line| Header {
            name: line.name,
            name_bytes: self.slice(line.start, line.start + u32::from(line.name_length)),
            value: self.value_of(line),
        })
    }

    /// The value of the first header field with this name.
    #[inline]
    pub fn header(&self, name: HeaderName) -> Option<&'a [u8]> {
        self.lines_of(name)
            .next()
            .map(|(_, line)| self.value_of(line))
    }

    /// The single values of a comma-separated header field over all its lines, in order. Commas inside quotes and angle brackets
    /// do not separate. A header field that is not a comma list ([`HeaderName::is_comma_list`]) yields the value of each line.
    pub fn values(&self, name: HeaderName) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.lines_of(name).flat_map(move |(_, line)| {
            let value = self.value_of(line);
            let (list, single) = if name.is_comma_list() {
                (Some(List::new(value)), None)
            } else {
                (None, Some(value))
            };
            list.into_iter().flatten().chain(single)
        })
    }

    /// Whether a token list (Supported, Require …) contains a token, ignoring case.
    pub fn lists_token(&self, name: HeaderName, token: &[u8]) -> bool {
        self.values(name)
            .any(|value| value.eq_ignore_ascii_case(token))
    }

    /// Call-ID, as received.
    pub fn call_id(&self) -> Option<&'a [u8]> {
        self.header(HeaderName::CallId)
    }

    /// `CSeq`.
    pub fn cseq(&self) -> Option<CSeq<'a>> {
        *self
            .parsed
            .cseq
            .get_or_init(|| CSeq::parse(self.header(HeaderName::CSeq)?))
    }

    /// From.
    pub fn from(&self) -> Option<NameAddr<'a>> {
        *self
            .parsed
            .from
            .get_or_init(|| NameAddr::parse(self.header(HeaderName::From)?))
    }

    /// The URI in From.
    pub fn from_uri(&self) -> Option<&Uri<'a>> {
        self.parsed
            .from_uri
            .get_or_init(|| self.from()?.uri())
            .as_ref()
    }

    /// To.
    pub fn to(&self) -> Option<NameAddr<'a>> {
        *self
            .parsed
            .to
            .get_or_init(|| NameAddr::parse(self.header(HeaderName::To)?))
    }

    /// The URI in To.
    pub fn to_uri(&self) -> Option<&Uri<'a>> {
        self.parsed.to_uri.get_or_init(|| self.to()?.uri()).as_ref()
    }

    /// The topmost Via value.
    pub fn top_via(&self) -> Option<Via<'a>> {
        *self
            .parsed
            .top_via
            .get_or_init(|| Via::parse(List::new(self.header(HeaderName::Via)?).next()?))
    }

    /// The URI of the topmost Route value.
    pub fn top_route(&self) -> Option<&Uri<'a>> {
        self.parsed
            .top_route
            .get_or_init(|| NameAddr::parse(self.values(HeaderName::Route).next()?)?.uri())
            .as_ref()
    }

    /// Max-Forwards: `None` if absent, `Some(None)` if malformed.
    pub fn max_forwards(&self) -> Option<Option<u8>> {
        self.header(HeaderName::MaxForwards)
            .map(|value| u8::try_from(parse_u32(value)?).ok())
    }

    /// Expires: `None` if absent, `Some(None)` if malformed or above 2^32-1.
    pub fn expires(&self) -> Option<Option<u32>> {
        self.header(HeaderName::Expires).map(parse_u32)
    }

    /// The body: as many bytes as Content-Length says, else the rest of the datagram.
    pub fn body(&self) -> &'a [u8] {
        self.bytes
            .get(self.layout.body_start..self.layout.body_end)
            .unwrap_or_default()
    }

    /// Whether any header field name occurs on several lines.
    pub(crate) fn has_repeated_names(&self) -> bool {
        self.repeated != 0
    }

    /// Whether this name occurs on several lines.
    pub(crate) fn is_repeated(&self, name: HeaderName) -> bool {
        self.repeated & (1 << name as u32) != 0
    }

    /// The lines with this name, and their indexes.
    #[inline]
    pub(crate) fn lines_of(&self, name: HeaderName) -> impl Iterator<Item = (usize, &Line)> {
        let first = self.first.get(name as usize).copied().unwrap_or(ABSENT);
        let (from, to) = match first {
            ABSENT => (0, 0),
            first if !self.is_repeated(name) && first != FAR => {
                (usize::from(first), usize::from(first) + 1)
            }
            first => (usize::from(first), self.lines.len()),
        };
        let lines = self.lines.get(from..to).unwrap_or_default();
        (from..)
            .zip(lines)
            .filter(move |(_, line)| line.name == name)
    }

    /// The end of a line, including its line end: the start of the next line.
    pub(crate) fn line_end(&self, index: usize) -> usize {
        self.lines
            .get(index + 1)
            .map_or(self.layout.headers_end, |next| next.start as usize)
    }

    #[inline]
    pub(crate) fn value_of(&self, line: &Line) -> &'a [u8] {
        self.slice(line.value_start, line.value_end)
    }

    #[inline]
    fn slice(&self, start: u32, end: u32) -> &'a [u8] {
        self.bytes
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }
}

/// The line at `start` without its line end, and the start of the next line.
fn split_line(bytes: &[u8], start: usize) -> (&[u8], usize) {
    let (_, rest) = split_at(bytes, start);
    let Some(line_feed) = find(b'\n', rest) else {
        return (rest, bytes.len());
    };
    let (line, _) = split_at(rest, line_feed);
    (
        line.strip_suffix(b"\r").unwrap_or(line),
        start + line_feed + 1,
    )
}
