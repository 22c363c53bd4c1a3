//! What a worker counts. Written by its worker alone, read by anybody.

use crate::stream::{CloseReason, RefuseReason};
use crate::udp::IcmpError;
use sip_transport::overload::Shed;
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
    /// Datagrams that came back as ICMP errors, by [`IcmpError`] in the order of [`IcmpError::ALL`].
    pub icmp_errors: [Counter; IcmpError::ALL.len()],
    /// Connections there are.
    pub connections: Counter,
    /// Connections that peers opened to us.
    pub connections_accepted: Counter,
    /// Connections that we began to open.
    pub connections_opened: Counter,
    /// Connections that ended, by [`CloseReason`] in the order of [`CloseReason::ALL`].
    pub connections_closed: [Counter; CloseReason::ALL.len()],
    /// Connections that were not taken on, by [`RefuseReason`] in the order of [`RefuseReason::ALL`].
    pub connections_refused: [Counter; RefuseReason::ALL.len()],
    /// Octets read from connections.
    pub stream_octets_received: Counter,
    /// Octets that the kernel took for connections.
    pub stream_octets_sent: Counter,
    /// Messages that came over connections.
    pub stream_messages_received: Counter,
    /// Messages written to connections, or queued for them.
    pub stream_messages_sent: Counter,
    /// Keep-alives that came over connections (RFC 5626 section 4.4.1, pings and pongs of RFC 6455).
    pub pings: Counter,
    /// Octets of memory that the beginnings of messages take in connections now.
    pub partial_octets: Counter,
    /// Octets of memory that what waits for peers to read takes now.
    pub queued_octets: Counter,
    /// Messages that found the queue of their connection full.
    pub stream_queue_full: Counter,
    /// Messages that could not be sent over a connection; the node is told of each.
    pub undeliverable: Counter,
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
    /// 1 while requests are given up because more comes in than can be served.
    pub overloaded: Counter,
    /// Times that this began.
    pub overloads: Counter,
    /// Messages that wait for their turn.
    pub backlog: Counter,
    /// Bytes of memory that they take.
    pub backlog_bytes: Counter,
    /// Requests that were given up, by [`Shed`] in the order of [`Shed::ALL`].
    pub shed: [Counter; Shed::ALL.len()],
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
