//! Extracts complete SIP messages from WebSocket frames (RFC 6455 sections 5 and 7, RFC 7118 section 4).
use super::close::CloseCode;
use super::frame::{Opcode, Received, Role};
use super::mask;
use std::borrow::Cow;
use std::fmt;

/// Why a WebSocket fails. The receiver sends a Close with [`FrameError::close_code`] and closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A bit is set that only an extension could define.
    ReservedBits,
    /// An unknown opcode.
    Opcode,
    /// A client frame without a mask, or a server frame with one.
    Mask,
    /// A control frame that is fragmented or longer than 125 bytes.
    Control,
    /// A length that is not in its shortest form, or has its highest bit set.
    Length,
    /// A continuation without a message, or a new message before the last fragment of the previous one.
    Fragment,
    /// A message longer than the receiver accepts.
    TooBig,
    /// A Close with half a status code, or with one that must not be sent.
    Close,
    /// A Close whose reason is not UTF-8.
    Reason,
    /// A text message that is not UTF-8.
    Text,
}

impl FrameError {
    /// The status code to send to the peer.
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

/// The result of decoding the beginning of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// No complete frame or message yet.
    Incomplete,
    /// A complete SIP message, or the line ends that some clients send as a keep-alive. Owned if it arrived in fragments. Text is
    /// valid UTF-8 (section 8.1).
    Message(Cow<'a, [u8]>),
    /// Answer this with a Pong that has the same payload.
    Ping(&'a [u8]),
    /// The answer to a Ping, or an unsolicited keep-alive. Needs no action.
    Pong,
    /// Answer this with a Close that has the same code, unless one has been sent, then close the connection. Ignore everything
    /// that follows.
    Close(Option<CloseCode>),
}

/// One step of a [`Decoder`].
#[derive(Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Remove this many bytes from the beginning of the buffer, even if the event is [`Event::Incomplete`]: the decoder keeps
    /// fragments itself.
    pub consumed: usize,
    /// The event.
    pub event: Event<'a>,
}

/// One direction of a WebSocket: the fragments of the current message, and limits.
#[derive(Clone, Debug)]
pub struct Decoder {
    sender: Role,
    max_message: usize,
    fragments: Option<Vec<u8>>,
    /// Whether the fragments belong to a text message.
    is_text: bool,
}

impl Decoder {
    /// Creates a decoder for frames of `sender`, with a limit on a message in bytes.
    pub const fn new(sender: Role, max_message: usize) -> Self {
        Self {
            sender,
            max_message,
            fragments: None,
            is_text: false,
        }
    }

    /// Whether fragments of an incomplete message are kept.
    pub const fn is_in_message(&self) -> bool {
        self.fragments.is_some()
    }

    /// Bytes of memory that the fragments use.
    pub fn kept(&self) -> usize {
        self.fragments.as_ref().map_or(0, Vec::capacity)
    }

    /// Decodes the next frame from all buffered bytes, and unmasks it in place. Remove the consumed bytes before the next call. A
    /// frame that is too big is rejected by its header, so the buffer never needs more than a message of the maximum size and a
    /// header.
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

    /// The header and the total size of the first frame, if it is complete.
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

    /// Checks that a data frame continues the current message correctly and does not exceed the limit.
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

    /// Handles one complete frame; `None` for a fragment that is not the last.
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

/// The status code of a Close frame. Its reason is for humans and must be UTF-8.
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
