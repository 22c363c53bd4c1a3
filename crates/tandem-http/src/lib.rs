//! HTTP interfaces for operators: the server's admin interface, the controller of a fleet and the laboratory's controller.
//!
//! They let their callers do everything. They usually listen on a loopback address, which any web page in the operator's browser can reach.
//! [`Guard`] decides which requests pass; [`serve`] bounds what connections cost. [`rpc`] reads and answers JSON-RPC calls.

mod connections;
mod guard;
mod lifetime;
mod origin;
pub mod rpc;
mod socket;
mod token;

pub use connections::{Counts, Limits, Peer, serve};
pub use guard::{Guard, Rejection, is_beyond_loopback};
pub use lifetime::Lifetime;
pub use socket::bind_unix;
pub use token::{Token, TokenError};
