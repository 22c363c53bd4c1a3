//! Tracing: copies of messages on their way from the workers to those who read them.
//!
//! ```text
//! worker ─▶ queue (bounded, may drop) ─▶ keeper ─┬─▶ reader of a trace: pipe (bounded) ─▶ HTTP ─▶ tandem ctl trace
//!                                                └─▶ collector: HEP over UDP
//! ```
//!
//! Nothing here can delay a call. A worker drops the copy if its queue is full, the keeper ends a trace whose reader is too slow, and
//! HEP drops what the socket does not take.

mod collector;
mod event;
mod hep;
mod keeper;
mod pipe;
mod queue;
mod traces;

pub use event::{CapturedMessage, Ended, Event, Started};
pub(crate) use keeper::keep;
pub(crate) use pipe::Reading;
pub(crate) use queue::TraceQueue;
pub(crate) use traces::{StartError, Traces};

use sip_elements::trace::{Direction, Traced};
use sip_transport::{Listener, Protocol};
use std::net::SocketAddr;

/// A copied message with the facts of its listener.
#[derive(Clone, Copy, Debug)]
struct Seen<'t> {
    traced: &'t Traced,
    worker: u16,
    protocol: Protocol,
    local: SocketAddr,
}

impl<'t> Seen<'t> {
    /// `None`: there is no such listener.
    fn new(traced: &'t Traced, worker: u16, listeners: &[Listener]) -> Option<Self> {
        let listener = listeners.get(usize::from(traced.flow.listener.0))?;
        Some(Self {
            traced,
            worker,
            protocol: listener.protocol,
            local: listener.address,
        })
    }

    /// Source and destination.
    const fn path(&self) -> (SocketAddr, SocketAddr) {
        let remote = self.traced.flow.remote;
        match self.traced.direction {
            Direction::Received => (remote, self.local),
            Direction::Sent => (self.local, remote),
        }
    }
}
