//! Delivers a node's output: to sockets, to other workers and to the control plane.

use super::socket::WorkerSocket;
use crate::event_loop::EventLoop;
use crate::inbox::{HandedOver, Inbox};
use crate::options::Options;
use crate::running::ControlPlane;
use crate::stats::WorkerStats;
use crate::stream::{Connections, Shared};
use crate::udp::SendBatch;
use sip_transport::{
    ConnectionId, Flow, HandOver, HandOverKind, Listener, ListenerId, Outgoing, Output, Time,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::sync::Arc;

/// How many hand-over buffers to keep for reuse, and the largest one worth keeping. With messages
/// of normal size, they take 1 MiB in total.
const SPARE_BUFFERS: usize = 256;
const LARGEST_SPARE_BUFFER: usize = 4 << 10;

/// An output buffer that grew beyond this size in a burst is freed.
const LARGEST_KEPT_OUTPUT: usize = 4 << 20;

/// The peer's address of a flow that is identified by its connection alone.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// What a worker gets besides its node.
pub(crate) struct WorkerContext<A, C> {
    pub(crate) index: u16,
    /// One per listener, in the same order.
    pub(crate) sockets: Vec<WorkerSocket>,
    pub(crate) listeners: Arc<[Listener]>,
    /// State that the connections of all workers share.
    pub(crate) connections: Arc<Shared>,
    /// The inboxes of all workers. The worker's own is at its index.
    pub(crate) inboxes: Arc<[Inbox<A>]>,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) control_plane: C,
}

/// Everything that a worker's output is sent through.
pub(super) struct Outbox<A, C> {
    pub(super) context: WorkerContext<A, C>,
    batch: SendBatch,
    pub(super) connections: Connections,
    /// Messages for connections of other workers: the worker, the connection and the byte range.
    for_others: Vec<HandOver>,
    spare_buffers: Vec<Vec<u8>>,
    /// Whether each worker must be woken, because it was handed something.
    to_wake: Vec<bool>,
    /// Listeners whose sockets met the error of an earlier datagram while sending.
    met_errors: Vec<usize>,
}

impl<A, C> Outbox<A, C> {
    pub(super) fn new(context: WorkerContext<A, C>, options: &Options, gso_enabled: bool) -> Self {
        Self {
            batch: SendBatch::new(gso_enabled),
            connections: Connections::new(
                (context.index, context.inboxes.len()),
                options.streams.clone(),
                Arc::clone(&context.listeners),
                Arc::clone(&context.connections),
                Arc::clone(&context.stats),
                options.clock.now(),
            ),
            for_others: Vec::new(),
            spare_buffers: Vec::with_capacity(SPARE_BUFFERS),
            to_wake: vec![false; context.inboxes.len()],
            met_errors: Vec::new(),
            context,
        }
    }

    pub(super) fn inbox(&self) -> Option<&Inbox<A>> {
        self.context.inboxes.get(usize::from(self.context.index))
    }

    /// Sends the messages, hand-overs, questions and records in `output`, then empties it.
    pub(super) fn deliver<Q, R>(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        output: &mut Output<Q, R>,
    ) where
        C: ControlPlane<Q, R>,
    {
        if output.is_empty() {
            return;
        }
        for (connection, port) in output.aliases() {
            self.connections.add_alias(*connection, *port);
        }
        self.prove(now, output.proofs());
        let names = output.names();
        self.connections
            .expect(names.map(|(place, name)| (place, String::from_utf8_lossy(name).into_owned())));
        self.send(now, event_loop, output.outgoing(), output.bytes());
        for connection in output.closed() {
            self.connections.close_own(event_loop, *connection);
        }
        self.hand_over(output.hand_overs(), output.bytes());
        self.tell_control_plane(output);
        if output.bytes().len() > LARGEST_KEPT_OUTPUT {
            *output = Output::default();
        } else {
            output.clear();
        }
    }

    /// Marks the peers of connections as proven.
    fn prove(&mut self, now: Time, proven: &[ConnectionId]) {
        for connection in proven {
            if !self.connections.prove(now, *connection) {
                self.for_others.push(HandOver {
                    worker: connection.worker(),
                    kind: HandOverKind::Proven,
                    flow: Flow {
                        connection: *connection,
                        ..Flow::to(ListenerId(0), NOWHERE)
                    },
                    range: 0..0,
                    arrived: now,
                });
            }
        }
    }

    /// Reports the listeners whose sockets met the error of an earlier datagram while sending.
    pub(super) fn take_met_errors(&mut self, each: impl FnMut(usize)) {
        self.met_errors.drain(..).for_each(each);
    }

    pub(super) fn has_met_errors(&self) -> bool {
        !self.met_errors.is_empty()
    }

    /// Sends messages in the order of the output. Consecutive messages for the same socket are sent
    /// together.
    fn send(&mut self, now: Time, event_loop: &mut EventLoop, messages: &[Outgoing], bytes: &[u8]) {
        let stats = &*self.context.stats;
        let for_others = &mut self.for_others;
        let mut place = 0;
        for run in messages.chunk_by(|a, b| a.flow.listener == b.flow.listener) {
            let listener = run
                .first()
                .map_or(0, |message| usize::from(message.flow.listener.0));
            match self.context.sockets.get(listener) {
                Some(WorkerSocket::Datagrams(socket)) => {
                    if let Some(ring) = event_loop.ring() {
                        ring.send(listener as u16, run, bytes);
                    } else {
                        self.batch.send(socket.as_fd(), run, bytes, stats);
                        if self.batch.take_met_error() {
                            self.met_errors.push(listener);
                        }
                    }
                }
                Some(WorkerSocket::Streams(_)) => {
                    let for_other = |worker, flow, range| {
                        for_others.push(HandOver {
                            worker,
                            kind: HandOverKind::ToSend,
                            arrived: now,
                            flow,
                            range,
                        });
                    };
                    self.connections
                        .send(now, event_loop, (place, run), bytes, for_other);
                }
                None => stats.send_errors.add(run.len() as u64),
            }
            place += run.len();
        }
        let mut for_others = std::mem::take(&mut self.for_others);
        self.hand_over(&for_others, bytes);
        for_others.clear();
        self.for_others = for_others;
    }

    /// Sends a message that another worker has for a connection of ours.
    pub(super) fn send_for_other(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        flow: Flow,
        message: &[u8],
    ) {
        let outgoing = Outgoing {
            flow,
            range: 0..message.len(),
        };
        // The message names its connection, so it cannot lead to another worker.
        self.connections
            .send(now, event_loop, (0, &[outgoing]), message, |_, _, _| {});
    }

    fn hand_over(&mut self, messages: &[HandOver], bytes: &[u8]) {
        if messages.is_empty() {
            return;
        }
        let mut handed_over = 0;
        for message in messages {
            let bytes = bytes.get(message.range.clone()).unwrap_or_default();
            let mut buffer = self.spare_buffers.pop().unwrap_or_default();
            buffer.extend_from_slice(bytes);
            let to = usize::from(message.worker);
            let message = HandedOver {
                kind: message.kind,
                arrived: message.arrived,
                flow: message.flow,
                bytes: buffer,
            };
            let Some(inbox) = self.context.inboxes.get(to) else {
                continue;
            };
            match inbox.hand_over(message) {
                Ok(()) => {
                    handed_over += 1;
                    if let Some(to_wake) = self.to_wake.get_mut(to) {
                        *to_wake = true;
                    }
                }
                Err(message) => {
                    if message.kind == HandOverKind::ToSend {
                        self.connections
                            .give_up(message.flow, message.bytes.as_slice().into());
                    }
                    self.keep_buffer(message.bytes);
                }
            }
        }
        for (inbox, to_wake) in self.context.inboxes.iter().zip(&mut self.to_wake) {
            if std::mem::take(to_wake) {
                inbox.wake();
            }
        }
        let stats = &self.context.stats;
        stats.handed_over_out.add(handed_over);
        stats
            .hand_overs_dropped
            .add(messages.len() as u64 - handed_over);
    }

    /// Keeps the buffer of a hand-over for reuse. Workers hand over about equally often to each
    /// other, so incoming buffers suffice for outgoing messages.
    pub(super) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        if self.spare_buffers.len() < SPARE_BUFFERS && buffer.capacity() <= LARGEST_SPARE_BUFFER {
            buffer.clear();
            self.spare_buffers.push(buffer);
        }
    }

    fn tell_control_plane<Q, R>(&mut self, output: &mut Output<Q, R>)
    where
        C: ControlPlane<Q, R>,
    {
        let WorkerContext {
            index,
            control_plane,
            stats,
            ..
        } = &mut self.context;
        for question in output.drain_questions() {
            stats.questions.add(1);
            if control_plane.ask(*index, question).is_err() {
                stats.questions_dropped.add(1);
            }
        }
        for record in output.drain_records() {
            stats.records.add(1);
            if control_plane.record(*index, record).is_err() {
                stats.records_dropped.add(1);
            }
        }
    }

    pub(super) fn count_kernel_drops(&mut self) {
        for socket in &mut self.context.sockets {
            if let WorkerSocket::Datagrams(socket) = socket
                && let Ok(drops) = socket.new_kernel_drops()
            {
                self.context.stats.kernel_drops.add(u64::from(drops));
            }
        }
    }
}
