//! The buffers into which a ring receives one listener's datagrams. They are registered with the kernel, which fills one per datagram.

use crate::udp::receive::LONGEST;
use io_uring::Submitter;
use io_uring::types::BufRingEntry;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering};

/// Datagrams that the kernel may deliver before any is handled. Others wait in the socket. It is a power of two.
pub(super) const BUFFERS: u16 = 64;

/// The size of a buffer: room for the longest datagram, the sender's address and the control data. As in
/// [`ReceiveBatch`](crate::udp::ReceiveBatch), pages that no datagram has reached cost no memory, and the odd number of cache
/// lines avoids cache conflicts.
const LENGTH: usize = LONGEST + 17 * 64;

/// The list of free buffers is at the start of the mapping, in its own page.
const LIST: usize = 4_096;

const SIZE: usize = LIST + BUFFERS as usize * LENGTH;

pub(super) struct ProvidedBuffers {
    /// An anonymous mapping, which this value owns.
    memory: NonNull<u8>,
    /// How many times buffers were given to the kernel; it wraps.
    given: u16,
    group: u16,
}

#[expect(
    unsafe_code,
    reason = "the raw pointer hides that the mapping has one owner"
)]
// SAFETY: only this value owns the mapping, and the mapping is accessed only through it.
unsafe impl Send for ProvidedBuffers {}

impl ProvidedBuffers {
    pub(super) fn open(group: u16) -> io::Result<Self> {
        #[expect(
            unsafe_code,
            reason = "an anonymous mapping is the memory that is zero but not yet there"
        )]
        // SAFETY: no address is requested, so no existing mapping is replaced.
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

    /// Registers all buffers with the kernel. Call it once.
    pub(super) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let list = self.memory.as_ptr() as u64;
        #[expect(
            unsafe_code,
            reason = "the kernel reads the list as long as the ring lives"
        )]
        // SAFETY: the list has room for BUFFERS entries and starts at a page. It is freed only after the kernel has released the
        // ring (see the ring's `ending`).
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

    /// The data that the kernel has written to a buffer. It is valid until the buffer is given back.
    pub(super) fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        if buffer >= BUFFERS {
            return &[];
        }
        #[expect(unsafe_code, reason = "the datagrams lie in the mapping")]
        // SAFETY: the buffer is in the mapping, which was zeroed and then written by the kernel. The kernel writes to it again
        // only after `give`, which takes an exclusive borrow.
        unsafe {
            std::slice::from_raw_parts(self.start(buffer), length.min(LENGTH))
        }
    }

    /// A mapping starts at a page, so the entries are aligned.
    fn list(&self) -> *mut BufRingEntry {
        self.memory.as_ptr().cast()
    }

    fn start(&self, buffer: u16) -> *mut u8 {
        let offset = LIST + usize::from(buffer % BUFFERS) * LENGTH;
        self.memory.as_ptr().wrapping_add(offset)
    }

    /// Returns a buffer to the kernel, which sees it after [`ProvidedBuffers::publish`].
    pub(super) fn give(&mut self, buffer: u16) {
        let place = usize::from(self.given % BUFFERS);
        let start = self.start(buffer);
        #[expect(unsafe_code, reason = "the list lies in the mapping")]
        // SAFETY: there are BUFFERS entries, and place is below that. The kernel does not read this entry before it is published:
        // it has consumed the buffer that was given in this place before.
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
        // SAFETY: it is an aligned u16 of the live mapping, written only here and read by the kernel.
        unsafe {
            let end = BufRingEntry::tail(self.list()).cast_mut();
            AtomicU16::from_ptr(end).store(self.given, Ordering::Release);
        }
    }
}

impl Drop for ProvidedBuffers {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the mapping is given back to the kernel")]
        // SAFETY: this value owns the mapping, the size is the same, and the owner drops it only when no ring writes to it any more.
        let result = unsafe { munmap(self.memory.as_ptr().cast(), SIZE) };
        debug_assert!(result.is_ok(), "munmap refused a mapping of ours");
    }
}
