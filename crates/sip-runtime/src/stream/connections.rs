//! A worker's connections: their table, their deadlines and how they end. [`super::accepting`] accepts them, [`super::reading`]
//! and [`super::sending`] move data, and [`super::unproven`] tracks those with unproven peers.

use super::close::{CloseReason, RefuseReason};
use super::connection::{Buffers, Connection, Stage};
use super::connection_slots::ConnectionSlots;
use super::deadlines::Deadlines;
use super::descriptor_reserve::{DescriptorReserve, Wanted};
use super::directory::{Destination, Directory};
use super::framing::Framing;
use super::memory::Memory;
use super::options::{Aliases, StreamOptions};
use super::peers::Peers;
use super::table::Table;
use super::unproven::UnprovenPeers;
use crate::event_loop::{EventLoop, Interest};
use crate::stats::WorkerStats;
use crate::tls::TlsSession;
use papaya::HashSet;
use rustc_hash::FxBuildHasher;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Protocol, Time};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// First token of connections in the event loop. Smaller tokens are the listeners' sockets.
const FIRST_TOKEN: usize = 1 << 32;

/// State that the connections of all workers share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(super) directory: Directory,
    pub(super) peers: Peers,
    pub(super) connection_slots: ConnectionSlots,
    /// Accepted connections whose peers are not proven yet.
    pub(super) unproven: HashSet<ConnectionId, FxBuildHasher>,
    pub(super) wanted: Wanted,
}

/// The connections of one worker.
pub(crate) struct Connections {
    pub(super) worker: u16,
    pub(super) options: StreamOptions,
    listeners: Arc<[Listener]>,
    pub(super) shared: Arc<Shared>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) table: Table<Connection>,
    deadlines: Deadlines,
    pub(super) buffers: Buffers,
    /// Messages of an output, by connection and in their order.
    pub(super) gathered: Vec<(u32, Range<usize>)>,
    /// Connections whose deadline may have passed.
    due: Vec<u32>,
    /// Connections to shut down once this round's output is written.
    pub(super) leaving: Vec<u32>,
    /// The domain name that led to the address of a message, by the message's index in the output.
    pub(super) names: Vec<(usize, String)>,
    /// Messages that could not be sent.
    undeliverable: Vec<(Flow, Box<[u8]>)>,
    /// Closed connections that the node has not been notified of yet.
    ended: Vec<Flow>,
    pub(super) memory: Memory,
    pub(super) unproven_peers: UnprovenPeers,
    /// This worker's share of the limits.
    pub(super) max_queued: usize,
    pub(super) max_partial: usize,
    pub(super) descriptor_reserve: DescriptorReserve,
}

/// A socket that becomes a connection.
pub(super) struct Opened {
    pub(super) socket: OwnedFd,
    pub(super) flow: Flow,
    pub(super) destination: Destination,
    pub(super) stage: Stage,
    pub(super) tls: Option<TlsSession>,
}

impl Connections {
    pub(crate) fn new(
        (worker, workers): (u16, usize),
        options: StreamOptions,
        listeners: Arc<[Listener]>,
        shared: Arc<Shared>,
        stats: Arc<WorkerStats>,
        now: Time,
    ) -> Self {
        let has_streams = listeners
            .iter()
            .any(|listener| listener.protocol != Protocol::Udp);
        Self {
            worker,
            max_queued: options.max_queued / workers.max(1),
            max_partial: options.max_partial / workers.max(1),
            options,
            listeners,
            shared,
            stats,
            table: Table::new(),
            deadlines: Deadlines::new(now),
            buffers: Buffers::default(),
            gathered: Vec::new(),
            due: Vec::new(),
            leaving: Vec::new(),
            names: Vec::new(),
            undeliverable: Vec::new(),
            ended: Vec::new(),
            memory: Memory::default(),
            unproven_peers: UnprovenPeers::default(),
            descriptor_reserve: has_streams
                .then(DescriptorReserve::open)
                .unwrap_or_default(),
        }
    }

    /// Whether an event-loop token belongs to a connection.
    pub(crate) const fn owns(token: usize) -> bool {
        token >= FIRST_TOKEN && token != usize::MAX
    }

    pub(super) fn listener(&self, id: ListenerId) -> Option<&Listener> {
        self.listeners.get(usize::from(id.0))
    }

    pub(super) fn protocol(&self, listener: ListenerId) -> Protocol {
        self.listener(listener)
            .map_or(Protocol::Tcp, |listener| listener.protocol)
    }

    /// Adds a connection that holds a slot. `None`: it cannot be watched, and its slot is free again.
    pub(super) fn insert(&mut self, event_loop: &mut EventLoop, opened: Opened) -> Option<u32> {
        let inserted = self.insert_in_slot(event_loop, opened);
        if inserted.is_none() {
            self.shared.connection_slots.leave();
        }
        inserted
    }

    fn insert_in_slot(&mut self, event_loop: &mut EventLoop, opened: Opened) -> Option<u32> {
        let Opened {
            socket,
            flow,
            destination,
            stage,
            tls,
        } = opened;
        let (worker, options) = (self.worker, &self.options);
        let protocol = self.protocol(flow.listener);
        if tls.is_none() && matches!(protocol, Protocol::Tls | Protocol::Wss) {
            return None;
        }
        let is_ours = stage == Stage::Connecting;
        let framing = Framing::new(protocol, is_ours, options);
        let name = self.table.insert(options.max_connections, |name| {
            let connection = ConnectionId::new(worker, name);
            let flow = Flow { connection, ..flow };
            Connection::new(socket, flow, destination, stage, framing, tls)
        })?;
        let connection = self.table.get(name)?;
        connection.interest.writable = is_ours;
        let (interest, id) = (connection.interest, connection.flow.connection);
        if let Err(error) = event_loop.watch(connection.as_fd(), token(name), interest) {
            // The kernel is out of memory.
            error!(worker, %error, "cannot watch a connection");
            self.table.remove(name);
            return None;
        }
        self.shared.directory.enter(destination, id);
        self.shared.directory.enter(destination.for_any_peer(), id);
        self.stats.connections.set(self.table.len() as u64);
        Some(name)
    }

    pub(super) fn refused(&self, reason: RefuseReason) {
        self.stats
            .connections_refused
            .get(reason as usize)
            .inspect(|counter| counter.add(1));
    }

    /// Handles an alias: requests to the peer's address and `port` are to use its connection (RFC 5923).
    pub(crate) fn add_alias(&mut self, id: ConnectionId, port: u16) {
        let aliases = self.options.aliases;
        if id.worker() != self.worker {
            return;
        }
        let Some(connection) = self.table.get(id.slot()) else {
            return;
        };
        let is_believed = match aliases {
            Aliases::None => false,
            Aliases::Certified => connection.is_certified(),
            Aliases::All => true,
        };
        if !is_believed || !connection.is_accepted || connection.alias.is_some() {
            return;
        }
        connection.alias = Some(port);
        let alias = SocketAddr::new(connection.flow.remote.ip(), port);
        let destination = connection.destination.at(alias);
        self.shared.directory.enter(destination, id);
    }

    /// Updates the events to wait for. Nothing is read from a peer that does not read either.
    pub(super) fn update_interest(&mut self, event_loop: &mut EventLoop, name: u32) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let interest = Interest {
            readable: connection.queued() <= self.options.max_queue / 2,
            writable: connection.wants_to_write(),
        };
        if interest == connection.interest {
            return;
        }
        connection.interest = interest;
        if let Err(error) = event_loop.change(connection.as_fd(), token(name), interest) {
            error!(worker = self.worker, %error, "cannot change how a connection is watched");
            self.close(event_loop, name, CloseReason::Failed);
        }
    }

    /// Sets the deadline of an open connection for what it expects from its peer: a message, or the rest of one. While output is
    /// queued, the write deadline applies instead.
    pub(super) fn set_deadline_of_waiting(&mut self, now: Time, name: u32) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let patience = match connection.stage {
            _ if connection.queue.is_some() => return,
            _ if connection.is_in_message() => self.options.message_timeout,
            Stage::Fresh => self.options.silent_timeout,
            _ if !connection.is_proven() => self.unproven_timeout(),
            _ => self.options.idle_timeout,
        };
        self.set_deadline(now, name, patience);
    }

    /// Moves the deadline. A connection that is closing gets no more time.
    pub(super) fn set_deadline(&mut self, now: Time, name: u32, after: Duration) {
        let Some(connection) = self.table.get(name).filter(|found| found.end().is_none()) else {
            return;
        };
        connection.deadline = seconds_of(now + after).min(connection.last_deadline);
        if connection.scheduled == 0 || connection.deadline < connection.scheduled {
            connection.scheduled = self.deadlines.schedule(name, connection.deadline);
        }
    }

    /// When to call [`Connections::expire`] or [`Connections::take_resumed_listeners`] next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.deadlines.next(), self.descriptor_reserve.until()];
        deadlines.into_iter().flatten().min()
    }

    /// Closes the connections whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Time, event_loop: &mut EventLoop) {
        let mut due = std::mem::take(&mut self.due);
        self.deadlines.expire(now, &mut due);
        let seconds = now.unix_seconds() as u32;
        for name in due.drain(..) {
            let Some(connection) = self.table.get(name) else {
                continue;
            };
            // A stale entry: the deadline was moved to an earlier second and was checked then.
            if connection.scheduled > seconds {
                continue;
            }
            if connection.deadline > seconds {
                connection.scheduled = self.deadlines.schedule(name, connection.deadline);
                continue;
            }
            let reason = reason_of_timeout(connection);
            self.close(event_loop, name, reason);
        }
        self.due = due;
    }

    /// Shuts down closing connections, now that the output of this round is written.
    pub(crate) fn shut_down_closing(&mut self) {
        while let Some(name) = self.leaving.pop() {
            if let Some(connection) = self.table.get(name)
                && connection.queue.is_none()
            {
                shut_down_closing(connection, &mut self.buffers);
            }
        }
    }

    /// Removes a connection from the directory, so that no more messages are routed to it.
    pub(super) fn leave_directory(&mut self, name: u32) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let (flow, destination) = (connection.flow, connection.destination);
        let directory = &self.shared.directory;
        directory.leave(destination, flow.connection);
        directory.leave(destination.for_any_peer(), flow.connection);
        if let Some(port) = connection.alias {
            let alias = SocketAddr::new(flow.remote.ip(), port);
            directory.leave(destination.at(alias), flow.connection);
        }
    }

    /// Reports the messages queued for a connection as undeliverable.
    pub(super) fn give_up_messages(&mut self, name: u32) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let flow = connection.flow;
        let mut messages = Vec::new();
        if let Some(queue) = &mut connection.queue {
            messages.extend(std::iter::from_fn(|| queue.pop()));
            if queue.is_empty() {
                connection.queue = None;
            }
        }
        self.update_accounting(name);
        for message in messages {
            self.give_up(flow, message);
        }
    }

    /// Closes a connection at the request of the node. A connection of another worker stays open: only its owner can close it.
    pub(crate) fn close_own(&mut self, event_loop: &mut EventLoop, connection: ConnectionId) {
        if connection.worker() == self.worker {
            self.close(event_loop, connection.slot(), CloseReason::ByNode);
        }
    }

    pub(super) fn close(&mut self, event_loop: &mut EventLoop, name: u32, reason: CloseReason) {
        self.leave_directory(name);
        self.give_up_messages(name);
        let Some(mut connection) = self.table.remove(name) else {
            return;
        };
        // Closing the descriptor removes it from the event loop in any case.
        let _ = event_loop.forget(connection.as_fd(), token(name));
        if !matches!(reason, CloseReason::ByPeer | CloseReason::Failed) && connection.is_writable()
        {
            write_close_notify(&mut connection, &mut self.buffers);
        }
        let reason = connection.end().unwrap_or(reason);
        self.remove_from_accounting(&mut connection);
        self.shared.connection_slots.leave();
        if !connection.is_proven() {
            let unproven = self.shared.unproven.pin();
            unproven.remove(&connection.flow.connection);
            self.unproven_peers.remove(name, &connection);
        }
        if connection.is_counted {
            self.shared.peers.leave(connection.flow.remote.ip());
        }
        self.count_closed(reason);
        self.ended.push(connection.flow);
        self.stats.connections.set(self.table.len() as u64);
    }

    pub(super) fn count_closed(&self, reason: CloseReason) {
        self.stats
            .connections_closed
            .get(reason as usize)
            .inspect(|counter| counter.add(1));
    }

    /// Records a message that cannot be sent.
    pub(crate) fn give_up(&mut self, flow: Flow, message: Box<[u8]>) {
        self.stats.undeliverable.add(1);
        self.undeliverable.push((flow, message));
    }

    /// Whether the node must be notified of undeliverable messages or closed connections.
    pub(crate) fn has_events(&self) -> bool {
        !self.undeliverable.is_empty() || !self.ended.is_empty()
    }

    /// The closed connections that the node has not been notified of yet.
    pub(crate) fn take_ended(&mut self) -> Vec<Flow> {
        std::mem::take(&mut self.ended)
    }

    /// The undeliverable messages that the node has not been notified of yet.
    pub(crate) fn take_undeliverable(&mut self) -> Vec<(Flow, Box<[u8]>)> {
        std::mem::take(&mut self.undeliverable)
    }
}

/// Sends the close message of TLS, then closes the write direction.
pub(super) fn shut_down_closing(connection: &mut Connection, buffers: &mut Buffers) {
    write_close_notify(connection, buffers);
    connection.shut_down();
}

/// Sends the close message of TLS, so that the peer knows that nothing was truncated.
fn write_close_notify(connection: &mut Connection, buffers: &mut Buffers) {
    connection.write_close_notify(&mut buffers.output);
    if !buffers.output.is_empty() {
        // If this fails, the peer sees the closed connection anyway.
        let _ = connection.write(&[IoSlice::new(&buffers.output)]);
    }
}

pub(super) const fn token(name: u32) -> usize {
    FIRST_TOKEN + name as usize
}

pub(super) const fn name_of(token: usize) -> u32 {
    (token - FIRST_TOKEN) as u32
}

/// A deadline in whole seconds, rounded up so that it is never early.
pub(super) fn seconds_of(deadline: Time) -> u32 {
    u32::try_from(deadline.unix_seconds() + 1).unwrap_or(u32::MAX)
}

fn reason_of_timeout(connection: &Connection) -> CloseReason {
    match connection.stage {
        Stage::Leaving(reason) | Stage::Left(reason) => reason,
        Stage::Connecting | Stage::Opening => CloseReason::OpenTimeout,
        _ if connection.queue.is_some() => CloseReason::NotReading,
        _ if connection.is_in_message() => CloseReason::HalfMessage,
        Stage::Fresh => CloseReason::Silent,
        Stage::Used if !connection.is_proven() => CloseReason::Unproven,
        Stage::Used => CloseReason::Idle,
    }
}
