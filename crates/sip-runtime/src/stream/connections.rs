//! A worker's connections: accepted, opened, read, written, closed.

use super::close::{CloseReason, RefuseReason};
use super::connection::{Brought, Connection, PONG, Stage};
use super::deadlines::Deadlines;
use super::directory::Directory;
use super::listening::Listening;
use super::options::StreamOptions;
use super::peers::Peers;
use super::queue::Queue;
use super::slab::Slab;
use super::socket;
use crate::event_loop::{EventLoop, Interest};
use crate::stats::WorkerStats;
use rustix::io::Errno;
use sip_message::framing::Framer;
use sip_transport::{ConnectionId, Flow, Listener, ListenerId, Outgoing, Protocol, Time};
use smallvec::SmallVec;
use std::fs::File;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// The tokens of connections in the event loop begin here; below are the sockets of the listeners.
const FIRST_TOKEN: usize = 1 << 32;

/// Octets read from a connection at a time, and made ready to be written.
const AT_ONCE: usize = 64 << 10;

/// Connections accepted of one listener before others have their turn.
const ACCEPTED_AT_ONCE: usize = 128;

/// Messages written with one system call.
const PARTS: usize = 64;

/// How long what is written to a peer that is being left may take to reach it.
const LEAVING: Duration = Duration::from_secs(2);

/// What the connections of all workers share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    directory: Directory,
    peers: Peers,
}

/// Where a message goes.
enum Way {
    /// Over this connection of ours.
    Own(u32),
    /// Over a connection of another worker.
    Other(Flow),
    /// There is none.
    None,
}

/// A worker's connections.
pub(crate) struct Connections {
    worker: u16,
    options: StreamOptions,
    listeners: Arc<[Listener]>,
    shared: Arc<Shared>,
    stats: Arc<WorkerStats>,
    slab: Slab<Connection>,
    deadlines: Deadlines,
    /// What is read when no message has begun.
    buffer: Vec<u8>,
    /// Messages of an output by connection, in their order.
    gathered: Vec<(u32, Range<usize>)>,
    /// Connections whose deadline may have come.
    due: Vec<u32>,
    /// Connections to say goodbye on once the answers of this round are written.
    leaving: Vec<u32>,
    /// What could not be sent.
    undeliverable: Vec<(Flow, Box<[u8]>)>,
    /// Octets that wait for all peers.
    queued: usize,
    /// Given up for a moment when the process has no descriptor left: whoever waits is accepted with it and told to go.
    reserve: Option<File>,
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
            buffer: Vec::with_capacity(if has_streams { AT_ONCE } else { 0 }),
            gathered: Vec::new(),
            due: Vec::new(),
            leaving: Vec::new(),
            undeliverable: Vec::new(),
            queued: 0,
            reserve: has_streams.then(open_reserve).flatten(),
        }
    }

    /// Whether the event loop's token is that of a connection.
    pub(crate) const fn owns(token: usize) -> bool {
        token >= FIRST_TOKEN && token != usize::MAX
    }

    /// When [`Connections::expire`] wants to be called.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    /// Accepts those that wait at a listener.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        id: ListenerId,
        listening: &Listening,
    ) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match listening.accept() {
                Ok((socket, peer)) => {
                    let flow = Flow::to(id, peer);
                    if let Err(reason) = self.admit(now, event_loop, socket, flow) {
                        self.refused(reason);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => {
                    self.refused(RefuseReason::NoDescriptor);
                    if self.reserve.take().is_some() {
                        drop(listening.accept());
                        self.reserve = open_reserve();
                    }
                    return;
                }
                // A peer that went away while it waited, and other moments of one connection.
                Err(_) => {}
            }
        }
    }

    fn admit(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        socket: OwnedFd,
        flow: Flow,
    ) -> Result<(), RefuseReason> {
        let peer = flow.remote.ip();
        if !self.shared.peers.enter(peer, self.options.max_per_peer) {
            return Err(RefuseReason::PeerLimit);
        }
        let Some(name) = self.insert(event_loop, socket, flow, Stage::Fresh) else {
            self.shared.peers.leave(peer);
            return Err(RefuseReason::TableFull);
        };
        self.stats.connections_accepted.add(1);
        self.set_deadline(now, name, self.options.silent_timeout);
        Ok(())
    }

    fn insert(
        &mut self,
        event_loop: &mut EventLoop,
        socket: OwnedFd,
        flow: Flow,
        stage: Stage,
    ) -> Option<u32> {
        let (worker, options) = (self.worker, self.options);
        let name = self.slab.insert(options.max_connections, |name| {
            let connection = ConnectionId::new(worker, name);
            let framer = Framer::new(options.max_header, options.max_body);
            Connection::new(socket, Flow { connection, ..flow }, stage, framer)
        })?;
        let connection = self.slab.get(name)?;
        connection.interest.writable = stage == Stage::Opening;
        let (interest, flow) = (connection.interest, connection.flow);
        if let Err(error) = event_loop.watch(connection.as_fd(), token(name), interest) {
            // A kernel out of memory.
            error!(worker, %error, "a connection cannot be watched");
            self.slab.remove(name);
            return None;
        }
        let protocol = self.protocol(flow.listener);
        self.shared
            .directory
            .enter(protocol, flow.remote, flow.connection);
        self.stats.connections.set(self.slab.len() as u64);
        Some(name)
    }

    fn protocol(&self, listener: ListenerId) -> Protocol {
        self.listeners
            .get(usize::from(listener.0))
            .map_or(Protocol::Tcp, |listener| listener.protocol)
    }

    fn refused(&self, reason: RefuseReason) {
        self.stats
            .connections_refused
            .get(reason as usize)
            .inspect(|counter| counter.add(1));
    }

    /// Something can be read from a connection, or written to it. `deliver` gets every message that came.
    pub(crate) fn ready(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        ready: crate::event_loop::Ready,
        deliver: impl FnMut(Flow, &[u8]),
    ) {
        let name = (ready.token - FIRST_TOKEN) as u32;
        if ready.writable {
            self.flush(now, event_loop, name);
        }
        if ready.readable {
            self.read(now, event_loop, name, deliver);
        }
    }

    fn read(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        deliver: impl FnMut(Flow, &[u8]),
    ) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        let was_in_message = connection.is_in_message();
        let brought = connection.read(&mut self.buffer, deliver);
        let stats = &self.stats;
        stats.stream_octets_received.add(brought.octets as u64);
        stats.stream_messages_received.add(brought.messages as u64);
        stats.pings.add(brought.pings as u64);
        if brought.pings > 0 && connection.is_writable() {
            // Whoever does not even read these needs none.
            let _ = connection.write(&[IoSlice::new(PONG)]);
        }
        match (brought.end, connection.stage) {
            (None, _) => self.after_read(now, name, brought, was_in_message),
            (Some(reason @ (CloseReason::ByPeer | CloseReason::Failed)), stage) => {
                let reason = match stage {
                    Stage::Leaving(reason) => reason,
                    _ => reason,
                };
                self.close(event_loop, name, reason);
            }
            (Some(reason), _) => {
                connection.stage = Stage::Leaving(reason);
                self.leaving.push(name);
                self.set_deadline(now, name, LEAVING);
            }
        }
    }

    /// Moves the deadline to what the connection waits for now.
    fn after_read(&mut self, now: Time, name: u32, brought: Brought, was_in_message: bool) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        let has_come = brought.messages + brought.pings > 0;
        if has_come && connection.stage == Stage::Fresh {
            connection.stage = Stage::Used;
        }
        if connection.queue.is_some() {
            return; // The peer has to read before anything else counts.
        }
        if connection.is_in_message() {
            if has_come || !was_in_message {
                self.set_deadline(now, name, self.options.message_timeout);
            }
        } else if has_come {
            self.set_deadline(now, name, self.options.idle_timeout);
        }
    }

    /// Sends messages of `bytes` over connections, those of one connection in their order and together. `pass` gets what goes
    /// over a connection of another worker.
    pub(crate) fn send(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        messages: &[Outgoing],
        bytes: &[u8],
        mut pass: impl FnMut(u16, Flow, Range<usize>),
    ) {
        for message in messages {
            let range = message.range.clone();
            match self.way(now, event_loop, message.flow) {
                Way::Own(name) => self.gathered.push((name, range)),
                Way::Other(flow) => pass(flow.connection.worker(), flow, range),
                Way::None => {
                    let octets = bytes.get(range).unwrap_or_default();
                    self.give_up(message.flow, octets.into());
                }
            }
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.sort_by_key(|(name, _)| *name);
        for of_one in gathered.chunk_by(|a, b| a.0 == b.0) {
            if let Some((name, _)) = of_one.first() {
                self.write(now, event_loop, *name, of_one, bytes);
            }
        }
        gathered.clear();
        self.gathered = gathered;
    }

    /// Section 18.1.1: the connection that the message names, or the one that leads to its address, opened where there is none.
    fn way(&mut self, now: Time, event_loop: &mut EventLoop, flow: Flow) -> Way {
        let connection = if flow.connection.is_some() {
            Some(flow.connection)
        } else {
            let protocol = self.protocol(flow.listener);
            self.shared.directory.find(protocol, flow.remote)
        };
        match connection {
            Some(connection) if connection.worker() != self.worker => {
                Way::Other(Flow { connection, ..flow })
            }
            Some(connection) => match self.slab.get(connection.slot()) {
                // The same name may be another's by now.
                Some(found) if found.flow.remote == flow.remote => Way::Own(connection.slot()),
                _ => Way::None,
            },
            None => match self.open(now, event_loop, flow) {
                Some(name) => Way::Own(name),
                None => Way::None,
            },
        }
    }

    /// Begins to open a connection. Nobody is called over WebSocket: who speaks it cannot be (RFC 7118 section 5.2).
    fn open(&mut self, now: Time, event_loop: &mut EventLoop, flow: Flow) -> Option<u32> {
        let listener = self.listeners.get(usize::from(flow.listener.0))?;
        if matches!(listener.protocol, Protocol::Ws | Protocol::Wss) {
            return None;
        }
        let keep_alive = self.options.keep_alive;
        let socket = socket::begin_connecting(listener.address, flow.remote, keep_alive);
        let opened = match socket {
            Ok(socket) => self
                .insert(event_loop, socket, flow, Stage::Opening)
                .ok_or(RefuseReason::TableFull),
            Err(Errno::MFILE | Errno::NFILE) => Err(RefuseReason::NoDescriptor),
            Err(_) => {
                self.count_closed(CloseReason::NotOpened);
                return None;
            }
        };
        match opened {
            Ok(name) => {
                self.stats.connections_opened.add(1);
                self.set_deadline(now, name, self.options.open_timeout);
                Some(name)
            }
            Err(reason) => {
                self.refused(reason);
                None
            }
        }
    }

    /// Writes messages of one connection, and queues what its socket does not take.
    fn write(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        messages: &[(u32, Range<usize>)],
        bytes: &[u8],
    ) {
        let octets =
            |message: &(u32, Range<usize>)| bytes.get(message.1.clone()).unwrap_or_default();
        let Some(flow) = self.slab.get(name).map(|connection| connection.flow) else {
            return;
        };
        for part in messages.chunks(PARTS) {
            let mut written = 0;
            if let Some(connection) = self.slab.get(name)
                && connection.is_writable()
            {
                let slices: SmallVec<[IoSlice<'_>; PARTS]> = part
                    .iter()
                    .map(|message| IoSlice::new(octets(message)))
                    .collect();
                match connection.write(&slices) {
                    Ok(count) => written = count,
                    Err(_) => self.close(event_loop, name, CloseReason::Failed),
                }
                self.stats.stream_octets_sent.add(written as u64);
            }
            for message in part {
                let octets = octets(message);
                let gone = written.min(octets.len());
                written -= gone;
                if gone < octets.len() {
                    self.enqueue(now, event_loop, flow, octets, gone);
                }
            }
            self.stats.stream_messages_sent.add(part.len() as u64);
        }
    }

    /// Queues a message of which the socket has taken so many octets.
    fn enqueue(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        flow: Flow,
        octets: &[u8],
        gone: usize,
    ) {
        let name = flow.connection.slot();
        let Some(connection) = self.slab.get(name) else {
            return self.give_up(flow, octets.into());
        };
        let left = octets.len() - gone;
        let is_full = connection.queued() + left > self.options.max_queue
            || self.queued + left > self.options.max_queued;
        // What has begun must be ended.
        if is_full && gone == 0 {
            self.stats.stream_queue_full.add(1);
            return self.give_up(flow, octets.into());
        }
        let is_first = connection.queue.is_none();
        let is_opening = connection.stage == Stage::Opening;
        let queue = connection.queue.get_or_insert_with(Box::default);
        match octets.get(gone..) {
            Some(rest) if gone > 0 => queue.push_octets(rest),
            _ => queue.push(octets.into()),
        }
        self.queued += left;
        if is_first && !is_opening {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_interest(event_loop, name);
    }

    /// Writes what waits.
    fn flush(&mut self, now: Time, event_loop: &mut EventLoop, name: u32) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        if connection.stage == Stage::Opening && connection.finish_opening().is_err() {
            return self.close(event_loop, name, CloseReason::NotOpened);
        }
        let Some(mut queue) = connection.queue.take() else {
            self.set_deadline(now, name, self.options.idle_timeout);
            return self.update_interest(event_loop, name);
        };
        let before = queue.length();
        let result = write_queue(connection, &mut queue);
        let written = before - queue.length();
        let is_empty = queue.is_empty();
        if !is_empty {
            connection.queue = Some(queue);
        }
        self.queued -= written;
        self.stats.stream_octets_sent.add(written as u64);
        if result.is_err() {
            return self.close(event_loop, name, CloseReason::Failed);
        }
        if is_empty {
            self.set_deadline(now, name, self.options.idle_timeout);
        } else if written > 0 {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_interest(event_loop, name);
    }

    /// Waits for what the connection needs: nothing is read from a peer that does not read either.
    fn update_interest(&mut self, event_loop: &mut EventLoop, name: u32) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        let interest = Interest {
            readable: connection.queued() <= self.options.max_queue / 2,
            writable: connection.queue.is_some() || connection.stage == Stage::Opening,
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

    fn set_deadline(&mut self, now: Time, name: u32, after: Duration) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        // Whole seconds, and never early.
        connection.deadline = (now + after).unix_seconds() + 1;
        if connection.scheduled == 0 || connection.deadline < connection.scheduled {
            connection.scheduled = self.deadlines.schedule(name, connection.deadline);
        }
    }

    /// The answers of a round are written: whoever is being left is told that nothing more comes.
    pub(crate) fn say_goodbye(&mut self) {
        while let Some(name) = self.leaving.pop() {
            if let Some(connection) = self.slab.get(name)
                && connection.queue.is_none()
            {
                connection.shut_down();
            }
        }
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

    fn close(&mut self, event_loop: &mut EventLoop, name: u32, reason: CloseReason) {
        let Some(connection) = self.slab.remove(name) else {
            return;
        };
        // It goes with its descriptor anyway.
        let _ = event_loop.forget(connection.as_fd(), token(name));
        let flow = connection.flow;
        let protocol = self.protocol(flow.listener);
        self.shared
            .directory
            .leave(protocol, flow.remote, flow.connection);
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

    fn count_closed(&self, reason: CloseReason) {
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

/// Writes until the socket takes no more.
fn write_queue(connection: &Connection, queue: &mut Queue) -> Result<(), Errno> {
    loop {
        while queue.octets().len() < AT_ONCE {
            let Some(message) = queue.pop() else { break };
            queue.push_octets(&message);
        }
        let octets = queue.octets();
        if octets.is_empty() {
            return Ok(());
        }
        let count = connection.write(&[IoSlice::new(octets)])?;
        let is_all = count == octets.len();
        queue.advance(count);
        if !is_all {
            return Ok(());
        }
    }
}

const fn token(name: u32) -> usize {
    FIRST_TOKEN + name as usize
}

fn reason_of_timeout(connection: &Connection) -> CloseReason {
    match connection.stage {
        Stage::Leaving(reason) => reason,
        Stage::Opening => CloseReason::OpenTimeout,
        _ if connection.queue.is_some() => CloseReason::NotReading,
        _ if connection.is_in_message() => CloseReason::HalfMessage,
        Stage::Fresh => CloseReason::Silent,
        Stage::Used => CloseReason::Idle,
    }
}

fn open_reserve() -> Option<File> {
    File::open("/dev/null").ok()
}
