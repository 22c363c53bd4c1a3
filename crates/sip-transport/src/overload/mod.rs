//! Overload control, sans-IO: which message is served next, and which requests are shed, when messages arrive faster than they
//! can be served.
//!
//! A driver that serves each message at once needs none of this. A driver that is behind puts messages into a [`Backlog`] and
//! takes the next one from it. Messages of existing calls come first, then proven requests, then all others. One message in nine
//! comes from the less urgent queues. The [`Controller`] tells a burst, which is worth waiting for, from overload, in which
//! requests are shed.

mod backlog;
mod controller;
#[cfg(test)]
mod tests;

pub use backlog::{Backlog, Shed, Taken, Waiting};
pub use controller::Controller;

use std::time::Duration;

/// The order in which messages are served while a driver is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Responses, and requests of existing calls. Never shed.
    First,
    /// New requests that are likely to succeed: the server has already spent work on their sender.
    Proven,
    /// All other new requests.
    New,
}

/// When overload begins, and which requests are shed then.
#[derive(Clone, Copy, Debug)]
pub struct OverloadSettings {
    /// Requests that wait longer than this form a standing queue, unless the queue gets shorter within an interval.
    pub target: Duration,
    /// How long the queue must stand before requests are shed.
    pub interval: Duration,
    /// Timer T1 of the senders: over UDP, a sender retransmits a request that has waited this long, and the copy waits as well.
    pub t1: Duration,
    /// Maximum bytes of waiting messages, with a small overhead for each message.
    pub most_bytes: usize,
}

impl Default for OverloadSettings {
    fn default() -> Self {
        Self {
            target: Duration::from_millis(25),
            interval: Duration::from_millis(200),
            t1: Duration::from_millis(500),
            most_bytes: 8 << 20,
        }
    }
}
