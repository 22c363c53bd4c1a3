//! What the caller can set.

use crate::clock::Clock;
use crate::event_loop::EventLoopKind;
use crate::stream::StreamOptions;
use sip_transport::overload::OverloadSettings;
use std::time::Duration;

/// Settings of the runtime; every one has a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// How a worker waits for its sockets.
    pub event_loop: EventLoopKind,
    /// Receive buffer asked for each socket, in bytes. What the kernel granted is in
    /// [`WorkerStats::receive_buffer`](crate::WorkerStats::receive_buffer). Default 4 MiB.
    pub receive_buffer: usize,
    /// Send buffer asked for each socket, in bytes. Default 1 MiB.
    pub send_buffer: usize,
    /// Whether messages to one address that are ready together go to the kernel as one, which cuts them up (`UDP_SEGMENT`).
    /// Where the kernel cannot, each is sent by itself. Default true.
    pub segmentation: bool,
    /// Whether the kernel gives a datagram with a Call-ID to the worker that [`worker_hash`](sip_message::worker_hash) of it picks,
    /// modulo their number, rather than to one that the addresses pick. Not with `share_port`. Default true.
    pub steering: bool,
    /// Bounds and deadlines of connections.
    pub streams: StreamOptions,
    /// Whether another process may be bound to the same addresses already and share their
    /// traffic. Default false: it is refused.
    pub share_port: bool,
    /// CPUs to pin the workers to: worker *i* to entry *i* modulo the length. Empty (the default)
    /// pins none.
    pub cpus: Vec<usize>,
    /// How long a busy worker lets messages gather before it looks at its sockets again: less CPU time for a little delay. A worker
    /// that is busy for less than about two thirds of the time never does. Zero: never. Default 100 microseconds.
    pub gather: Duration,
    /// What a worker does when more comes in than it can serve; `None`: it serves everything in the order of arrival. Default `None`.
    pub overload: Option<OverloadSettings>,
    /// How many answers may wait for one worker. Default 8,192.
    pub waiting_answers: usize,
    /// How many handed-over messages may wait for one worker. Received ones leave a quarter of it, and of the bytes, to the others.
    /// Default 8,192.
    pub waiting_hand_overs: usize,
    /// How many bytes of handed-over messages may wait for one worker. Default 16 MiB.
    pub waiting_hand_over_bytes: usize,
    /// The clock that all workers read; copy it to whoever else must agree with them.
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
