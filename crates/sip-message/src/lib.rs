//! SIP messages (RFC 3261 sections 7, 19, 20, 25): parsing requests and responses, patching and writing them.
//!
//! [`Message::parse`] makes one pass over the bytes and records where each header field is. Values are parsed when they are
//! needed. A forwarded message is patched ([`Patch`]), never re-encoded. This crate cannot panic on any input.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::todo
    )
)]

mod glance;
mod grammar;
mod header;
mod host;
mod key;
mod line_ends;
mod message;
mod method;
mod params;
mod patch;
mod scan;
mod uri;
mod uri_compare;
mod validate;
mod via_source;
mod write;

pub mod digest;
pub mod framing;
pub mod worker_hash;

pub use framing::{Frame, FrameError, Framer};
pub use glance::Glance;
pub use header::{
    CSeq, Challenge, Credentials, HeaderName, NameAddr, Refresher, SessionInterval, Via,
};
pub use host::Host;
pub use key::{KeyHasher, TransactionKey, home_hash};
pub use line_ends::LineEnds;
pub use message::{Header, Message, ParseError};
pub use method::Method;
pub use params::Params;
pub use patch::Patch;
pub use uri::{Scheme, Uri};
pub use validate::Malformed;
pub use worker_hash::worker_hash;
pub use write::{RequestWriter, ResponseWriter, reason_phrase, write_ack, write_cancel};
