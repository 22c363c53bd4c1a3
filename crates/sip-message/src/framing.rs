//! Splits a byte stream into messages (RFC 3261 section 18.3).
use crate::HeaderName;
use crate::grammar::{parse_u32, split_at};
use crate::message::start_line::is_start_line;
use crate::scan::{Scanned, scan_line};
use memchr::memchr;

/// The result of reading the beginning of a stream buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Not enough bytes yet; call again when more have arrived.
    Incomplete,
    /// A double CRLF keep-alive ping (RFC 5626 section 4.4.1) of this many bytes. Answer it with a CRLF. If the two CRLFs arrive
    /// apart, the first is a [`Frame::Crlf`] and the second is this.
    Ping(usize),
    /// A single CRLF (a pong, or noise between messages) of this many bytes.
    Crlf(usize),
    /// A complete message of this many bytes.
    Message(usize),
}

/// Why a stream cannot continue and must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what is wrong")]
pub enum FrameError {
    HeaderTooLong,
    BodyTooLong,
    BadContentLength,
    MissingContentLength,
    NotSip,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::HeaderTooLong => "header too long",
            Self::BodyTooLong => "body too long",
            Self::BadContentLength => "bad or conflicting Content-Length",
            Self::MissingContentLength => "no Content-Length",
            Self::NotSip => "not SIP",
        })
    }
}

impl std::error::Error for FrameError {}

/// The limits and the resumable state of one stream.
#[derive(Clone, Debug)]
pub struct Framer {
    pub(crate) max_header: usize,
    pub(crate) max_body: usize,
    state: State,
    /// The previous frame was a single CRLF: another one makes a ping.
    after_crlf: bool,
}

/// How much of the message at the beginning of the buffer has been scanned.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Looking for the end of the start line, which is not before this offset.
    StartLine(usize),
    /// Looking for the empty line. The current line begins at `line`, and its end is not before `scanned`.
    Header { line: usize, scanned: usize },
    /// The message ends at this offset.
    Body(usize),
}

impl Framer {
    /// Creates a framer with limits in bytes: on the start line and header fields, and on the body.
    pub const fn new(max_header: usize, max_body: usize) -> Self {
        Self {
            max_header,
            max_body,
            state: State::StartLine(0),
            after_crlf: false,
        }
    }

    /// The length in bytes of the message at the beginning of the buffer; `None` if its header is incomplete.
    pub const fn needed(&self) -> Option<usize> {
        match self.state {
            State::Body(end) => Some(end),
            State::StartLine(_) | State::Header { .. } => None,
        }
    }

    /// Finds the next frame in all bytes buffered so far. Consume each frame except `Incomplete` before the next call. Total work
    /// is linear in the length of the stream.
    pub fn next(&mut self, buffered: &[u8]) -> Result<Frame, FrameError> {
        loop {
            match self.state {
                State::StartLine(0) if matches!(buffered.first(), None | Some(b'\r' | b'\n')) => {
                    return self.line_end(buffered);
                }
                State::StartLine(scanned) => match self.start_line(buffered, scanned)? {
                    Some(state) => self.state = state,
                    None => return Ok(Frame::Incomplete),
                },
                State::Header { line, scanned } => match self.header(buffered, line, scanned)? {
                    Some(state) => self.state = state,
                    None => return Ok(Frame::Incomplete),
                },
                State::Body(end) if buffered.len() < end => return Ok(Frame::Incomplete),
                State::Body(end) => {
                    self.state = State::StartLine(0);
                    return Ok(Frame::Message(end));
                }
            }
        }
    }

    /// Handles line ends between messages.
    fn line_end(&mut self, buffered: &[u8]) -> Result<Frame, FrameError> {
        let after_crlf = std::mem::take(&mut self.after_crlf);
        match buffered {
            [b'\r', b'\n', ..] if after_crlf => Ok(Frame::Ping(2)),
            [b'\r', b'\n', b'\r', b'\n', ..] => Ok(Frame::Ping(4)),
            [b'\r', b'\n', ..] => {
                self.after_crlf = true;
                Ok(Frame::Crlf(2))
            }
            [b'\n', ..] => Ok(Frame::Crlf(1)),
            [] | [b'\r'] => {
                self.after_crlf = after_crlf;
                Ok(Frame::Incomplete)
            }
            _ => Err(FrameError::NotSip),
        }
    }

    /// Looks for the end of the start line. Rejects anything that is not SIP before more of it is buffered.
    fn start_line(&mut self, buffered: &[u8], scanned: usize) -> Result<Option<State>, FrameError> {
        self.after_crlf = false;
        if buffered
            .first()
            .is_some_and(|&octet| !crate::grammar::is_token_char(octet))
        {
            return Err(FrameError::NotSip);
        }
        let Some(found) = memchr(b'\n', split_at(buffered, scanned).1) else {
            self.state = State::StartLine(buffered.len());
            return self.bounded(buffered.len()).map(|()| None);
        };
        let end = scanned + found;
        self.bounded(end)?;
        if !is_start_line(split_at(buffered, end).0) {
            return Err(FrameError::NotSip);
        }
        Ok(Some(State::Header {
            line: end + 1,
            scanned: end + 1,
        }))
    }

    /// Looks for the empty line, line by line.
    fn header(
        &mut self,
        buffered: &[u8],
        mut line: usize,
        mut scanned: usize,
    ) -> Result<Option<State>, FrameError> {
        loop {
            match split_at(buffered, line).1 {
                [b'\r', b'\n', ..] => return self.end_of_header(buffered, line + 2).map(Some),
                [b'\n', ..] => return self.end_of_header(buffered, line + 1).map(Some),
                _ => {}
            }
            let Some(found) = memchr(b'\n', split_at(buffered, scanned).1) else {
                self.state = State::Header {
                    line,
                    scanned: buffered.len(),
                };
                return self.bounded(buffered.len()).map(|()| None);
            };
            line = scanned + found + 1;
            scanned = line;
            self.bounded(line)?;
        }
    }

    fn bounded(&self, header: usize) -> Result<(), FrameError> {
        if header > self.max_header {
            Err(FrameError::HeaderTooLong)
        } else {
            Ok(())
        }
    }

    /// Computes the end of the body from Content-Length after the header is complete.
    fn end_of_header(&self, buffered: &[u8], body_start: usize) -> Result<State, FrameError> {
        self.bounded(body_start)?;
        let (header, _) = split_at(buffered, body_start);
        let mut position = memchr(b'\n', header).map_or(header.len(), |end| end + 1);
        let mut length = None;
        while let Scanned::Line(line, next) = scan_line(header, position) {
            if line.name == HeaderName::ContentLength {
                let value = header
                    .get(line.value_start as usize..line.value_end as usize)
                    .unwrap_or_default();
                let number = parse_u32(value).ok_or(FrameError::BadContentLength)?;
                if length.is_some_and(|length| length != number) {
                    return Err(FrameError::BadContentLength);
                }
                length = Some(number);
            }
            position = next;
        }
        let length = length.ok_or(FrameError::MissingContentLength)?;
        match usize::try_from(length) {
            Ok(length) if length <= self.max_body => Ok(State::Body(body_start + length)),
            _ => Err(FrameError::BodyTooLong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_looked_at_is_not_looked_at_again() {
        let mut framer = Framer::new(1000, 1000);
        assert_eq!(framer.next(b"OPTIONS sip:h"), Ok(Frame::Incomplete));
        assert!(matches!(framer.state, State::StartLine(13)), "{framer:?}");
        assert_eq!(
            framer.next(b"OPTIONS sip:h SIP/2.0\r\nSubject: long"),
            Ok(Frame::Incomplete)
        );
        assert!(
            matches!(
                framer.state,
                State::Header {
                    line: 23,
                    scanned: 36
                }
            ),
            "{framer:?}"
        );
        assert_eq!(
            framer.next(b"OPTIONS sip:h SIP/2.0\r\nSubject: longer\r\nl: 5\r\n\r\n"),
            Ok(Frame::Incomplete)
        );
        assert!(matches!(framer.state, State::Body(53)), "{framer:?}");
    }
}
