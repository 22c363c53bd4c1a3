//! Sending many datagrams with one system call.

use super::address::RawAddress;
use crate::stats::WorkerStats;
use rustix::io::Errno;
use rustix::net::SendFlags;
use sip_transport::Outgoing;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Datagrams per system call; the kernel takes at most 1,024.
const BATCH: usize = 32;

/// The descriptions of a batch of datagrams, kept from one system call to the next.
pub(crate) struct SendBatch {
    headers: Box<[libc::mmsghdr; BATCH]>,
    parts: Box<[libc::iovec; BATCH]>,
    receivers: Box<[RawAddress; BATCH]>,
}

#[expect(
    unsafe_code,
    reason = "the raw pointers inside are what the last system call left behind"
)]
// SAFETY: every pointer is written anew before a system call reads it; none is read otherwise.
unsafe impl Send for SendBatch {}

impl SendBatch {
    pub(crate) fn new() -> Self {
        let header = libc::mmsghdr {
            msg_hdr: libc::msghdr {
                msg_name: ptr::null_mut(),
                msg_namelen: 0,
                msg_iov: ptr::null_mut(),
                msg_iovlen: 0,
                msg_control: ptr::null_mut(),
                msg_controllen: 0,
                msg_flags: 0,
            },
            msg_len: 0,
        };
        let part = libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            headers: Box::new([header; BATCH]),
            parts: Box::new([part; BATCH]),
            receivers: Box::new([RawAddress::empty(); BATCH]),
        }
    }

    /// Sends `messages`, whose ranges point into `bytes`, through `socket` in their order. What
    /// the kernel refuses is dropped and counted: over datagrams, whoever needs an answer
    /// retransmits.
    pub(crate) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing],
        bytes: &[u8],
        stats: &WorkerStats,
    ) {
        let (mut sent, mut sent_bytes) = (0_usize, 0_usize);
        let mut rest = messages;
        while !rest.is_empty() {
            let taken = match rest {
                [message] => send_one(socket, message, bytes),
                _ => self.send_some(socket, rest, bytes),
            };
            let done = match taken {
                Ok(count) => {
                    sent += count;
                    sent_bytes += rest
                        .iter()
                        .take(count)
                        .map(|message| message.range.len())
                        .sum::<usize>();
                    count
                }
                Err(Errno::INTR) => 0,
                Err(error) => {
                    count_refused(error, stats);
                    1
                }
            };
            rest = rest.get(done..).unwrap_or_default();
        }
        stats.datagrams_sent.add(sent as u64);
        stats.bytes_sent.add(sent_bytes as u64);
    }

    /// One system call: how many of the first messages went out (at least one), or why the first
    /// one did not.
    fn send_some(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: &[Outgoing],
        bytes: &[u8],
    ) -> Result<usize, Errno> {
        let mut count = 0;
        let parts = self.parts.as_mut_ptr();
        let slots = self.headers.iter_mut().zip(self.receivers.iter_mut());
        for (message, (header, receiver)) in messages.iter().zip(slots) {
            let payload = bytes.get(message.range.clone()).unwrap_or_default();
            let length = receiver.write(message.flow.remote);
            let part = parts.wrapping_add(count);
            #[expect(
                unsafe_code,
                reason = "written through the pointer that the kernel reads through"
            )]
            // SAFETY: count is below BATCH, and nothing refers to the array otherwise.
            unsafe {
                (*part).iov_base = payload.as_ptr().cast_mut().cast();
                (*part).iov_len = payload.len();
            }
            header.msg_hdr.msg_name = ptr::from_mut(receiver).cast();
            header.msg_hdr.msg_namelen = length;
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        #[expect(
            unsafe_code,
            reason = "the safe wrapper builds its headers anew for each call"
        )]
        // SAFETY: `count` headers were written above, each describing an address in `receivers`,
        // a part in `parts`, and bytes that are borrowed until after the call. The kernel only
        // reads them, but for `msg_len`.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        match usize::try_from(result) {
            Ok(0) => Err(Errno::IO),
            Ok(sent) => Ok(sent),
            Err(_) => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

/// Costs less than a batch of one.
fn send_one(socket: BorrowedFd<'_>, message: &Outgoing, bytes: &[u8]) -> Result<usize, Errno> {
    let payload = bytes.get(message.range.clone()).unwrap_or_default();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendto(socket, payload, flags, &message.flow.remote).map(|_| 1)
}

fn count_refused(error: Errno, stats: &WorkerStats) {
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
mod tests {
    use super::*;
    use sip_transport::{Flow, ListenerId};
    use std::net::{SocketAddr, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn outgoing(remote: SocketAddr, bytes: &mut Vec<u8>, payload: &[u8]) -> Outgoing {
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        Outgoing {
            flow: Flow::datagram(ListenerId(0), remote),
            range: start..bytes.len(),
        }
    }

    fn bound(address: &str) -> (UdpSocket, SocketAddr) {
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
        SendBatch::new().send(sender.as_fd(), &messages, &bytes, &stats);
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
        SendBatch::new().send(sender.as_fd(), &messages, &bytes, &stats);
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
