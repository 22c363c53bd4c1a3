//! What a worker counts. Written by its worker alone, read by anybody.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer: adding costs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, amount: u64) {
        self.set(self.value().wrapping_add(amount));
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The figures of one worker since its start.
#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines: no worker's counting slows another's
pub struct WorkerStats {
    /// Datagrams read from the sockets.
    pub datagrams_received: Counter,
    /// Their bytes.
    pub bytes_received: Counter,
    /// Datagrams the kernel accepted for sending.
    pub datagrams_sent: Counter,
    /// Their bytes.
    pub bytes_sent: Counter,
    /// Datagrams cut short because they did not fit; they are dropped.
    pub truncated: Counter,
    /// Reads that failed for another reason than an empty socket.
    pub receive_errors: Counter,
    /// Datagrams dropped because the socket's send buffer was full.
    pub send_buffer_full: Counter,
    /// Datagrams longer than the path or the protocol allows (EMSGSIZE).
    pub send_too_long: Counter,
    /// Datagrams to a destination without a route (network or host unreachable, forbidden).
    pub send_unreachable: Counter,
    /// Datagrams that could not be sent for any other reason.
    pub send_errors: Counter,
    /// Messages that other workers handed over to this one.
    pub handed_over_in: Counter,
    /// Messages that this worker handed over to others.
    pub handed_over_out: Counter,
    /// Messages that this worker dropped because the other's inbox was full.
    pub hand_overs_dropped: Counter,
    /// Answers the node took.
    pub answers: Counter,
    /// Questions the node put.
    pub questions: Counter,
    /// Questions that the control plane did not take.
    pub questions_dropped: Counter,
    /// Datagrams the kernel dropped because a receive buffer was full; sampled once a second.
    pub kernel_drops: Counter,
    /// Smallest receive buffer the kernel granted one of the worker's sockets, in bytes.
    pub receive_buffer: Counter,
    /// Times round the loop.
    pub rounds: Counter,
    /// Times the worker paused for messages to gather.
    pub pauses: Counter,
    /// Times the worker went to wait in the event loop.
    pub waits: Counter,
}
