//! Sends messages over connections: finds or opens the connection, then writes the message or queues it.

use super::close::{CloseReason, RefuseReason};
use super::connection::{Buffers, Connection, Stage};
use super::connections::{Connections, Opened, shut_down_closing};
use super::directory::Destination;
use super::queue::Queue;
use super::socket;
use crate::event_loop::EventLoop;
use crate::tls::TlsSession;
use rustix::io::Errno;
use sip_transport::{Flow, Outgoing, Protocol, Time};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::ops::Range;

/// Messages per write call.
const PARTS: usize = 64;

/// Bytes to encode per write.
const AT_ONCE: usize = 64 << 10;

/// The connection for a message.
enum Way {
    /// A connection of this worker.
    Own(u32),
    /// A connection of another worker.
    Other(Flow),
    /// No connection.
    None,
}

impl Connections {
    /// Sets the names that peers must prove, by the index of each message in the output.
    pub(crate) fn expect(&mut self, names: impl Iterator<Item = (usize, String)>) {
        self.names.clear();
        self.names.extend(names);
    }

    /// Sends messages, whose ranges point into `bytes`, over connections. `first` is the index of the first one in the output.
    /// Messages of one connection are written in their order and together. `pass` gets those for connections of other workers.
    pub(crate) fn send(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        (first, messages): (usize, &[Outgoing]),
        bytes: &[u8],
        mut pass: impl FnMut(u16, Flow, Range<usize>),
    ) {
        for (place, message) in (first..).zip(messages) {
            let range = message.range.clone();
            match self.way(now, event_loop, message.flow, place) {
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

    /// Selects the connection (RFC 3261 section 18.1.1): the one that the message names, or the one to its address, which
    /// which is opened if necessary.
    fn way(&mut self, now: Time, event_loop: &mut EventLoop, flow: Flow, place: usize) -> Way {
        let connection = if flow.connection.is_some() {
            Some(flow.connection)
        } else {
            self.shared.directory.find(self.destination(flow, place))
        };
        match connection {
            Some(connection) if connection.worker() != self.worker => {
                Way::Other(Flow { connection, ..flow })
            }
            Some(connection) => match self.table.get(connection.slot()) {
                // The identifier may belong to another connection by now.
                Some(found) if found.leads_to(flow.remote) && !found.is_shut() => {
                    Way::Own(connection.slot())
                }
                _ => Way::None,
            },
            None => match self.open(now, event_loop, flow, place) {
                Some(name) => Way::Own(name),
                None => Way::None,
            },
        }
    }

    /// Starts to open a connection. A server opens none over WebSocket: WebSocket clients cannot be connected to (RFC 7118 section 5).
    fn open(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        flow: Flow,
        place: usize,
    ) -> Option<u32> {
        let listener = self.listener(flow.listener)?;
        let local = listener.address;
        let tls = match listener.protocol {
            Protocol::Ws | Protocol::Wss if !self.options.is_client => return None,
            Protocol::Tls | Protocol::Wss => Some(self.connect_tls(flow, place)?),
            Protocol::Udp | Protocol::Tcp | Protocol::Ws => None,
        };
        let to = self.destination(flow, place);
        let opened = match socket::begin_connecting(local, flow.remote, self.options.keep_alive) {
            Ok(socket)
                if self
                    .shared
                    .connection_slots
                    .take(self.options.max_connections) =>
            {
                let opened = Opened {
                    socket,
                    flow,
                    destination: to,
                    stage: Stage::Connecting,
                    tls,
                };
                self.insert(event_loop, opened)
                    .ok_or(RefuseReason::TableFull)
            }
            Ok(_) => Err(RefuseReason::TableFull),
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

    /// Creates the client side of TLS. The server must prove the name that led to the address.
    fn connect_tls(&self, flow: Flow, place: usize) -> Option<TlsSession> {
        let context = self.options.tls.as_ref()?.context();
        let address = flow.remote.ip().to_string();
        let name = self.expected(place).unwrap_or(&address);
        TlsSession::connect(context.connector(), name).ok()
    }

    /// The destination of the message with this index.
    fn destination(&self, flow: Flow, place: usize) -> Destination {
        let (protocol, name) = (self.protocol(flow.listener), self.expected(place));
        let destination = self
            .shared
            .directory
            .destination(protocol, flow.remote, name);
        if self.options.is_client {
            destination.from(flow.listener)
        } else {
            destination
        }
    }

    /// The name that the peer must prove.
    fn expected(&self, place: usize) -> Option<&str> {
        let named = self.names.binary_search_by_key(&place, |(place, _)| *place);
        let (_, name) = self.names.get(named.ok()?)?;
        Some(name)
    }

    /// Writes messages of one connection and queues what its socket does not accept.
    fn write(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        messages: &[(u32, Range<usize>)],
        bytes: &[u8],
    ) {
        let octets =
            |(_, range): &(u32, Range<usize>)| bytes.get(range.clone()).unwrap_or_default();
        let Some(flow) = self.table.get(name).map(|connection| connection.flow) else {
            return;
        };
        self.stats.stream_messages_sent.add(messages.len() as u64);
        for part in messages.chunks(PARTS) {
            let slices: SmallVec<[&[u8]; PARTS]> = part.iter().map(octets).collect();
            let connection = self.table.get(name).filter(|found| found.is_writable());
            let written = match connection {
                Some(connection) if !connection.is_plain() => {
                    self.write_encoded(now, event_loop, flow, &slices);
                    continue;
                }
                Some(connection) => {
                    let slices: SmallVec<[IoSlice<'_>; PARTS]> =
                        slices.iter().map(|slice| IoSlice::new(slice)).collect();
                    connection.write(&slices)
                }
                None => Ok(0),
            };
            if written.is_err() {
                self.close(event_loop, name, CloseReason::Failed);
            }
            let mut written = written.unwrap_or(0);
            self.stats.stream_octets_sent.add(written as u64);
            for slice in slices {
                let gone = written.min(slice.len());
                written -= gone;
                if gone < slice.len() {
                    self.enqueue(now, event_loop, flow, slice, gone);
                }
            }
        }
    }

    /// Encodes and writes messages, a few at a time. The part that the socket does not accept is queued as bytes, and later
    /// messages as messages.
    fn write_encoded(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        flow: Flow,
        messages: &[&[u8]],
    ) {
        let name = flow.connection.slot();
        let mut rest = messages;
        while let [first, ..] = rest {
            let connection = self.table.get(name).filter(|found| found.is_writable());
            let Some(connection) = connection else {
                self.enqueue(now, event_loop, flow, first, 0);
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let (some, others) = rest.split_at(fitting(rest));
            let result = connection.encode(some, &mut self.buffers);
            let result = result.and_then(|()| self.write_output(now, event_loop, name));
            if let Err(reason) = result {
                self.close(event_loop, name, reason);
                for message in some {
                    self.give_up(flow, (*message).into());
                }
            }
            rest = others;
        }
    }

    /// Queues a message of which the socket has accepted the first `gone` bytes. If there is no room for the rest of a partly
    /// written message, the connection cannot be used any more and is closed.
    fn enqueue(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        flow: Flow,
        octets: &[u8],
        gone: usize,
    ) {
        let name = flow.connection.slot();
        let left = octets.len() - gone;
        let has_room = if gone > 0 {
            self.has_room(name, left)
        } else {
            self.may_wait(name, left)
        };
        let Some(connection) = self.table.get(name) else {
            return self.give_up(flow, octets.into());
        };
        if !has_room {
            self.stats.stream_queue_full.add(1);
            if gone > 0 {
                self.close(event_loop, name, CloseReason::Memory);
            }
            return self.give_up(flow, octets.into());
        }
        let is_first = connection.queue.is_none();
        let is_open = connection.is_open();
        let queue = connection.queue.get_or_insert_with(Box::default);
        match octets.get(gone..) {
            Some(rest) if gone > 0 => queue.push_octets(rest),
            _ => queue.push(octets.into()),
        }
        if is_first && is_open {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_accounting(name);
        self.update_interest(event_loop, name);
    }

    /// Writes as much of the queue as the socket accepts.
    pub(super) fn flush(&mut self, now: Time, event_loop: &mut EventLoop, name: u32) {
        if let Err(reason) = self.finish_connecting(now, event_loop, name) {
            return self.close(event_loop, name, reason);
        }
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let Some(mut queue) = connection.queue.take() else {
            return self.update_interest(event_loop, name);
        };
        let result = write_queue(connection, &mut queue, &mut self.buffers);
        let is_open = connection.is_open();
        let is_empty = queue.is_empty();
        if !is_empty {
            connection.queue = Some(queue);
        }
        self.update_accounting(name);
        let written = match result {
            Ok(written) => written,
            Err(reason) => return self.close(event_loop, name, reason),
        };
        self.stats.stream_octets_sent.add(written as u64);
        if is_open && is_empty {
            self.all_is_written(now, name);
        } else if is_open && written > 0 {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_interest(event_loop, name);
    }

    /// Called when the queue is empty.
    fn all_is_written(&mut self, now: Time, name: u32) {
        match self.table.get(name) {
            Some(connection) if connection.end().is_some() => {
                shut_down_closing(connection, &mut self.buffers);
            }
            _ => self.set_deadline_of_waiting(now, name),
        }
    }

    /// Called when a connecting socket becomes writable, which may also mean that connecting has failed.
    fn finish_connecting(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
    ) -> Result<(), CloseReason> {
        let Some(connection) = self.table.get(name) else {
            return Ok(());
        };
        if connection.stage != Stage::Connecting {
            return Ok(());
        }
        let finished = connection.finish_connecting(&mut self.buffers.output);
        finished.map_err(|_| CloseReason::NotOpened)?;
        if connection.is_open() {
            self.set_deadline_of_waiting(now, name);
        }
        self.write_output(now, event_loop, name)
    }
}

/// How many messages to encode together; at least one.
fn fitting(messages: &[&[u8]]) -> usize {
    let lengths = messages.iter().scan(0, |sum, message| {
        *sum += message.len();
        Some(*sum)
    });
    lengths.take_while(|sum| *sum <= AT_ONCE).count().max(1)
}

/// Writes until the queue is empty or the socket accepts no more. Returns how many bytes were written.
fn write_queue(
    connection: &mut Connection,
    queue: &mut Queue,
    buffers: &mut Buffers,
) -> Result<usize, CloseReason> {
    let mut written = 0;
    loop {
        while connection.is_open() && queue.octets().len() < AT_ONCE {
            let Some(message) = queue.first() else { break };
            connection.encode(&[message], buffers)?;
            queue.pop();
            queue.push_octets(&buffers.output);
        }
        let octets = queue.octets();
        if octets.is_empty() {
            return Ok(written);
        }
        let count = connection.write(&[IoSlice::new(octets)]);
        let count = count.map_err(|_| CloseReason::Failed)?;
        let is_all = count == octets.len();
        written += count;
        queue.advance(count);
        if !is_all {
            return Ok(written);
        }
    }
}
