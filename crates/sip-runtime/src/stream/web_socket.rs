//! Messages in a WebSocket (RFC 7118), on the server or the client side.

use super::close::CloseReason;
use super::framing::ReadOutcome;
use super::options::StreamOptions;
use sip_transport::websocket::{
    ClientHandshake, Decoder, Event, Handshake, HandshakeError, Opcode, Opening, Role, Upgrade,
    write_close, write_frame, write_message,
};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// The answer to a double CRLF (RFC 5626 section 4.4.1).
const PONG: &[u8] = b"\r\n";

/// The state of a WebSocket.
pub(super) enum WebSocket {
    /// Server side: the upgrade request has not arrived yet.
    Awaited {
        handshake: Handshake,
        is_secure: bool,
    },
    /// Client side: the upgrade request is sent, or will be once the layers below are ready.
    Asked {
        handshake: ClientHandshake,
        is_sent: bool,
    },
    /// The upgrade is complete: frames follow.
    Open { decoder: Decoder, masks: Masks },
}

/// The masks of our frames. A server does not mask.
pub(super) struct Masks {
    /// Keyed with random bytes of the operating system, so that a mask does not reveal the next one (RFC 6455 section 5.3).
    secret: Option<RandomState>,
    given: u64,
}

impl WebSocket {
    /// The server side of a WebSocket.
    pub(super) fn awaited(is_secure: bool, options: &StreamOptions) -> Self {
        Self::Awaited {
            handshake: Handshake::new(options.max_header),
            is_secure,
        }
    }

    /// The client side of a WebSocket.
    pub(super) fn asked(options: &StreamOptions) -> Self {
        let random = RandomState::new();
        let mut nonce = [0; 16];
        for (place, octets) in (0_u64..).zip(nonce.chunks_mut(8)) {
            octets.copy_from_slice(&random.hash_one(place).to_ne_bytes());
        }
        Self::Asked {
            handshake: ClientHandshake::new(nonce, options.max_header),
            is_sent: false,
        }
    }

    /// Appends the upgrade request, once, on the client side.
    pub(super) fn ask(&mut self, server: SocketAddr, into: &mut Vec<u8>) {
        if let Self::Asked { handshake, is_sent } = self
            && !std::mem::replace(is_sent, true)
        {
            // An address is always a valid host.
            let _ = handshake.write_request(into, &server.to_string(), "/");
        }
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// Whether part of a message is buffered.
    pub(super) const fn is_in_message(&self) -> bool {
        matches!(self, Self::Open { decoder, .. } if decoder.is_in_message())
    }

    /// Memory of buffered parts, in bytes.
    pub(super) fn kept(&self) -> usize {
        match self {
            Self::Open { decoder, .. } => decoder.kept(),
            Self::Awaited { .. } | Self::Asked { .. } => 0,
        }
    }

    /// Delivers messages, like [`super::framing::Framing::take`].
    pub(super) fn take(
        &mut self,
        octets: &mut [u8],
        options: &StreamOptions,
        reply: &mut Vec<u8>,
        outcome: &mut ReadOutcome,
        deliver: &mut impl FnMut(&[u8]),
    ) -> usize {
        let (peer, consumed) = match self {
            Self::Open { decoder, masks } => {
                return take_frames(decoder, masks, octets, reply, outcome, deliver);
            }
            Self::Awaited {
                handshake,
                is_secure,
            } => {
                let policy = options.policy.load();
                match handshake.next(octets, &policy.origins, *is_secure, reply) {
                    Upgrade::Incomplete => return 0,
                    Upgrade::Refused(refusal) => {
                        outcome.end = Some(match refusal {
                            HandshakeError::Origin => CloseReason::ForeignOrigin,
                            _ => CloseReason::BadUpgrade,
                        });
                        return 0;
                    }
                    Upgrade::Accepted { consumed } => (Role::Client, consumed),
                }
            }
            Self::Asked { handshake, .. } => match handshake.next(octets) {
                Ok(Opening::Incomplete) => return 0,
                Ok(Opening::Accepted { consumed }) => (Role::Server, consumed),
                Err(_) => {
                    outcome.end = Some(CloseReason::BadUpgrade);
                    return 0;
                }
            },
        };
        *self = Self::Open {
            decoder: Decoder::new(peer, options.max_header + options.max_body),
            masks: Masks {
                secret: (peer == Role::Server).then(RandomState::new),
                given: 0,
            },
        };
        let rest = octets.get_mut(consumed..).unwrap_or_default();
        consumed + self.take(rest, options, reply, outcome, deliver)
    }

    /// Appends a message as a frame.
    pub(super) fn write(&mut self, message: &[u8], into: &mut Vec<u8>) {
        if let Self::Open { masks, .. } = self {
            write_message(into, message, masks.next());
        }
    }
}

impl Masks {
    fn next(&mut self) -> Option<[u8; 4]> {
        let secret = self.secret.as_ref()?;
        self.given += 1;
        let [a, b, c, d, ..] = secret.hash_one(self.given).to_ne_bytes();
        Some([a, b, c, d])
    }
}

fn take_frames(
    decoder: &mut Decoder,
    masks: &mut Masks,
    octets: &mut [u8],
    reply: &mut Vec<u8>,
    outcome: &mut ReadOutcome,
    deliver: &mut impl FnMut(&[u8]),
) -> usize {
    let mut taken = 0;
    loop {
        let rest = octets.get_mut(taken..).unwrap_or_default();
        let decoded = match decoder.next(rest) {
            Ok(decoded) => decoded,
            Err(error) => {
                write_close(reply, Some(error.close_code()), masks.next());
                outcome.end = Some(error.into());
                return taken;
            }
        };
        taken += decoded.consumed;
        match decoded.event {
            Event::Incomplete => return taken,
            Event::Message(message) if message.iter().all(|octet| b"\r\n".contains(octet)) => {
                // A single CRLF is the answer to a keep-alive of ours.
                if *message != *PONG {
                    write_frame(reply, Opcode::Text, PONG, masks.next());
                }
                outcome.pings += 1;
            }
            Event::Message(message) => {
                deliver(&message);
                outcome.messages += 1;
            }
            Event::Ping(payload) => {
                write_frame(reply, Opcode::Pong, payload, masks.next());
                outcome.pings += 1;
            }
            Event::Pong => outcome.pings += 1,
            Event::Close(code) => {
                write_close(reply, code, masks.next());
                outcome.end = Some(CloseReason::ByPeer);
                return taken;
            }
        }
    }
}
