//! Finds whole SIP messages in the frames of a WebSocket (RFC 6455 sections 5 and 7, RFC 7118 section 4).
use super::close::CloseCode;
use super::frame::{Opcode, Received, Role};
use super::mask;
use std::borrow::Cow;
use std::fmt;

/// Why a WebSocket can't go on: a Close with [`FrameError::close_code`] is sent, and the connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A bit is set that only an extension would give a meaning.
    ReservedBits,
    /// A frame of an unknown kind.
    Opcode,
    /// A client that does not mask, or a server that does.
    Mask,
    /// A control frame that is fragmented, or longer than 125 octets.
    Control,
    /// A length that is not said in as few octets as possible, or has its highest bit set.
    Length,
    /// A continuation of nothing, or a new message before the last fragment of the one before.
    Fragment,
    /// A message longer than the receiver takes.
    TooBig,
    /// A Close with half a status code, or one that must not be sent.
    Close,
    /// A Close whose reason is not UTF-8.
    Reason,
    /// A text message that is not UTF-8.
    Text,
}

impl FrameError {
    /// The status code that tells the peer.
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::TooBig => CloseCode::TOO_BIG,
            Self::Reason | Self::Text => CloseCode::INVALID_PAYLOAD,
            _ => CloseCode::PROTOCOL_ERROR,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReservedBits => "reserved bits are set",
            Self::Opcode => "unknown opcode",
            Self::Mask => "masked by a server, or not masked by a client",
            Self::Control => "fragmented or overlong control frame",
            Self::Length => "length not in its shortest form",
            Self::Fragment => "fragment out of place",
            Self::TooBig => "message too big",
            Self::Close => "bad close code",
            Self::Reason => "close reason is not UTF-8",
            Self::Text => "text is not UTF-8",
        })
    }
}

impl std::error::Error for FrameError {}

/// What the frames at the beginning of the buffer amount to.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing whole yet.
    Incomplete,
    /// A whole SIP message, or the line ends that some clients send as a keep-alive. It is owned if it came in fragments.
    /// Text is UTF-8 (section 8.1).
    Message(Cow<'a, [u8]>),
    /// To be answered by a Pong with this payload.
    Ping(&'a [u8]),
    /// An answer to a Ping, or a sign of life. Nothing to do.
    Pong,
    /// To be answered by a Close with the same code, unless one has been sent; then the connection is closed. Nothing that
    /// follows is to be read.
    Close(Option<CloseCode>),
}

/// One step of a [`Decoder`].
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// That many bytes at the beginning of the buffer are done with, also where the event is [`Event::Incomplete`]: fragments
    /// are kept by the decoder.
    pub consumed: usize,
    /// What they were.
    pub event: Event<'a>,
}

/// One direction of a WebSocket: the fragments of the message that is on its way, and bounds.
#[derive(Clone, Debug)]
pub struct Decoder {
    sender: Role,
    max_message: usize,
    fragments: Option<Vec<u8>>,
    /// Whether the fragments are of a text message.
    is_text: bool,
}

impl Decoder {
    /// For what `sender` sends, with a bound on a message in bytes.
    pub const fn new(sender: Role, max_message: usize) -> Self {
        Self {
            sender,
            max_message,
            fragments: None,
            is_text: false,
        }
    }

    /// Whether a message has come in part: its fragments are kept here.
    pub const fn is_in_message(&self) -> bool {
        self.fragments.is_some()
    }

    /// Bytes of memory that its fragments take.
    pub fn kept(&self) -> usize {
        self.fragments.as_ref().map_or(0, Vec::capacity)
    }

    /// Looks at all bytes buffered so far, the first not yet consumed one first, and unmasks in place. What it says to be
    /// consumed is to be removed before the next call. A frame that is too big is refused by its header: no more than a message
    /// of the greatest size and a header need ever be buffered.
    pub fn next<'a>(&mut self, buffered: &'a mut [u8]) -> Result<Decoded<'a>, FrameError> {
        let mut rest = buffered;
        let mut consumed = 0;
        while let Some((frame, size)) = self.whole_frame(rest)? {
            let (octets, after) = std::mem::take(&mut rest)
                .split_at_mut_checked(size)
                .unwrap_or_default();
            rest = after;
            consumed += size;
            let payload = octets
                .get_mut(frame.header.unwrap_or_default()..)
                .unwrap_or_default();
            if let Some(key) = frame.mask {
                mask::apply(payload, key);
            }
            if let Some(event) = self.frame(frame, payload)? {
                return Ok(Decoded { consumed, event });
            }
        }
        Ok(Decoded {
            consumed,
            event: Event::Incomplete,
        })
    }

    /// The frame at the beginning, if it is there to its end: its header, and its size with it.
    fn whole_frame(&self, buffered: &[u8]) -> Result<Option<(Received, usize)>, FrameError> {
        let Some(frame) = Received::read(buffered, self.sender)? else {
            return Ok(None);
        };
        if !frame.opcode.is_control() {
            self.check_data(frame)?;
        }
        let size = frame
            .header
            .and_then(|header| header.checked_add(usize::try_from(frame.length).ok()?))
            .filter(|size| *size <= buffered.len());
        Ok(size.map(|size| (frame, size)))
    }

    /// A data frame must continue what has begun, and must not make it too long.
    fn check_data(&self, frame: Received) -> Result<(), FrameError> {
        let is_continuation = frame.opcode == Opcode::Continuation;
        if is_continuation != self.fragments.is_some() {
            return Err(FrameError::Fragment);
        }
        let before = self.fragments.as_ref().map_or(0, Vec::len);
        let left = self.max_message.saturating_sub(before);
        if usize::try_from(frame.length).is_ok_and(|length| length <= left) {
            Ok(())
        } else {
            Err(FrameError::TooBig)
        }
    }

    /// One whole frame; `None`: a fragment that is not the last.
    fn frame<'a>(
        &mut self,
        frame: Received,
        payload: &'a [u8],
    ) -> Result<Option<Event<'a>>, FrameError> {
        match frame.opcode {
            Opcode::Ping => Ok(Some(Event::Ping(payload))),
            Opcode::Pong => Ok(Some(Event::Pong)),
            Opcode::Close => close_code(payload).map(|code| Some(Event::Close(code))),
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                if frame.opcode != Opcode::Continuation {
                    self.is_text = frame.opcode == Opcode::Text;
                }
                self.data(frame.is_final, payload)
            }
        }
    }

    fn data<'a>(
        &mut self,
        is_final: bool,
        payload: &'a [u8],
    ) -> Result<Option<Event<'a>>, FrameError> {
        let message = match (self.fragments.take(), is_final) {
            (None, true) => Cow::Borrowed(payload),
            (fragments, is_final) => {
                let mut message = fragments.unwrap_or_default();
                message.extend_from_slice(payload);
                if !is_final {
                    self.fragments = Some(message);
                    return Ok(None);
                }
                Cow::Owned(message)
            }
        };
        if self.is_text && std::str::from_utf8(&message).is_err() {
            return Err(FrameError::Text);
        }
        Ok(Some(Event::Message(message)))
    }
}

/// The status code of a Close frame; its reason is for people and must be UTF-8.
fn close_code(payload: &[u8]) -> Result<Option<CloseCode>, FrameError> {
    let Some((number, reason)) = payload.split_first_chunk::<2>() else {
        return if payload.is_empty() {
            Ok(None)
        } else {
            Err(FrameError::Close)
        };
    };
    let code = CloseCode::new(u16::from_be_bytes(*number)).ok_or(FrameError::Close)?;
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(FrameError::Reason),
    }
}
