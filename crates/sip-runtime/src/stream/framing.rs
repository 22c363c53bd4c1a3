//! Message framing: by Content-Length in a plain stream, by frame in a WebSocket (RFC 7118).

use super::close::CloseReason;
use super::options::StreamOptions;
use super::web_socket::WebSocket;
use sip_message::{Frame, FrameError, Framer};
use sip_transport::Protocol;
use std::net::SocketAddr;

/// The answer to a double CRLF (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// What a read contained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadOutcome {
    pub(super) messages: usize,
    /// Keep-alives. They have been answered if they require an answer.
    pub(super) pings: usize,
    /// Why the connection must end.
    pub(super) end: Option<CloseReason>,
}

/// How messages are delimited, with the state of the current one.
pub(super) enum Framing {
    /// By Content-Length (RFC 3261 section 18.3).
    Stream(Framer),
    /// By WebSocket frames.
    WebSocket(Box<WebSocket>),
}

impl Framing {
    /// `is_ours` means that we open the connection.
    pub(super) fn new(protocol: Protocol, is_ours: bool, options: &StreamOptions) -> Self {
        match protocol {
            Protocol::Ws | Protocol::Wss if is_ours => {
                Self::WebSocket(Box::new(WebSocket::asked(options)))
            }
            Protocol::Ws | Protocol::Wss => {
                let socket = WebSocket::awaited(protocol.is_secure(), options);
                Self::WebSocket(Box::new(socket))
            }
            _ => Self::Stream(Framer::new(options.max_header, options.max_body)),
        }
    }

    /// Appends the first bytes of a connection that we open, once the layers below are ready.
    pub(super) fn begin(&mut self, server: SocketAddr, into: &mut Vec<u8>) {
        if let Self::WebSocket(socket) = self {
            socket.ask(server, into);
        }
    }

    /// Whether messages can be sent.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Stream(_) => true,
            Self::WebSocket(socket) => socket.is_open(),
        }
    }

    /// Whether this layer buffers part of a message.
    pub(super) fn is_in_message(&self) -> bool {
        matches!(self, Self::WebSocket(socket) if socket.is_in_message())
    }

    /// Memory that this layer buffers, in bytes.
    pub(super) fn kept(&self) -> usize {
        match self {
            Self::Stream(_) => 0,
            Self::WebSocket(socket) => socket.kept(),
        }
    }

    /// The total length of the current message in bytes, once its header is complete.
    pub(super) const fn needed(&self) -> Option<usize> {
        match self {
            Self::Stream(framer) => framer.needed(),
            Self::WebSocket(_) => None,
        }
    }

    /// Whether messages are sent unchanged.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Delivers the complete messages at the start of `octets` and appends replies to `reply`. Returns how many bytes were consumed.
    pub(super) fn take(
        &mut self,
        octets: &mut [u8],
        options: &StreamOptions,
        reply: &mut Vec<u8>,
        outcome: &mut ReadOutcome,
        deliver: &mut impl FnMut(&[u8]),
    ) -> usize {
        match self {
            Self::Stream(framer) => take_messages(framer, octets, options, reply, outcome, deliver),
            Self::WebSocket(socket) => socket.take(octets, options, reply, outcome, deliver),
        }
    }

    /// Appends a message as it is sent.
    pub(super) fn write(&mut self, message: &[u8], into: &mut Vec<u8>) {
        match self {
            Self::Stream(_) => into.extend_from_slice(message),
            Self::WebSocket(socket) => socket.write(message, into),
        }
    }
}

fn take_messages(
    framer: &mut Framer,
    octets: &[u8],
    options: &StreamOptions,
    reply: &mut Vec<u8>,
    outcome: &mut ReadOutcome,
    deliver: &mut impl FnMut(&[u8]),
) -> usize {
    let mut taken = 0;
    loop {
        let rest = octets.get(taken..).unwrap_or_default();
        match framer.next(rest) {
            Ok(Frame::Message(length)) => {
                deliver(rest.get(..length).unwrap_or_default());
                outcome.messages += 1;
                taken += length;
            }
            Ok(Frame::Ping(length)) => {
                reply.extend_from_slice(PONG);
                outcome.pings += 1;
                taken += length;
            }
            Ok(Frame::Crlf(length)) => taken += length,
            Ok(Frame::Incomplete) => return taken,
            Err(error) => {
                // The node answers as well as it can from this part.
                deliver(match error {
                    FrameError::HeaderTooLong => whole_lines(rest, options.max_header),
                    _ => rest,
                });
                outcome.end = Some(error.into());
                return taken;
            }
        }
    }
}

/// The complete lines within the first `most` bytes.
fn whole_lines(octets: &[u8], most: usize) -> &[u8] {
    let octets = octets.get(..most).unwrap_or(octets);
    let end = octets.iter().rposition(|octet| *octet == b'\n');
    octets
        .get(..end.map_or(0, |end| end + 1))
        .unwrap_or_default()
}
