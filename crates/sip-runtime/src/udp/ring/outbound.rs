//! Sends GSO batches of datagrams through a ring. Their bytes are copied: they are sent by the next system call, when the node's
//! output no longer exists.

use crate::event_loop::Operation;
use crate::stats::WorkerStats;
use crate::udp::address::RawAddress;
use crate::udp::gso_batch::{GsoBatch, Plan};
use crate::udp::gso_support::{GsoSupport, is_gso_error};
use crate::udp::receive::last_error;
use crate::udp::returned::{REPEATS, may_be_of_another};
use crate::udp::send::{BATCH, Cut, count_refused, empty_header, send_alone};
use io_uring::types::Fixed;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use sip_transport::{Flow, ListenerId, Outgoing};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Send requests that may wait for the next system call. More of them force the call at once.
const SLOTS: usize = 128;

/// Bytes that may wait for it. This exceeds the longest GSO batch and the longest datagram.
const BYTES: usize = 256 << 10;

/// A GSO batch, with the header and address that the kernel reads.
struct Slot {
    header: libc::msghdr,
    part: libc::iovec,
    receiver: RawAddress,
    cut: Cut,
    listener: u16,
    remote: SocketAddr,
    /// Length of each message. The last one may be shorter.
    length: usize,
    count: usize,
    /// Offset of the GSO batch in the bytes, and its total length.
    start: usize,
    total: usize,
}

pub(super) struct Outbound {
    plan: Plan,
    gso_support: GsoSupport,
    slots: Box<[Slot]>,
    /// Slots used since the last time nothing was in flight.
    taken: usize,
    bytes: Box<[u8]>,
    filled: usize,
    in_flight: usize,
}

#[expect(
    unsafe_code,
    reason = "the raw pointers inside point into memory that the value owns"
)]
// SAFETY: they point into the boxes next to them and are rewritten for each GSO batch.
unsafe impl Send for Outbound {}

impl Outbound {
    pub(super) fn new(gso_enabled: bool) -> Self {
        let slot = || Slot {
            header: empty_header(),
            part: libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0,
            },
            receiver: RawAddress::empty(),
            cut: Cut::empty(),
            listener: 0,
            remote: SocketAddr::from(([0; 4], 0)),
            length: 0,
            count: 0,
            start: 0,
            total: 0,
        };
        Self {
            plan: Plan::new(),
            gso_support: GsoSupport::new(gso_enabled),
            slots: (0..SLOTS).map(|_| slot()).collect(),
            taken: 0,
            bytes: vec![0; BYTES].into_boxed_slice(),
            filled: 0,
            in_flight: 0,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues messages in the order of their GSO batches, up to the room here and up to `requests` requests. Returns the
    /// messages that are left.
    pub(super) fn queue<'a>(
        &mut self,
        (listener, messages, bytes): (u16, &'a [Outgoing], &[u8]),
        requests: usize,
        stats: &WorkerStats,
        push: &mut impl FnMut(&squeue::Entry) -> bool,
    ) -> &'a [Outgoing] {
        if self.in_flight == 0 {
            (self.taken, self.filled) = (0, 0);
        }
        let most = self.slots.len().min(self.taken + requests);
        let mut rest = messages;
        loop {
            let fitting = self.fitting(rest, most.saturating_sub(self.taken));
            let (now, later) = rest.split_at(fitting);
            for batch in now.chunks(BATCH) {
                let gso_support = &self.gso_support;
                self.plan
                    .make(batch, |remote| gso_support.may_use_gso(remote.ip()));
                for place in 0..self.plan.gso_batches().len() {
                    self.queue_gso_batch(place, listener, batch, bytes, push);
                }
            }
            rest = match later {
                [message, later @ ..] if message.range.len() > self.bytes.len() => {
                    count_refused(Errno::MSGSIZE, stats);
                    later
                }
                _ => return later,
            };
        }
    }

    /// How many of the messages fit, even if each needs its own request.
    fn fitting(&self, messages: &[Outgoing], most: usize) -> usize {
        let mut room = self.bytes.len() - self.filled;
        let fits = |message: &&Outgoing| match room.checked_sub(message.range.len()) {
            Some(left) => {
                room = left;
                true
            }
            None => false,
        };
        messages.iter().take(most).take_while(fits).count()
    }

    fn queue_gso_batch(
        &mut self,
        place: usize,
        listener: u16,
        messages: &[Outgoing],
        bytes: &[u8],
        push: &mut impl FnMut(&squeue::Entry) -> bool,
    ) {
        let Some(gso_batch) = self.plan.gso_batches().get(place).copied() else {
            return;
        };
        let start = self.filled;
        for place in self.plan.places(&gso_batch) {
            let range = messages
                .get(usize::from(*place))
                .map(|message| message.range.clone());
            let payload = range.and_then(|range| bytes.get(range)).unwrap_or_default();
            let end = self.filled + payload.len();
            if let Some(room) = self.bytes.get_mut(self.filled..end) {
                room.copy_from_slice(payload);
                self.filled = end;
            }
        }
        let slot_number = self.taken;
        let (Some(slot), Some(payload)) = (
            self.slots.get_mut(slot_number),
            self.bytes.get_mut(start..self.filled),
        ) else {
            return;
        };
        slot.describe(listener, &gso_batch, start, payload);
        let request = opcode::SendMsg::new(Fixed(u32::from(listener)), &raw const slot.header)
            .flags((libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u32)
            .build()
            .user_data(
                Operation::Send {
                    slot: slot_number as u16,
                }
                .into(),
            );
        if push(&request) {
            self.taken += 1;
            self.in_flight += 1;
        }
    }

    /// Handles the completion of a send. If the error may be that of an earlier datagram, the GSO batch is sent again. If it was
    /// rejected for another reason, its messages are sent one by one; they may be sent after messages that were queued later.
    /// Returns the listener if its socket's error queue may have an entry.
    pub(super) fn complete<'a>(
        &mut self,
        slot: u16,
        result: i32,
        socket: impl Fn(u16) -> Option<BorrowedFd<'a>>,
        stats: &WorkerStats,
    ) -> Option<u16> {
        let slot = self.slots.get(usize::from(slot))?;
        self.in_flight = self.in_flight.saturating_sub(1);
        let sent = u64::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
        let mut met_error = sent.is_err_and(may_be_of_another);
        let socket = socket(slot.listener);
        let repeated = socket.filter(|_| met_error).map(|it| slot.repeat(it));
        let error = match repeated.unwrap_or(sent) {
            Ok(sent) => {
                stats.datagrams_sent.add(slot.count as u64);
                stats.bytes_sent.add(sent);
                return met_error.then_some(slot.listener);
            }
            Err(error) => error,
        };
        let Some(socket) = socket.filter(|_| slot.count > 1) else {
            count_refused(error, stats);
            return met_error.then_some(slot.listener);
        };
        let mut any_gone = false;
        for message in slot.messages() {
            any_gone |= send_alone(socket, &message, &self.bytes, stats, &mut met_error);
        }
        if any_gone && is_gso_error(error) {
            self.gso_support.remember(slot.remote.ip(), error);
        }
        met_error.then_some(slot.listener)
    }
}

impl Slot {
    fn describe(&mut self, listener: u16, gso_batch: &GsoBatch, start: usize, payload: &mut [u8]) {
        self.listener = listener;
        self.remote = gso_batch.remote;
        self.length = usize::from(gso_batch.length);
        self.count = usize::from(gso_batch.count);
        (self.start, self.total) = (start, payload.len());
        self.part.iov_base = payload.as_mut_ptr().cast();
        self.part.iov_len = payload.len();
        self.header.msg_namelen = self.receiver.write(gso_batch.remote);
        self.header.msg_name = (&raw mut self.receiver).cast();
        self.header.msg_iov = &raw mut self.part;
        self.header.msg_iovlen = 1;
        (self.header.msg_control, self.header.msg_controllen) = if self.count > 1 {
            self.cut.length = gso_batch.length;
            ((&raw mut self.cut).cast(), size_of::<Cut>() as _)
        } else {
            (ptr::null_mut(), 0)
        };
    }

    /// Sends the GSO batch without the ring, because the ring met the error of an earlier datagram. Returns how many bytes were sent.
    fn repeat(&self, socket: BorrowedFd<'_>) -> Result<u64, Errno> {
        let mut repeats = 1;
        loop {
            #[expect(unsafe_code, reason = "the header is as it was written for the ring")]
            // SAFETY: `describe` made the header point to the slot's own fields and to bytes of the box next to the slots. None
            // of it has moved or been written since, and the kernel only reads it.
            let sent = unsafe {
                libc::sendmsg(
                    socket.as_raw_fd(),
                    &raw const self.header,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            let Err(error) = u64::try_from(sent).map_err(|_| last_error()) else {
                return Ok(sent.unsigned_abs() as u64);
            };
            if repeats >= REPEATS || !may_be_of_another(error) {
                return Err(error);
            }
            repeats += 1;
        }
    }

    /// The messages of the GSO batch, as ranges of the byte buffer.
    fn messages(&self) -> impl Iterator<Item = Outgoing> {
        let end = self.start + self.total;
        (0..self.count).map(move |number| {
            let start = (self.start + number * self.length).min(end);
            Outgoing {
                flow: Flow::to(ListenerId(self.listener), self.remote),
                range: start..(start + self.length).min(end),
            }
        })
    }
}
