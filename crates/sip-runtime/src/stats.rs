//! Counters of a worker. Only the worker writes them; any thread may read them.

use crate::stream::{CloseReason, RefuseReason};
use crate::udp::IcmpError;
use sip_transport::Counter;
use sip_transport::overload::Shed;

/// The counters of one worker since its start.
#[derive(Debug, Default)]
#[repr(align(128))] // two cache lines, so that counters of different workers do not share one
pub struct WorkerStats {
    /// Datagrams read from the sockets.
    pub datagrams_received: Counter,
    /// Bytes of these datagrams.
    pub bytes_received: Counter,
    /// Datagrams that the kernel accepted for sending.
    pub datagrams_sent: Counter,
    /// Bytes of these datagrams.
    pub bytes_sent: Counter,
    /// Datagrams that were truncated because they did not fit. They are dropped.
    pub truncated: Counter,
    /// Reads that failed for a reason other than an empty socket.
    pub receive_errors: Counter,
    /// Datagrams dropped because the socket's send buffer was full.
    pub send_buffer_full: Counter,
    /// Datagrams longer than the path or the protocol allows (EMSGSIZE).
    pub send_too_long: Counter,
    /// Datagrams to a destination without a route (network or host unreachable, prohibited).
    pub send_unreachable: Counter,
    /// Datagrams that could not be sent for any other reason.
    pub send_errors: Counter,
    /// Datagrams of ours that were returned as ICMP errors, by [`IcmpError`] in the order of
    /// [`IcmpError::ALL`].
    pub icmp_errors: [Counter; IcmpError::ALL.len()],
    /// Open connections.
    pub connections: Counter,
    /// Connections that peers opened.
    pub connections_accepted: Counter,
    /// Connections that this worker began to open.
    pub connections_opened: Counter,
    /// Closed connections, by [`CloseReason`] in the order of [`CloseReason::ALL`].
    pub connections_closed: [Counter; CloseReason::ALL.len()],
    /// Refused connections, by [`RefuseReason`] in the order of [`RefuseReason::ALL`].
    pub connections_refused: [Counter; RefuseReason::ALL.len()],
    /// Bytes read from connections.
    pub stream_octets_received: Counter,
    /// Bytes that the kernel accepted for connections.
    pub stream_octets_sent: Counter,
    /// Messages received over connections.
    pub stream_messages_received: Counter,
    /// Messages written to connections or queued for them.
    pub stream_messages_sent: Counter,
    /// Keep-alives received over connections (RFC 5626 section 4.4.1, pings and pongs of RFC 6455).
    pub pings: Counter,
    /// Bytes of memory that incomplete messages take in connections now.
    pub partial_octets: Counter,
    /// Bytes of memory that data queued for peers takes now.
    pub queued_octets: Counter,
    /// Messages that were not queued because the queue of their connection was full.
    pub stream_queue_full: Counter,
    /// Messages that could not be sent over a connection. The node is notified of each.
    pub undeliverable: Counter,
    /// Messages that other workers handed over to this one.
    pub handed_over_in: Counter,
    /// Messages that this worker handed over to others.
    pub handed_over_out: Counter,
    /// Messages that this worker dropped because the inbox of the other one was full.
    pub hand_overs_dropped: Counter,
    /// Answers that the node received.
    pub answers: Counter,
    /// Questions that the node asked.
    pub questions: Counter,
    /// Questions that the control plane did not accept.
    pub questions_dropped: Counter,
    /// Records that the node gave to the control plane.
    pub records: Counter,
    /// Records that the control plane did not accept. They are lost.
    pub records_dropped: Counter,
    /// 1 while requests are shed because messages arrive faster than they can be served.
    pub overloaded: Counter,
    /// How many times this state began.
    pub overloads: Counter,
    /// Messages in the backlog.
    pub backlog: Counter,
    /// Bytes of memory of these messages.
    pub backlog_bytes: Counter,
    /// Requests that were shed, by [`Shed`] in the order of [`Shed::ALL`].
    pub shed: [Counter; Shed::ALL.len()],
    /// Datagrams that the kernel dropped because a receive buffer was full, sampled once a second.
    pub kernel_drops: Counter,
    /// The smallest receive buffer that the kernel granted to one of the worker's sockets, in
    /// bytes.
    pub receive_buffer: Counter,
    /// Rounds of the worker's loop.
    pub rounds: Counter,
    /// Pauses to let messages collect.
    pub pauses: Counter,
    /// Waits in the event loop.
    pub waits: Counter,
}
