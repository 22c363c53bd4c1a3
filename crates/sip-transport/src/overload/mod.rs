//! Overload control, sans-IO: which message is next, and which requests are given up, when more comes in than can be served.
//!
//! A driver that serves each message at once needs none of this. One that is behind puts what arrives into a [`Backlog`] and takes
//! from it what is next: what belongs to calls that exist first, then requests that have proven themselves, then all others, and one in nine
//! from those behind. The
//! [`Controller`] tells a burst, which is worth waiting for, from overload, in which requests are given up.

mod backlog;
mod controller;
#[cfg(test)]
mod tests;

pub use backlog::{Backlog, Shed, Taken, Waiting};
pub use controller::Controller;

use std::time::Duration;

/// In which order messages are served while a driver is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// Responses, and requests of calls that exist. Never given up.
    First,
    /// New requests that are likely to succeed: work was spent on their sender already.
    Proven,
    /// All other new requests.
    New,
}

/// When overload begins, and what is given up then.
#[derive(Clone, Copy, Debug)]
pub struct OverloadSettings {
    /// Requests that wait longer than this make a standing queue, where it never gets shorter for an interval.
    pub target: Duration,
    /// How long the queue must stand before requests are given up.
    pub interval: Duration,
    /// Timer T1 of the senders: over UDP a request that waited so long has been sent again, and is behind itself.
    pub t1: Duration,
    /// Most octets that wait, with a small sum for each message.
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
