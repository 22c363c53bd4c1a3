//! Receives a batch of datagrams with one system call.

use super::address::RawAddress;
use super::stamp::{self, CONTROL, Control, WallTime};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// Datagrams per system call. Larger batches bring no measurable gain. The answer to the first datagram waits until the
/// last one is handled.
pub(super) const BATCH: usize = 32;

/// No UDP payload is longer: the maximum is 65,535 bytes minus the headers. So no datagram is truncated.
pub(super) const LONGEST: usize = 65_536;

/// The datagrams of one system call. All-zero bytes are a valid value.
///
/// Pages that no datagram has reached cost no memory, so slots for the longest datagram are as cheap as short ones. The distance between
/// slots is an odd number of cache lines. Otherwise the starts of all slots, the part that is used, would compete for a few cache sets.
#[repr(C)]
struct Slots {
    headers: [libc::mmsghdr; BATCH],
    parts: [libc::iovec; BATCH],
    senders: [RawAddress; BATCH],
    controls: [Control; BATCH],
    payloads: [Payload; BATCH],
}

#[repr(C, align(64))]
struct Payload([u8; LONGEST + 11 * 64]);

/// A received datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) bytes: &'a [u8],
    pub(crate) is_truncated: bool,
    /// When the kernel received it.
    pub(crate) stamp: Option<WallTime>,
}

/// How many datagrams probably wait in a socket. A wrong guess only costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    One,
    Many,
}

/// Buffers for a batch of datagrams, reused by each system call.
pub(crate) struct ReceiveBatch {
    /// An anonymous mapping with one `Slots`, which this value owns.
    slots: NonNull<Slots>,
    filled: usize,
}

#[expect(
    unsafe_code,
    reason = "the raw pointer hides that the mapping has one owner"
)]
// SAFETY: only this value owns the mapping, and the mapping is accessed only through it.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    pub(crate) fn new() -> io::Result<Self> {
        #[expect(
            unsafe_code,
            reason = "an anonymous mapping is the memory that is zero but not yet there"
        )]
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                size_of::<Slots>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let slots = NonNull::new(mapping.cast::<Slots>()).ok_or(Errno::NOMEM)?;
        let batch = Self { slots, filled: 0 };
        for index in 0..BATCH {
            let slots = batch.slots.as_ptr();
            #[expect(unsafe_code, reason = "the headers point into the mapping they lie in")]
            // SAFETY: the mapping is live, zeroed (a valid `Slots`), page-aligned and accessed only here; index is below the
            // length of its arrays.
            unsafe {
                let part = &raw mut (*slots).parts[index];
                (*part).iov_base = (&raw mut (*slots).payloads[index]).cast();
                (*part).iov_len = LONGEST;
                let header = &raw mut (*slots).headers[index].msg_hdr;
                (*header).msg_name = (&raw mut (*slots).senders[index]).cast();
                (*header).msg_namelen = RawAddress::CAPACITY;
                (*header).msg_iov = part;
                (*header).msg_iovlen = 1;
                (*header).msg_control = (&raw mut (*slots).controls[index]).cast();
                (*header).msg_controllen = CONTROL as _;
            }
        }
        Ok(batch)
    }

    /// Replaces the batch with what waits in the socket, without blocking. Returns the number of datagrams.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        expected: Expected,
    ) -> Result<usize, Errno> {
        self.make_room();
        let result = match expected {
            Expected::One => self.receive_one(socket),
            Expected::Many => self.receive_many(socket),
        };
        match result {
            Ok(count) => {
                self.filled = count.min(BATCH);
                Ok(self.filled)
            }
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn make_room(&mut self) {
        let slots = self.slots.as_ptr();
        for index in 0..self.filled {
            #[expect(unsafe_code, reason = "the headers lie in the mapping")]
            // SAFETY: as in `new`; index is below BATCH.
            unsafe {
                // The kernel has overwritten both capacities with the lengths of the sender's address and of the timestamp.
                let header = &raw mut (*slots).headers[index].msg_hdr;
                (*header).msg_namelen = RawAddress::CAPACITY;
                (*header).msg_controllen = CONTROL as _;
            }
        }
        self.filled = 0;
    }

    /// Receives one datagram. This costs less than a batch of one, which reads the socket a second time.
    fn receive_one(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let slots = self.slots.as_ptr();
        #[expect(
            unsafe_code,
            reason = "a safe wrapper would build the header anew for each call"
        )]
        // SAFETY: the first header points into the same live mapping. No reference to it exists while `self` is borrowed
        // exclusively. A length is at most LONGEST.
        unsafe {
            let header = &raw mut (*slots).headers[0];
            let length = libc::recvmsg(
                socket.as_raw_fd(),
                &raw mut (*header).msg_hdr,
                libc::MSG_DONTWAIT,
            );
            (*header).msg_len = libc::c_uint::try_from(length).map_err(|_| last_error())?;
        }
        Ok(1)
    }

    fn receive_many(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let slots = self.slots.as_ptr();
        #[expect(unsafe_code, reason = "no safe wrapper of recvmmsg exists")]
        // SAFETY: there are BATCH headers, each pointing into the same live mapping. No reference to it exists while `self` is
        // borrowed exclusively.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                (&raw mut (*slots).headers).cast(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| last_error())
    }

    /// The datagrams of the last [`ReceiveBatch::receive`], in the order of arrival.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        (0..self.filled).filter_map(|index| self.datagram(index))
    }

    fn datagram(&self, index: usize) -> Option<Datagram<'_>> {
        let slots = self.slots.as_ptr();
        if index >= self.filled {
            return None;
        }
        #[expect(unsafe_code, reason = "the datagrams lie in the mapping")]
        // SAFETY: index is below BATCH. The kernel has written the data that is read here, at most LONGEST bytes of payload. It
        // writes again only under an exclusive borrow.
        unsafe {
            let header = &raw const (*slots).headers[index];
            let length = ((*header).msg_len as usize).min(LONGEST);
            let payload = (&raw const (*slots).payloads[index]).cast::<u8>();
            let control = &(*slots).controls[index].0;
            #[expect(
                clippy::unnecessary_cast,
                reason = "its type is another one in other C libraries"
            )]
            let written = (*header).msg_hdr.msg_controllen as usize;
            Some(Datagram {
                from: (*slots).senders[index].read()?,
                bytes: std::slice::from_raw_parts(payload, length),
                is_truncated: (*header).msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                stamp: control.get(..written).and_then(stamp::find),
            })
        }
    }
}

pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Drop for ReceiveBatch {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the mapping is given back to the kernel")]
        // SAFETY: this value owns the mapping, the size is the same, and nothing points into it any more.
        let result = unsafe { munmap(self.slots.as_ptr().cast(), size_of::<Slots>()) };
        debug_assert!(result.is_ok(), "munmap refused a mapping of ours");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let socket = UdpSocket::bind(address).expect("bind");
        stamp::ask_for_stamps(socket.as_fd()).expect("stamps");
        let peer = UdpSocket::bind(address).expect("bind");
        peer.connect(socket.local_addr().expect("address"))
            .expect("connect");
        (socket, peer)
    }

    fn check_batches(address: &str) {
        let (socket, peer) = pair(address);
        let from = peer.local_addr().expect("address");
        let mut batch = ReceiveBatch::new().expect("mapping");
        let sent: Vec<Vec<u8>> = (0..BATCH + 3)
            .map(|length| vec![length as u8; length * 20])
            .collect();
        for bytes in &sent {
            peer.send(bytes).expect("send");
        }
        let mut received = Vec::new();
        for (expected, count) in [
            (Expected::One, 1),
            (Expected::Many, BATCH),
            (Expected::One, 1),
            (Expected::Many, 1),
            (Expected::One, 0),
            (Expected::Many, 0),
        ] {
            assert_eq!(batch.receive(socket.as_fd(), expected), Ok(count));
            received.extend(batch.datagrams().map(|datagram| {
                assert_eq!((datagram.from, datagram.is_truncated), (from, false));
                datagram.bytes.to_vec()
            }));
        }
        assert_eq!(received, sent);
    }

    #[test]
    fn datagrams_come_whole_in_order_and_with_their_sender() {
        check_batches("127.0.0.1:0");
        check_batches("[::1]:0");
    }

    #[test]
    fn sockets_of_both_families_take_turns_in_one_batch() {
        let (v4, v4_peer) = pair("127.0.0.1:0");
        let (v6, v6_peer) = pair("[::1]:0");
        let mut batch = ReceiveBatch::new().expect("mapping");
        for (socket, peer) in [(&v4, &v4_peer), (&v6, &v6_peer), (&v4, &v4_peer)] {
            peer.send(b"hello").expect("send");
            assert_eq!(batch.receive(socket.as_fd(), Expected::Many), Ok(1));
            let from = batch.datagrams().next().expect("a datagram").from;
            assert_eq!(from, peer.local_addr().expect("address"));
        }
    }

    #[test]
    fn datagrams_bear_the_time_when_the_kernel_received_them() {
        let wall = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.expect("after 1970")
        };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (socket, peer) = pair(address);
            let mut batch = ReceiveBatch::new().expect("mapping");
            let mut is_stamped_on_arrival = |expected| {
                let before = wall();
                peer.send(b"hello").expect("send");
                let after = wall();
                std::thread::sleep(Duration::from_millis(5));
                assert_eq!(batch.receive(socket.as_fd(), expected), Ok(1));
                let stamp = batch.datagrams().next().and_then(|it| it.stamp);
                // The kernel's clock may have a coarser resolution than ours.
                let slack = Duration::from_millis(4);
                (before.saturating_sub(slack)..=after).contains(&stamp.expect("a stamp"))
            };
            for expected in [Expected::One, Expected::Many, Expected::One] {
                // The kernel starts to stamp on arrival a moment after the option is set. Until then it stamps when a datagram is read.
                assert!((0..100).any(|_| is_stamped_on_arrival(expected)));
            }
        }
    }

    #[test]
    fn the_longest_datagrams_are_not_cut_short() {
        for (address, longest) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_527)] {
            let (socket, peer) = pair(address);
            let sent: Vec<u8> = (0..longest).map(|index: u32| (index % 251) as u8).collect();
            let mut batch = ReceiveBatch::new().expect("mapping");
            for expected in [Expected::One, Expected::Many] {
                peer.send(&sent).expect("send");
                assert_eq!(batch.receive(socket.as_fd(), expected), Ok(1));
                let datagram = batch.datagrams().next().expect("a datagram");
                assert!(datagram.bytes == sent && !datagram.is_truncated);
            }
        }
    }

    #[test]
    fn a_descriptor_that_is_no_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").expect("open");
        let mut batch = ReceiveBatch::new().expect("mapping");
        for expected in [Expected::One, Expected::Many] {
            assert_eq!(batch.receive(file.as_fd(), expected), Err(Errno::NOTSOCK));
        }
    }
}
