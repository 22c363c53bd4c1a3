//! The memory that a ring receives one listener's datagrams in, registered with the kernel, which
//! takes a buffer for each datagram that has arrived.

use crate::udp::receive::LONGEST;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

/// Datagrams that the kernel may have put here before any is handled; the others wait in the
/// socket. A power of two.
pub(super) const BUFFERS: u16 = 64;

/// Buffers for the longest datagram, its sender and what the kernel says of it. As in
/// [`ReceiveBatch`](crate::udp::ReceiveBatch), pages that no datagram ever reached cost no memory,
/// and the odd number of cache lines spares the caches.
const LENGTH: usize = LONGEST + 17 * 64;

/// The list of free buffers lies at the beginning of the mapping, in a page of its own.
const LIST: usize = 4_096;

const SIZE: usize = LIST + BUFFERS as usize * LENGTH;

pub(super) struct ProvidedBuffers {
    /// A mapping of our own.
    memory: NonNull<u8>,
    /// How many times a buffer was given to the kernel; it wraps.
    given: u16,
    group: u16,
}

#[expect(
    unsafe_code,
    reason = "the raw pointer hides that the mapping has one owner"
)]
// SAFETY: the mapping belongs to this value alone and is reached through it only.
unsafe impl Send for ProvidedBuffers {}

impl ProvidedBuffers {
    pub(super) fn open(group: u16) -> io::Result<Self> {
        #[expect(
            unsafe_code,
            reason = "an anonymous mapping is the memory that is zero but not yet there"
        )]
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let mapping = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                SIZE,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        Ok(Self {
            memory: NonNull::new(mapping.cast()).ok_or(Errno::NOMEM)?,
            given: 0,
            group,
        })
    }

    /// Gives all of it to the kernel. Once.
    pub(super) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let list = self.memory.as_ptr() as u64;
        #[expect(
            unsafe_code,
            reason = "the kernel reads the list as long as the ring lives"
        )]
        // SAFETY: the list has room for BUFFERS entries, begins at a page, and is freed only after the ring has let go of it
        // (see the ring's `ending`).
        unsafe { submitter.register_buf_ring_with_flags(list, BUFFERS, self.group, 0) }?;
        for buffer in 0..BUFFERS {
            self.give(buffer);
        }
        self.publish();
        Ok(())
    }

    pub(super) const fn group(&self) -> u16 {
        self.group
    }

    /// What the kernel has put into a buffer, until it is given back.
    pub(super) fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        if buffer >= BUFFERS {
            return &[];
        }
        #[expect(unsafe_code, reason = "the datagrams lie in the mapping")]
        // SAFETY: the buffer lies in the mapping, which was zero and has been written by the kernel. The kernel writes to it
        // again only after `give`, which takes an exclusive borrow.
        unsafe {
            std::slice::from_raw_parts(self.start(buffer), length.min(LENGTH))
        }
    }

    /// A mapping begins at a page, so the entries are aligned.
    fn list(&self) -> *mut BufRingEntry {
        self.memory.as_ptr().cast()
    }

    fn start(&self, buffer: u16) -> *mut u8 {
        let offset = LIST + usize::from(buffer % BUFFERS) * LENGTH;
        self.memory.as_ptr().wrapping_add(offset)
    }

    /// Gives a buffer back; the kernel sees it after [`ProvidedBuffers::publish`].
    pub(super) fn give(&mut self, buffer: u16) {
        let place = usize::from(self.given % BUFFERS);
        let start = self.start(buffer);
        #[expect(unsafe_code, reason = "the list lies in the mapping")]
        // SAFETY: there are BUFFERS entries, place is below that, and the kernel does not read this one before it is
        // published: it has taken out of the list all that was given so many times before.
        unsafe {
            let entry = &mut *self.list().add(place);
            entry.set_addr(start as u64);
            entry.set_len(LENGTH as u32);
            entry.set_bid(buffer);
        }
        self.given = self.given.wrapping_add(1);
    }

    pub(super) fn publish(&self) {
        #[expect(unsafe_code, reason = "the end of the list lies in its first entry")]
        // SAFETY: it is a u16 of the live mapping, aligned, written by us only and read by the kernel.
        unsafe {
            let end = BufRingEntry::tail(self.list()).cast_mut();
            AtomicU16::from_ptr(end).store(self.given, Ordering::Release);
        }
    }
}

impl Drop for ProvidedBuffers {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the mapping is given back to the kernel")]
        // SAFETY: it is ours, of this size, and whoever drops this has seen to it that no ring writes into it any more.
        let result = unsafe { munmap(self.memory.as_ptr().cast(), SIZE) };
        debug_assert!(result.is_ok(), "munmap refused a mapping of ours");
    }
}
