//! A worker's connections: who they are, when they are due, how they end. [`super::accepting`] takes them in, [`super::reading`]
//! and [`super::sending`] move what goes through them.

use super::close::{CloseReason, RefuseReason};
use super::connection::{Buffers, Connection, Stage};
use super::deadlines::Deadlines;
use super::directory::Directory;
use super::framing::Framing;
use super::options::{Aliases, StreamOptions};
use super::peers::Peers;
use super::scarcity::Scarcity;
use super::slab::Slab;
use crate::event_loop::{EventLoop, Interest};
use crate::stats::WorkerStats;
use crate::tls::TlsSession;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Protocol, Time};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// The tokens of connections in the event loop begin here; below are the sockets of the listeners.
const FIRST_TOKEN: usize = 1 << 32;

/// What the connections of all workers share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(super) directory: Directory,
    pub(super) peers: Peers,
}

/// A worker's connections.
pub(crate) struct Connections {
    pub(super) worker: u16,
    pub(super) options: StreamOptions,
    listeners: Arc<[Listener]>,
    pub(super) shared: Arc<Shared>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) slab: Slab<Connection>,
    deadlines: Deadlines,
    pub(super) buffers: Buffers,
    /// Messages of an output by connection, in their order.
    pub(super) gathered: Vec<(u32, Range<usize>)>,
    /// Connections whose deadline may have come.
    due: Vec<u32>,
    /// Connections to take leave of once the answers of this round are written.
    pub(super) leaving: Vec<u32>,
    /// Whom connections that are opened in this round lead to.
    pub(super) names: Vec<(SocketAddr, String)>,
    /// What could not be sent.
    undeliverable: Vec<(Flow, Box<[u8]>)>,
    /// Octets that wait for all peers.
    pub(super) queued: usize,
    pub(super) scarcity: Scarcity,
}

impl Connections {
    pub(crate) fn new(
        worker: u16,
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
            options,
            listeners,
            shared,
            stats,
            slab: Slab::new(),
            deadlines: Deadlines::new(now),
            buffers: Buffers::default(),
            gathered: Vec::new(),
            due: Vec::new(),
            leaving: Vec::new(),
            names: Vec::new(),
            undeliverable: Vec::new(),
            queued: 0,
            scarcity: has_streams.then(Scarcity::foresee).unwrap_or_default(),
        }
    }

    /// Whether the event loop's token is that of a connection.
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

    /// Takes a connection on; `None`: there are too many, or it cannot be watched.
    pub(super) fn insert(
        &mut self,
        event_loop: &mut EventLoop,
        socket: OwnedFd,
        flow: Flow,
        stage: Stage,
        tls: Option<TlsSession>,
    ) -> Option<u32> {
        let (worker, options) = (self.worker, &self.options);
        let protocol = self.protocol(flow.listener);
        if tls.is_none() && matches!(protocol, Protocol::Tls | Protocol::Wss) {
            return None;
        }
        let framing = Framing::new(protocol, options);
        let name = self.slab.insert(options.max_connections, |name| {
            let connection = ConnectionId::new(worker, name);
            Connection::new(socket, Flow { connection, ..flow }, stage, framing, tls)
        })?;
        let connection = self.slab.get(name)?;
        connection.interest.writable = stage == Stage::Connecting;
        let (interest, flow) = (connection.interest, connection.flow);
        if let Err(error) = event_loop.watch(connection.as_fd(), token(name), interest) {
            // A kernel out of memory.
            error!(worker, %error, "a connection cannot be watched");
            self.slab.remove(name);
            return None;
        }
        let directory = &self.shared.directory;
        directory.enter(protocol, flow.remote, flow.connection);
        self.stats.connections.set(self.slab.len() as u64);
        Some(name)
    }

    pub(super) fn refused(&self, reason: RefuseReason) {
        self.stats
            .connections_refused
            .get(reason as usize)
            .inspect(|counter| counter.add(1));
    }

    /// A peer says that requests to its address and `port` are to take its connection (RFC 5923).
    pub(crate) fn add_alias(&mut self, id: ConnectionId, port: u16) {
        let aliases = self.options.aliases;
        if id.worker() != self.worker {
            return;
        }
        let Some(connection) = self.slab.get(id.slot()) else {
            return;
        };
        let is_believed = match aliases {
            Aliases::Nobody => false,
            Aliases::Certified => connection.is_certified(),
            Aliases::Everybody => true,
        };
        if !is_believed || !connection.is_accepted || connection.alias.is_some() {
            return;
        }
        connection.alias = Some(port);
        let flow = connection.flow;
        let alias = SocketAddr::new(flow.remote.ip(), port);
        let protocol = self.protocol(flow.listener);
        self.shared.directory.enter(protocol, alias, id);
    }

    /// Waits for what the connection needs: nothing is read from a peer that does not read either.
    pub(super) fn update_interest(&mut self, event_loop: &mut EventLoop, name: u32) {
        let Some(connection) = self.slab.get(name) else {
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
            error!(worker = self.worker, %error, "a connection cannot be watched any more");
            self.close(event_loop, name, CloseReason::Failed);
        }
    }

    pub(super) fn set_deadline(&mut self, now: Time, name: u32, after: Duration) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        // Whole seconds, and never early.
        connection.deadline = (now + after).unix_seconds() + 1;
        if connection.scheduled == 0 || connection.deadline < connection.scheduled {
            connection.scheduled = self.deadlines.schedule(name, connection.deadline);
        }
    }

    /// When [`Connections::expire`] or [`Connections::rested`] wants to be called.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let deadlines = [self.deadlines.next(), self.scarcity.until()];
        deadlines.into_iter().flatten().min()
    }

    /// Closes those whose deadline has come.
    pub(crate) fn expire(&mut self, now: Time, event_loop: &mut EventLoop) {
        let mut due = std::mem::take(&mut self.due);
        self.deadlines.expire(now, &mut due);
        let seconds = now.unix_seconds();
        for name in due.drain(..) {
            let Some(connection) = self.slab.get(name) else {
                continue;
            };
            // It was brought forward since, and has been looked at then.
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

    /// The answers of a round are written: whoever is being left is told that nothing more comes.
    pub(crate) fn take_leave(&mut self) {
        while let Some(name) = self.leaving.pop() {
            if let Some(connection) = self.slab.get(name)
                && connection.queue.is_none()
            {
                say_goodbye(connection, &mut self.buffers);
                connection.shut_down();
            }
        }
    }

    pub(super) fn close(&mut self, event_loop: &mut EventLoop, name: u32, reason: CloseReason) {
        let Some(mut connection) = self.slab.remove(name) else {
            return;
        };
        // It goes with its descriptor anyway.
        let _ = event_loop.forget(connection.as_fd(), token(name));
        if !matches!(reason, CloseReason::ByPeer | CloseReason::Failed) && connection.is_writable()
        {
            say_goodbye(&mut connection, &mut self.buffers);
        }
        let flow = connection.flow;
        let protocol = self.protocol(flow.listener);
        let directory = &self.shared.directory;
        directory.leave(protocol, flow.remote, flow.connection);
        if let Some(port) = connection.alias {
            let alias = SocketAddr::new(flow.remote.ip(), port);
            directory.leave(protocol, alias, flow.connection);
        }
        if connection.is_accepted {
            self.shared.peers.leave(flow.remote.ip());
        }
        self.queued -= connection.queued();
        if let Some(mut queue) = connection.queue {
            while let Some(message) = queue.pop() {
                self.give_up(flow, message);
            }
        }
        self.count_closed(reason);
        self.stats.connections.set(self.slab.len() as u64);
    }

    pub(super) fn count_closed(&self, reason: CloseReason) {
        self.stats
            .connections_closed
            .get(reason as usize)
            .inspect(|counter| counter.add(1));
    }

    /// A message that cannot be sent.
    pub(crate) fn give_up(&mut self, flow: Flow, message: Box<[u8]>) {
        self.stats.undeliverable.add(1);
        self.undeliverable.push((flow, message));
    }

    /// Whether anything could not be sent.
    pub(crate) fn has_undeliverable(&self) -> bool {
        !self.undeliverable.is_empty()
    }

    /// What could not be sent, for the node to know.
    pub(crate) fn take_undeliverable(&mut self) -> Vec<(Flow, Box<[u8]>)> {
        std::mem::take(&mut self.undeliverable)
    }
}

/// Tells a peer that nothing was cut off.
fn say_goodbye(connection: &mut Connection, buffers: &mut Buffers) {
    connection.say_goodbye(&mut buffers.output);
    if !buffers.output.is_empty() {
        // Whoever does not take it will know anyway.
        let _ = connection.write(&[IoSlice::new(&buffers.output)]);
    }
}

pub(super) const fn token(name: u32) -> usize {
    FIRST_TOKEN + name as usize
}

pub(super) const fn name_of(token: usize) -> u32 {
    (token - FIRST_TOKEN) as u32
}

fn reason_of_timeout(connection: &Connection) -> CloseReason {
    match connection.stage {
        Stage::Leaving(reason) => reason,
        Stage::Connecting | Stage::Opening => CloseReason::OpenTimeout,
        _ if connection.queue.is_some() => CloseReason::NotReading,
        _ if connection.is_in_message() => CloseReason::HalfMessage,
        Stage::Fresh => CloseReason::Silent,
        Stage::Used => CloseReason::Idle,
    }
}
