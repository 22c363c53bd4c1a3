//! Copies messages for the control plane: those that a trace selects, or all of them.
//!
//! The copies are taken where a call is handled, at its home worker. They are therefore decrypted, and both sides of a call are
//! copied in order. While nothing is traced, this costs one branch for each input.

mod followed;
mod selection;
mod tap;

pub use selection::Selection;
pub(crate) use tap::{Mark, Tap};

use sip_transport::{Flow, Time};

/// What the workers copy. Each order replaces the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceOrder {
    /// A higher number than that of the order before. [`WorkerMetrics::trace_order`](crate::metrics::WorkerMetrics::trace_order)
    /// shows which order a worker follows.
    pub number: u64,
    /// The traces that run.
    pub traces: Vec<(TraceId, Selection)>,
    /// Whether every message is copied, for a collector.
    pub everything: bool,
}

/// Identifies a trace among those that run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u8);

impl TraceId {
    /// The number of identifiers.
    pub const COUNT: u64 = 63;

    /// The identifier of the trace with this serial number. It is used again after [`Self::COUNT`] traces.
    pub const fn of_serial(serial: u64) -> Self {
        Self((serial % Self::COUNT) as u8)
    }

    const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// Who gets a copy of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readers(u64);

impl Readers {
    /// The bit of the collector. The lower bits are traces.
    const COLLECTOR: u64 = 1 << TraceId::COUNT;

    /// Whether this trace gets it.
    pub const fn contains(self, trace: TraceId) -> bool {
        self.0 & trace.bit() != 0
    }

    /// Whether the collector of all messages gets it.
    pub const fn contains_collector(self) -> bool {
        self.0 & Self::COLLECTOR != 0
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// This server received it.
    Received,
    /// This server passed it to its socket or its connection, which may have failed to send it.
    Sent,
}

/// A copy of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When it arrived, or when it was sent.
    pub at: Time,
    /// Its direction.
    pub direction: Direction,
    /// The listener, and the peer's address.
    pub flow: Flow,
    /// Who gets the copy.
    pub readers: Readers,
    /// The message, without the framing and encryption of its transport.
    pub bytes: Box<[u8]>,
}
