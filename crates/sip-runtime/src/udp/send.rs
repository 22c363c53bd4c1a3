//! Sends a batch of datagrams with one system call.

use super::address::RawAddress;
use super::gso_batch::Plan;
use super::gso_support::{GsoSupport, is_gso_error};
use super::returned::{REPEATS, may_be_of_another};
use crate::stats::WorkerStats;
use rustix::io::Errno;
use rustix::net::SendFlags;
use sip_transport::Outgoing;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams per system call. The kernel accepts at most 1,024, and segments a GSO batch into at most 64.
pub(super) const BATCH: usize = 32;

/// The control message with the segment size of a GSO batch (`UDP_SEGMENT`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Cut {
    header: libc::cmsghdr,
    pub(super) length: u16,
    /// Control messages are padded to whole words.
    padding: [u8; size_of::<usize>() - size_of::<u16>()],
}

impl Cut {
    /// A control message without a segment size.
    pub(super) const fn empty() -> Self {
        Self {
            header: libc::cmsghdr {
                cmsg_len: size_of::<libc::cmsghdr>() + size_of::<u16>(),
                cmsg_level: libc::SOL_UDP,
                cmsg_type: libc::UDP_SEGMENT,
            },
            length: 0,
            padding: [0; _],
        }
    }
}

/// A message header without an address and data.
pub(super) const fn empty_header() -> libc::msghdr {
    libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        msg_iov: ptr::null_mut(),
        msg_iovlen: 0,
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    }
}

/// The kernel structures for a batch of datagrams, reused by each system call.
pub(crate) struct SendBatch {
    plan: Plan,
    gso_support: GsoSupport,
    headers: Box<[libc::mmsghdr; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
    receivers: Box<[RawAddress; BATCH]>,
    cuts: Box<[Cut; BATCH]>,
    /// Whether the socket's error queue may have an entry.
    met_error: bool,
}

#[expect(
    unsafe_code,
    reason = "the raw pointers inside are what the last system call left behind"
)]
// SAFETY: every pointer is rewritten before a system call reads it, and nothing else reads it.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new(gso_enabled: bool) -> Self {
        let header = libc::mmsghdr {
            msg_hdr: empty_header(),
            msg_len: 0,
        };
        let part = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            plan: Plan::new(),
            gso_support: GsoSupport::new(gso_enabled),
            headers: Box::new([header; BATCH]),
            parts: Box::new([part; BATCH]),
            receivers: Box::new([RawAddress::empty(); BATCH]),
            cuts: Box::new([Cut::empty(); BATCH]),
            met_error: false,
        }
    }

    /// Whether the error of an earlier datagram was met since the last call.
    pub(crate) fn take_met_error(&mut self) -> bool {
        std::mem::take(&mut self.met_error)
    }

    /// Sends `messages`, whose ranges point into `bytes`, through `socket`. Messages to one address keep their order. A message
    /// that the kernel rejects is dropped and counted: over UDP, retransmission is up to the sender.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing],
        bytes: &[u8],
        stats: &WorkerStats,
    ) {
        for batch in messages.chunks(BATCH) {
            match batch {
                [message] => {
                    let met_error = &mut self.met_error;
                    send_alone(socket, message, bytes, stats, met_error);
                }
                _ => self.send_batch(socket, batch, bytes, stats),
            }
        }
    }

    fn send_batch(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing],
        bytes: &[u8],
        stats: &WorkerStats,
    ) {
        let gso_support = &self.gso_support;
        self.plan
            .make(messages, |remote| gso_support.may_use_gso(remote.ip()));
        self.describe(messages, bytes);
        let (mut gone, mut repeats) = (0, 0);
        while let Some(gso_batch) = self.plan.gso_batches().get(gone).copied() {
            match self.send_headers(socket, gone, stats) {
                Ok(count) => {
                    gone += count;
                    repeats = 0;
                    // The kernel does not report which error stopped it, nor does the error stop the next call.
                    self.met_error |= gone < self.plan.gso_batches().len();
                }
                Err(Errno::INTR) => {}
                Err(error) if may_be_of_another(error) && repeats < REPEATS => {
                    self.met_error = true;
                    repeats += 1;
                }
                Err(error) if gso_batch.count == 1 => {
                    count_refused(error, stats);
                    (gone, repeats) = (gone + 1, 0);
                }
                Err(error) => {
                    let mut any_gone = false;
                    for place in self.plan.places(&gso_batch) {
                        if let Some(message) = messages.get(usize::from(*place)) {
                            let met_error = &mut self.met_error;
                            any_gone |= send_alone(socket, message, bytes, stats, met_error);
                        }
                    }
                    // If the messages can be sent but the GSO batch cannot, the kernel rejects GSO for this address.
                    if any_gone && is_gso_error(error) {
                        self.gso_support.remember(gso_batch.remote.ip(), error);
                    }
                    (gone, repeats) = (gone + 1, 0);
                }
            }
        }
    }

    /// Describes each GSO batch of the plan for the kernel.
    fn describe(&mut self, messages: &[Outgoing], bytes: &[u8]) {
        let parts = self.parts.as_mut_ptr();
        let mut used = 0;
        let slots = self.headers.iter_mut().zip(self.receivers.iter_mut());
        for (gso_batch, ((header, receiver), cut)) in self
            .plan
            .gso_batches()
            .iter()
            .zip(slots.zip(self.cuts.iter_mut()))
        {
            let header = &mut header.msg_hdr;
            header.msg_namelen = receiver.write(gso_batch.remote);
            header.msg_name = ptr::from_mut(receiver).cast();
            header.msg_iov = parts.wrapping_add(used);
            header.msg_iovlen = usize::from(gso_batch.count) as _;
            for place in self.plan.places(gso_batch) {
                let range = messages
                    .get(usize::from(*place))
                    .map(|message| message.range.clone());
                let payload = range.and_then(|range| bytes.get(range)).unwrap_or_default();
                let part = parts.wrapping_add(used);
                #[expect(
                    unsafe_code,
                    reason = "written through the pointer that the kernel reads through"
                )]
                // SAFETY: the parts of all GSO batches together are the messages, at most BATCH of them, so `used` is below
                // BATCH. Nothing else refers to the array.
                unsafe {
                    (*part).iov_base = payload.as_ptr().cast_mut().cast();
                    (*part).iov_len = payload.len();
                }
                used += 1;
            }
            (header.msg_control, header.msg_controllen) = if gso_batch.count > 1 {
                cut.length = gso_batch.length;
                (ptr::from_mut(cut).cast(), size_of::<Cut>() as _)
            } else {
                (ptr::null_mut(), 0)
            };
        }
    }

    /// Performs one system call, starting with GSO batch `from`. Returns how many GSO batches were sent (at least one), or why
    /// the first one failed.
    fn send_headers(
        &mut self,
        socket: BorrowedFd<'_>,
        from: usize,
        stats: &WorkerStats,
    ) -> Result<usize, Errno> {
        let gso_batches = self.plan.gso_batches().get(from..).unwrap_or_default();
        let headers = self.headers.get_mut(from..).unwrap_or_default();
        #[expect(
            unsafe_code,
            reason = "the safe wrapper builds its headers anew for each call"
        )]
        // SAFETY: `describe` wrote the headers of all GSO batches. Each points to an address in `receivers`, parts in `parts`, a
        // control message in `cuts` or none, and bytes that are borrowed until after the call. There are as many headers as there
        // can be GSO batches. The kernel only reads them, except for `msg_len`.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                gso_batches.len() as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        let gone = match usize::try_from(result) {
            Ok(0) => return Err(Errno::IO),
            Ok(gone) => gone,
            Err(_) => {
                return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
            }
        };
        for (gso_batch, header) in gso_batches.iter().zip(headers).take(gone) {
            stats.datagrams_sent.add(u64::from(gso_batch.count));
            stats.bytes_sent.add(u64::from(header.msg_len));
        }
        Ok(gone)
    }
}

/// Sends a single message. This costs less than a batch of one. Returns whether the kernel accepted it. Sets `met_error` if the
/// error queue may have an entry.
pub(super) fn send_alone(
    socket: BorrowedFd<'_>,
    message: &Outgoing,
    bytes: &[u8],
    stats: &WorkerStats,
    met_error: &mut bool,
) -> bool {
    let mut repeats = 0;
    let payload = bytes.get(message.range.clone()).unwrap_or_default();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendto(socket, payload, flags, &message.flow.remote) {
            Ok(_) => {
                stats.datagrams_sent.add(1);
                stats.bytes_sent.add(payload.len() as u64);
                return true;
            }
            Err(Errno::INTR) => {}
            Err(error) if may_be_of_another(error) && repeats < REPEATS => {
                *met_error = true;
                repeats += 1;
            }
            Err(error) => {
                count_refused(error, stats);
                return false;
            }
        }
    }
}

pub(super) fn count_refused(error: Errno, stats: &WorkerStats) {
    match error {
        Errno::AGAIN | Errno::NOBUFS => &stats.send_buffer_full,
        Errno::MSGSIZE => &stats.send_too_long,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::ACCESS | Errno::PERM => {
            &stats.send_unreachable
        }
        _ => &stats.send_errors,
    }
    .add(1);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::udp::gso_support;
    use sip_transport::{Flow, ListenerId};
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    pub(in crate::udp) fn outgoing(
        remote: SocketAddr,
        bytes: &mut Vec<u8>,
        payload: &[u8],
    ) -> Outgoing {
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        Outgoing {
            flow: Flow::to(ListenerId(0), remote),
            range: start..bytes.len(),
        }
    }

    pub(in crate::udp) fn bound(address: &str) -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind(address).expect("bind");
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("timeout");
        let address = socket.local_addr().expect("address");
        (socket, address)
    }

    fn check_more_than_a_batch(address: &str) {
        let (sender, from) = bound(address);
        let (receiver, to) = bound(address);
        let mut bytes = Vec::new();
        let messages: Vec<Outgoing> = (0..=BATCH)
            .map(|index| outgoing(to, &mut bytes, &vec![index as u8; index + 1]))
            .collect();
        let stats = WorkerStats::default();
        SendBatch::new(true).send(sender.as_fd(), &messages, &bytes, &stats);
        let mut buffer = [0; 200];
        for index in 0..=BATCH {
            assert_eq!(
                receiver.recv_from(&mut buffer).expect("datagram"),
                (index + 1, from)
            );
            assert!(
                buffer[..=index]
                    .iter()
                    .all(|byte| usize::from(*byte) == index)
            );
        }
        assert_eq!(stats.datagrams_sent.value(), BATCH as u64 + 1);
        assert_eq!(
            stats.bytes_sent.value(),
            (1..=BATCH as u64 + 1).sum::<u64>()
        );
    }

    #[test]
    fn more_messages_than_a_batch_arrive_in_order() {
        check_more_than_a_batch("127.0.0.1:0");
        check_more_than_a_batch("[::1]:0");
    }

    #[test]
    fn the_segment_size_message_has_the_layout_of_the_kernel() {
        #[expect(unsafe_code, reason = "libc's macros are functions")]
        // SAFETY: they only add numbers.
        let (length, space) = unsafe { (libc::CMSG_LEN(2), libc::CMSG_SPACE(2)) };
        assert_eq!(size_of::<Cut>(), space as usize);
        assert_eq!(std::mem::offset_of!(Cut, length) + 2, length as usize);
    }

    /// Sends a batch to two receivers, in GSO batches and singly, and checks that it arrives.
    fn check_gso(sender: &UdpSocket, batch: &mut SendBatch, to: &str) {
        let (one, other) = (bound(to), bound(to));
        let lengths = [300, 300, 300, 200, 300, 900, 900, 1300, 1300, 10];
        let mut bytes = Vec::new();
        let mut messages = Vec::new();
        for (number, length) in lengths.into_iter().enumerate() {
            for to in [one.1, other.1] {
                messages.push(outgoing(to, &mut bytes, &vec![number as u8; length]));
            }
        }
        let stats = WorkerStats::default();
        batch.send(sender.as_fd(), &messages, &bytes, &stats);
        let mut buffer = [0; 2_000];
        for (receiver, _) in [one, other] {
            for (number, expected) in lengths.into_iter().enumerate() {
                let length = receiver.recv(&mut buffer).expect("datagram");
                assert_eq!((length, usize::from(buffer[0])), (expected, number));
            }
        }
        assert_eq!(stats.datagrams_sent.value(), messages.len() as u64);
        assert_eq!(stats.bytes_sent.value(), bytes.len() as u64);
        assert_eq!(stats.send_errors.value() + stats.send_too_long.value(), 0);
    }

    #[test]
    fn the_messages_of_a_train_arrive_one_by_one_and_in_order() {
        let (sender, _) = bound("127.0.0.1:0");
        let mut batch = SendBatch::new(true);
        check_gso(&sender, &mut batch, "127.0.0.1:0");
        assert!(batch.gso_support.gso_enabled && batch.gso_support.gso_disabled_for.is_empty());
    }

    pub(in crate::udp) fn let_the_kernel_refuse_trains(socket: BorrowedFd<'_>) {
        let no_checksum: libc::c_int = 1;
        #[expect(unsafe_code, reason = "no safe wrapper sets SO_NO_CHECK")]
        // SAFETY: pointer and length describe `no_checksum`, which outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NO_CHECK,
                (&raw const no_checksum).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
    }

    #[test]
    fn where_the_kernel_takes_no_trains_nothing_is_lost() {
        let (sender, _) = bound("127.0.0.1:0");
        let_the_kernel_refuse_trains(sender.as_fd());
        let mut batch = SendBatch::new(true);
        for number in 1..=gso_support::MOST {
            for _ in 0..2 {
                check_gso(&sender, &mut batch, &format!("127.0.0.{number}:0"));
                assert_eq!(
                    batch.gso_support.gso_disabled_for.len(),
                    number,
                    "remembered once"
                );
                assert!(batch.gso_support.gso_enabled);
            }
        }
        check_gso(&sender, &mut batch, "127.0.0.9:0");
        assert!(!batch.gso_support.gso_enabled);
        check_gso(&sender, &mut batch, "127.0.0.10:0");
    }

    #[test]
    fn a_refused_message_is_counted_and_stops_no_other() {
        let (sender, _) = bound("127.0.0.1:0");
        let (receiver, to) = bound("127.0.0.1:0");
        let mut bytes = Vec::new();
        let other_family = ([0_u16, 0, 0, 0, 0, 0, 0, 1], 5060).into();
        let messages = [
            outgoing(to, &mut bytes, &vec![0; 65_508]),
            outgoing(to, &mut bytes, b"first"),
            outgoing(other_family, &mut bytes, b"lost"),
            outgoing(to, &mut bytes, b"second"),
        ];
        let stats = WorkerStats::default();
        SendBatch::new(true).send(sender.as_fd(), &messages, &bytes, &stats);
        let mut buffer = [0; 200];
        for expected in [&b"first"[..], b"second"] {
            let length = receiver.recv(&mut buffer).expect("datagram");
            assert_eq!(&buffer[..length], expected);
        }
        assert_eq!(stats.send_too_long.value(), 1);
        assert_eq!(stats.send_errors.value(), 1);
        assert_eq!(
            (stats.datagrams_sent.value(), stats.bytes_sent.value()),
            (2, 11)
        );
    }
}
