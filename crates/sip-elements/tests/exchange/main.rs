//! The whole node, message by message: what a peer sees on the wire.

mod amplification;
mod banned;
mod bench;
mod calls;
mod connections;
mod descriptions;
mod dialogs;
mod draining;
mod ending_calls;
mod figures;
mod flows;
mod identity;
mod itself;
mod leniency;
mod live_calls;
mod operator;
mod overload;
mod parking;
mod restored_calls;
mod returned;
mod saving;
mod session_timers;
mod shares;
mod streams;
mod tracing;
mod trust;
