//! The user agent against peers whose scripts read like a trace: sockets that send and expect messages word by word.

mod bounds;
mod incoming;
mod names;
mod outgoing;
mod peer;
mod registration;
