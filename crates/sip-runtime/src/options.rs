//! Settings of the runtime.

use crate::clock::Clock;
use crate::event_loop::EventLoopKind;
use crate::stream::StreamOptions;
use sip_transport::overload::OverloadSettings;
use std::time::Duration;

/// Settings of the runtime. Each has a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// How a worker waits for its sockets.
    pub event_loop: EventLoopKind,
    /// Receive buffer to request for each socket, in bytes. The granted size is in
    /// [`WorkerStats::receive_buffer`](crate::WorkerStats::receive_buffer). Default 4 MiB.
    pub receive_buffer: usize,
    /// Send buffer to request for each socket, in bytes. Default 1 MiB.
    pub send_buffer: usize,
    /// Whether messages to one address that are ready together are sent as one buffer that the kernel segments (`UDP_SEGMENT`).
    /// If the kernel cannot segment it, each message is sent separately. Default true.
    pub segmentation: bool,
    /// Whether the kernel delivers a datagram with a Call-ID to the worker given by the Call-ID's
    /// [`worker_hash`](sip_message::worker_hash()) modulo the number of workers. Otherwise the kernel picks the worker by the
    /// addresses. Not used with `share_port`. Default true.
    pub steering: bool,
    /// Limits and timeouts of connections.
    pub streams: StreamOptions,
    /// Whether to bind addresses that another process has already bound, and share the traffic with it. Default false: binding fails.
    pub share_port: bool,
    /// CPUs to pin the workers to: worker *i* to entry *i* modulo the length. Empty, the default, pins none.
    pub cpus: Vec<usize>,
    /// How long a busy worker lets messages collect before it reads its sockets again. This saves CPU time and costs a little delay. A
    /// worker that is busy for less than about two thirds of the time never pauses. Zero turns pauses off. Default 100 microseconds.
    pub gather: Duration,
    /// What a worker does when messages arrive faster than it can serve them. `None`, the default: it serves all in the order of arrival.
    pub overload: Option<OverloadSettings>,
    /// Limit on answers queued for one worker. Default 8,192.
    pub waiting_answers: usize,
    /// Limit on handed-over messages queued for one worker. Received messages may not use the last quarter of it, nor of the byte
    /// limit. Default 8,192.
    pub waiting_hand_overs: usize,
    /// Limit on the bytes of handed-over messages queued for one worker. Default 16 MiB.
    pub waiting_hand_over_bytes: usize,
    /// The clock that all workers use. Copy it to other components that must agree with them.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            event_loop: EventLoopKind::default(),
            receive_buffer: 4 << 20,
            send_buffer: 1 << 20,
            segmentation: true,
            steering: true,
            streams: StreamOptions::default(),
            share_port: false,
            cpus: Vec::new(),
            gather: Duration::from_micros(100),
            overload: None,
            waiting_answers: 8_192,
            waiting_hand_overs: 8_192,
            waiting_hand_over_bytes: 16 << 20,
            clock: Clock::start(),
        }
    }
}
