//! Stream connections: accepts and opens them, and reads and writes the messages in them.
//!
//! ```text
//!  Listening ── accept ──▶ Connections ◀── open ── a message for an address without a connection
//!                              │
//!   read:   socket ─▶ TLS ─▶ Framing (SIP, WebSocket) ─▶ Node::receive
//!   write:  Outgoing ─▶ Framing ─▶ TLS ─▶ socket; what it does not accept waits in a Queue
//! ```
//!
//! Each connection has one owner: the worker that accepted or opened it. Other workers send their messages for it to the owner's
//! inbox. The shared [`directory`] tells which addresses have a connection. An idle connection has no buffers.

mod accepting;
mod close;
mod connection;
mod connection_slots;
mod connections;
mod deadlines;
mod descriptor_reserve;
mod directory;
mod framing;
mod listening;
mod memory;
mod options;
mod peers;
mod policy;
mod queue;
mod reading;
mod sending;
mod socket;
mod table;
mod unproven;
mod web_socket;

pub use close::{CloseReason, RefuseReason};
pub(crate) use connections::{Connections, Shared};
pub(crate) use listening::Listening;
pub use options::{Admission, Aliases, StreamOptions, UNPROVEN_LIFETIME_FACTOR};
pub use policy::{PeerPolicy, SharedPeerPolicy};
