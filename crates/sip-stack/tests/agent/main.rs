//! The user agent against peers whose scripts read like a trace: sockets that send and expect messages word by word.

mod bounds;
mod driven;
mod incoming;
mod names;
mod outgoing;
mod pairs;
mod peer;
mod registration;
#[cfg(feature = "resolver")]
mod secure;
