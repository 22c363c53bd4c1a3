//! The whole node, message by message: what a peer sees on the wire.

mod bench;
mod calls;
mod draining;
mod flows;
mod identity;
mod itself;
mod parking;
mod streams;
