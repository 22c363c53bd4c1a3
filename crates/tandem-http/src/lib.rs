//! HTTP interfaces for operators: the server's admin interface and the laboratory's controller.
//!
//! Both let their callers do everything, and both usually listen on a loopback address, where every web page that the operator opens can
//! reach them through the browser. [`Guard`] decides which requests are let through; [`serve`] bounds what their connections cost.

mod connections;
mod guard;
mod origin;
mod socket;
mod token;

pub use connections::{Counts, Limits, Peer, serve};
pub use guard::{Guard, Refusal, is_beyond_loopback};
pub use socket::bind_unix;
pub use token::{Token, TokenError};
