//! Streams: connections that are accepted and opened, and the messages in them.
//!
//! ```text
//!  Listening ── accept ──▶ Connections ◀── open ── a message for an address nobody is connected to
//!                              │
//!   read:   socket ─▶ Channel (TLS) ─▶ Framing (SIP, WebSocket) ─▶ Node::receive
//!   write:  Outgoing ─▶ Framing ─▶ Channel ─▶ socket, and what it does not take waits in a Queue
//! ```
//!
//! Each connection has one owner, the worker that accepted or opened it. What others have for it comes through the owner's
//! inbox; where an address is connected already, the shared [`Directory`] says. An idle connection has no buffer at all.

mod accepting;
mod close;
mod connection;
mod connections;
mod deadlines;
mod directory;
mod framing;
mod listening;
mod memory;
mod options;
mod peers;
mod policy;
mod queue;
mod reading;
mod scarcity;
mod seats;
mod sending;
mod slab;
mod socket;
mod strangers;
mod web_socket;

pub use close::{CloseReason, RefuseReason};
pub(crate) use connections::{Connections, Shared};
pub(crate) use listening::Listening;
pub use options::{Admission, Aliases, StreamOptions, UNPROVEN_LIVES};
pub use policy::{PeerPolicy, SharedPeerPolicy};
