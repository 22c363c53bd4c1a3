//! Datagrams through a ring. In the call that waits, the kernel writes arriving datagrams to registered buffers and sends
//! the queued ones.

mod buffers;
mod outbound;
#[cfg(test)]
mod tests;

use super::address::RawAddress;
use super::receive::{BATCH, Datagram};
use super::returned::may_be_of_another;
use super::send::empty_header;
use super::socket::UdpSocket;
use super::stamp::{self, CONTROL};
use crate::event_loop::Operation;
use crate::stats::WorkerStats;
use buffers::ProvidedBuffers;
use io_uring::types::{Fixed, RecvMsgOut};
use io_uring::{Submitter, opcode, squeue};
use outbound::Outbound;
use rustix::io::Errno;
use sip_transport::Outgoing;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// The datagrams of a worker's ring: an inbound side for each UDP listener, and one outbound side for all.
pub(crate) struct RingDatagrams {
    inbound: Vec<Option<Inbound>>,
    /// Listeners for which a receive request must be submitted, each once.
    due: Vec<u16>,
    /// Listeners with received datagrams, each once; some entries may be stale.
    filled: Vec<u16>,
    /// Listeners whose error queue may have entries, each once.
    returned: Vec<u16>,
    /// Received datagrams of all listeners.
    waiting: usize,
    outbound: Outbound,
    /// The template of the receive requests: room for the sender's address and the timestamp.
    request: Box<libc::msghdr>,
    stats: Arc<WorkerStats>,
}

#[expect(
    unsafe_code,
    reason = "the request is a header with raw pointers, all of them null"
)]
// SAFETY: nothing is accessed through it.
unsafe impl Send for RingDatagrams {}

/// Stands in the table of registered files for a listener without a UDP socket.
const NO_FILE: RawFd = -1;

struct Inbound {
    /// For system calls outside the ring.
    socket: Arc<OwnedFd>,
    buffers: ProvidedBuffers,
    arrived: VecDeque<Arrived>,
    /// Whether the kernel has a receive request. The request ends when the buffers are used up.
    is_receiving: bool,
    /// Whether it is in the list of listeners that need a receive request.
    is_due: bool,
    /// Whether it is in the list of listeners with datagrams.
    is_filled: bool,
}

impl Inbound {
    fn open(listener: u16, socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self {
            socket: socket.shared(),
            buffers: ProvidedBuffers::open(listener)?,
            arrived: VecDeque::new(),
            is_receiving: false,
            is_due: false,
            is_filled: false,
        })
    }

    /// Whether a receive request must be submitted now: the kernel has none, and there are free buffers.
    fn becomes_due(&mut self) -> bool {
        let becomes_due =
            !self.is_receiving && !self.is_due && self.arrived.len() < buffers::BUFFERS.into();
        self.is_due |= becomes_due;
        becomes_due
    }
}

struct Arrived {
    buffer: u16,
    length: usize,
}

impl RingDatagrams {
    pub(crate) fn open<'s>(
        sockets: impl Iterator<Item = Option<&'s UdpSocket>>,
        gso_enabled: bool,
        stats: Arc<WorkerStats>,
    ) -> io::Result<Self> {
        let inbound = (0_u16..).zip(sockets).map(|(listener, socket)| {
            socket
                .map(|socket| Inbound::open(listener, socket))
                .transpose()
        });
        let mut inbound = inbound.collect::<io::Result<Vec<_>>>()?;
        let due = (0_u16..)
            .zip(&mut inbound)
            .filter_map(|(listener, inbound)| {
                let is_due = inbound.as_mut()?.becomes_due();
                is_due.then_some(listener)
            });
        let due = due.collect();
        let mut request = empty_header();
        request.msg_namelen = RawAddress::CAPACITY;
        request.msg_controllen = CONTROL as _;
        Ok(Self {
            inbound,
            due,
            filled: Vec::new(),
            returned: Vec::new(),
            waiting: 0,
            outbound: Outbound::new(gso_enabled),
            request: Box::new(request),
            stats,
        })
    }

    /// Registers sockets and buffers with the kernel, so that requests need no lookups.
    pub(crate) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let sockets: Vec<RawFd> = self
            .inbound
            .iter()
            .map(|inbound| inbound.as_ref().map_or(NO_FILE, |it| it.socket.as_raw_fd()))
            .collect();
        submitter.register_files(&sockets)?;
        for inbound in self.inbound.iter_mut().flatten() {
            inbound.buffers.register(submitter)?;
        }
        Ok(())
    }

    /// Unregisters sockets and buffers. The kernel must have completed all requests.
    pub(crate) fn unregister(&self, submitter: &Submitter<'_>) -> io::Result<()> {
        for inbound in self.inbound.iter().flatten() {
            submitter.unregister_buf_ring(inbound.buffers.group())?;
        }
        submitter.unregister_files()
    }

    /// Whether the kernel has no receive or send request.
    pub(crate) fn is_idle(&self) -> bool {
        let mut inbound = self.inbound.iter().flatten();
        self.in_flight() == 0 && inbound.all(|inbound| !inbound.is_receiving)
    }

    /// The next receive request to submit.
    pub(crate) fn next_request(&mut self) -> Option<squeue::Entry> {
        let listener = self.due.pop()?;
        let inbound = self.inbound.get_mut(usize::from(listener))?.as_mut()?;
        inbound.is_due = false;
        inbound.is_receiving = true;
        let request = &raw const *self.request;
        let socket = Fixed(listener.into());
        let entry = opcode::RecvMsgMulti::new(socket, request, inbound.buffers.group()).build();
        Some(entry.user_data(Operation::Receive { listener }.into()))
    }

    /// Handles the completion of a receive request: a datagram, or a negative error number that ends the request.
    pub(crate) fn complete_receive(
        &mut self,
        listener: u16,
        result: i32,
        buffer: Option<u16>,
        goes_on: bool,
    ) {
        let Some(Some(inbound)) = self.inbound.get_mut(usize::from(listener)) else {
            return;
        };
        inbound.is_receiving = goes_on;
        match (usize::try_from(result), buffer) {
            (Ok(length), Some(buffer)) => {
                inbound.arrived.push_back(Arrived { buffer, length });
                self.waiting += 1;
                if !inbound.is_filled {
                    inbound.is_filled = true;
                    self.filled.push(listener);
                }
            }
            (Ok(_), None) => {}
            (Err(_), buffer) => {
                // Without free buffers, arriving datagrams wait in the socket.
                let error = Errno::from_raw_os_error(-result);
                let is_broken = may_be_of_another(error);
                // A request also ends if the error queue wakes it repeatedly and there is nothing to receive.
                if is_broken || matches!(error, Errno::CANCELED | Errno::AGAIN) {
                    note(&mut self.returned, listener);
                } else if error != Errno::NOBUFS {
                    self.stats.receive_errors.add(1);
                }
                if let Some(buffer) = buffer {
                    inbound.buffers.give(buffer);
                    inbound.buffers.publish();
                }
            }
        }
        if inbound.becomes_due() {
            self.due.push(listener);
        }
    }

    /// Reports the listeners for which datagrams have arrived.
    pub(crate) fn tell_arrived(&mut self, mut tell: impl FnMut(u16)) {
        let inbound = &mut self.inbound;
        self.filled.retain(|listener| {
            let Some(Some(inbound)) = inbound.get_mut(usize::from(*listener)) else {
                return false;
            };
            inbound.is_filled = !inbound.arrived.is_empty();
            if inbound.is_filled {
                tell(*listener);
            }
            inbound.is_filled
        });
    }

    /// Whether datagrams, or errors of sent ones, are pending.
    pub(crate) const fn has_events(&self) -> bool {
        self.waiting > 0 || !self.returned.is_empty()
    }

    /// The next listener whose error queue may have entries.
    pub(crate) fn take_returned(&mut self) -> Option<u16> {
        self.returned.pop()
    }

    pub(crate) fn has_arrived_at(&self, listener: u16) -> bool {
        let inbound = self
            .inbound
            .get(usize::from(listener))
            .and_then(Option::as_ref);
        inbound.is_some_and(|inbound| !inbound.arrived.is_empty())
    }

    /// Takes at most one batch of a listener's received datagrams. Returns how many.
    pub(crate) fn receive(&mut self, listener: u16, mut take: impl FnMut(Datagram<'_>)) -> usize {
        let Some(Some(inbound)) = self.inbound.get_mut(usize::from(listener)) else {
            return 0;
        };
        let mut count = 0;
        while count < BATCH {
            let Some(Arrived { buffer, length }) = inbound.arrived.pop_front() else {
                break;
            };
            count += 1;
            read(
                inbound.buffers.filled(buffer, length),
                &self.request,
                &mut take,
            );
            inbound.buffers.give(buffer);
        }
        inbound.buffers.publish();
        self.waiting -= count;
        if inbound.becomes_due() {
            self.due.push(listener);
        }
        count
    }

    /// See [`Outbound::queue`].
    pub(crate) fn queue<'a>(
        &mut self,
        listener: u16,
        messages: &'a [Outgoing],
        bytes: &[u8],
        requests: usize,
        push: &mut impl FnMut(&squeue::Entry) -> bool,
    ) -> &'a [Outgoing] {
        self.outbound
            .queue((listener, messages, bytes), requests, &self.stats, push)
    }

    /// How many GSO batches the kernel has not completed yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.outbound.in_flight()
    }

    /// Handles the completion of a send request: success, or a negative error number.
    pub(crate) fn complete_send(&mut self, slot: u16, result: i32) {
        let inbound = &self.inbound;
        let socket = |listener: u16| {
            let inbound = inbound.get(usize::from(listener))?.as_ref()?;
            Some(inbound.socket.as_fd())
        };
        if let Some(listener) = self.outbound.complete(slot, result, socket, &self.stats) {
            note(&mut self.returned, listener);
        }
    }

    /// Counts messages that the kernel did not accept in time.
    pub(crate) fn count_unsent(&self, count: usize) {
        self.stats.send_buffer_full.add(count as u64);
    }
}

fn note(listeners: &mut Vec<u16>, listener: u16) {
    if !listeners.contains(&listener) {
        listeners.push(listener);
    }
}

/// Parses what the kernel wrote: control data, the sender's address and the payload.
fn read(filled: &[u8], request: &libc::msghdr, take: impl FnOnce(Datagram<'_>)) {
    if let Ok(parsed) = RecvMsgOut::parse(filled, request)
        && let Some(from) = sender(parsed.name_data())
    {
        take(Datagram {
            from,
            bytes: parsed.payload_data(),
            is_truncated: parsed.is_payload_truncated(),
            stamp: stamp::find(parsed.control_data()),
        });
    }
}

fn sender(name: &[u8]) -> Option<SocketAddr> {
    let mut raw = RawAddress::empty();
    raw.copy_from(name);
    raw.read()
}
