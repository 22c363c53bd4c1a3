//! Where a message ends: by Content-Length in a plain stream, by frame in a WebSocket (RFC 7118).

use super::close::CloseReason;
use super::options::StreamOptions;
use sip_message::{Frame, FrameError, Framer};
use sip_transport::Protocol;
use sip_transport::websocket::{
    Decoder, Event, Handshake, Opcode, Role, Upgrade, write_close, write_frame, write_message,
};

/// The answer to a double CRLF (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// What octets amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    pub(super) messages: usize,
    /// Keep-alives that were answered.
    pub(super) pings: usize,
    /// Why the connection cannot go on.
    pub(super) end: Option<CloseReason>,
}

/// How messages are told apart, and how far the one on its way has come.
pub(super) enum Framing {
    /// RFC 3261 section 18.3.
    Stream(Framer),
    /// The peer has not asked for a WebSocket yet.
    Upgrading(Box<Handshake>),
    /// Frames.
    WebSocket(Box<Decoder>),
}

impl Framing {
    pub(super) fn new(protocol: Protocol, options: &StreamOptions) -> Self {
        match protocol {
            Protocol::Ws | Protocol::Wss => {
                Self::Upgrading(Box::new(Handshake::new(options.max_header)))
            }
            _ => Self::Stream(Framer::new(options.max_header, options.max_body)),
        }
    }

    /// Whether messages can be sent.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self, Self::Upgrading(_))
    }

    /// Whether parts of a message are kept here.
    pub(super) fn is_in_message(&self) -> bool {
        matches!(self, Self::WebSocket(decoder) if decoder.is_in_message())
    }

    /// Whether messages go out as they are.
    pub(super) const fn is_plain(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Hands out the whole messages at the beginning of `octets`, and appends what is to be answered to `reply`. Returns how
    /// many octets are done with.
    pub(super) fn take(
        &mut self,
        octets: &mut [u8],
        options: &StreamOptions,
        reply: &mut Vec<u8>,
        brought: &mut Brought,
        deliver: &mut impl FnMut(&[u8]),
    ) -> usize {
        match self {
            Self::Stream(framer) => take_messages(framer, octets, options, reply, brought, deliver),
            Self::WebSocket(decoder) => take_frames(decoder, octets, reply, brought, deliver),
            Self::Upgrading(handshake) => {
                let consumed = match handshake.next(octets, &options.origins, reply) {
                    Upgrade::Incomplete => return 0,
                    Upgrade::Refused(_) => {
                        brought.end = Some(CloseReason::BadUpgrade);
                        return 0;
                    }
                    Upgrade::Accepted { consumed } => consumed,
                };
                let most = options.max_header + options.max_body;
                *self = Self::WebSocket(Box::new(Decoder::new(Role::Client, most)));
                let rest = octets.get_mut(consumed..).unwrap_or_default();
                consumed + self.take(rest, options, reply, brought, deliver)
            }
        }
    }

    /// Appends a message as it goes out.
    pub(super) fn write(&self, message: &[u8], into: &mut Vec<u8>) {
        match self {
            Self::Stream(_) | Self::Upgrading(_) => into.extend_from_slice(message),
            Self::WebSocket(_) => write_message(into, message, None),
        }
    }
}

fn take_messages(
    framer: &mut Framer,
    octets: &[u8],
    options: &StreamOptions,
    reply: &mut Vec<u8>,
    brought: &mut Brought,
    deliver: &mut impl FnMut(&[u8]),
) -> usize {
    let mut taken = 0;
    loop {
        let rest = octets.get(taken..).unwrap_or_default();
        match framer.next(rest) {
            Ok(Frame::Message(length)) => {
                deliver(rest.get(..length).unwrap_or_default());
                brought.messages += 1;
                taken += length;
            }
            Ok(Frame::Ping(length)) => {
                reply.extend_from_slice(PONG);
                brought.pings += 1;
                taken += length;
            }
            Ok(Frame::Crlf(length)) => taken += length,
            Ok(Frame::Incomplete) => return taken,
            Err(error) => {
                // The node answers what it can make of it.
                deliver(match error {
                    FrameError::HeaderTooLong => whole_lines(rest, options.max_header),
                    _ => rest,
                });
                brought.end = Some(error.into());
                return taken;
            }
        }
    }
}

/// The whole lines within the first octets.
fn whole_lines(octets: &[u8], most: usize) -> &[u8] {
    let octets = octets.get(..most).unwrap_or(octets);
    let end = octets.iter().rposition(|octet| *octet == b'\n');
    octets
        .get(..end.map_or(0, |end| end + 1))
        .unwrap_or_default()
}

fn take_frames(
    decoder: &mut Decoder,
    octets: &mut [u8],
    reply: &mut Vec<u8>,
    brought: &mut Brought,
    deliver: &mut impl FnMut(&[u8]),
) -> usize {
    let mut taken = 0;
    loop {
        let rest = octets.get_mut(taken..).unwrap_or_default();
        let decoded = match decoder.next(rest) {
            Ok(decoded) => decoded,
            Err(error) => {
                write_close(reply, Some(error.close_code()), None);
                brought.end = Some(error.into());
                return taken;
            }
        };
        taken += decoded.consumed;
        match decoded.event {
            Event::Incomplete => return taken,
            Event::Message(message) if message.iter().all(|octet| b"\r\n".contains(octet)) => {
                write_frame(reply, Opcode::Text, PONG, None);
                brought.pings += 1;
            }
            Event::Message(message) => {
                deliver(&message);
                brought.messages += 1;
            }
            Event::Ping(payload) => {
                write_frame(reply, Opcode::Pong, payload, None);
                brought.pings += 1;
            }
            Event::Pong => brought.pings += 1,
            Event::Close(code) => {
                write_close(reply, code, None);
                brought.end = Some(CloseReason::ByPeer);
                return taken;
            }
        }
    }
}
