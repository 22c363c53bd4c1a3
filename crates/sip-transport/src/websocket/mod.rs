//! SIP over WebSocket (RFC 6455, RFC 7118), sans-IO: the opening handshake of either side, then frames.
//!
//! A server feeds a [`Handshake`] until it accepts. A client sends [`ClientHandshake::write_request`] and feeds the response to
//! [`ClientHandshake::next`]. Then a [`Decoder`] extracts complete SIP messages from the received bytes, and [`write_message`]
//! frames messages to send. Randomness (the client's key and masks) is an argument.

mod client;
mod close;
mod decoder;
mod frame;
mod handshake;
mod head;
mod key;
mod mask;
mod origins;

pub use client::{BadTarget, ClientHandshake, Opening, OpeningError};
pub use close::CloseCode;
pub use decoder::{Decoded, Decoder, Event, FrameError};
pub use frame::{FrameHeader, Opcode, Role, write_close, write_frame, write_message};
pub use handshake::{Handshake, HandshakeError, Upgrade};
pub use origins::Origins;

/// The subprotocol that both sides must agree on (RFC 7118 section 4).
const SUB_PROTOCOL: &str = "sip";
