//! Live capture: an `AF_PACKET` socket with a ring in shared memory, which the kernel fills with packets (`TPACKET_V3`, packet(7)).
//!
//! The ring consists of blocks. The kernel fills a block and hands it over; the reader processes it and hands it back. While the reader
//! has all blocks, packets are dropped and counted. Only this module of the crate has `unsafe` code: for socket options that no safe
//! library supports, and for reading the ring.
#![expect(
    unsafe_code,
    reason = "no safe library has packet sockets with a ring: each block says why it is sound"
)]

use super::{Filter, LinkType, Moment, Packet, Time};
use libc::{c_int, c_void, socklen_t, tpacket_block_desc, tpacket3_hdr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Bytes per block. The longest packet, before segmentation by the network card, has 64 KiB.
const BLOCK: usize = 1 << 20;
/// Not used by `TPACKET_V3`, but it must divide the block size.
const FRAME: usize = 2_048;
/// Milliseconds after which the kernel hands over a block that is not full.
const RETIRE: u32 = 20;

/// Counters of the kernel since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets that passed the filter, including dropped ones.
    pub packets: u64,
    /// Packets for which no block was free.
    pub dropped: u64,
}

/// An open capture.
#[derive(Debug)]
pub struct Ring {
    socket: OwnedFd,
    /// The first block; each block begins with its descriptor.
    memory: NonNull<tpacket_block_desc>,
    blocks: usize,
    /// Index of the next block.
    next: usize,
    frames: u64,
}

impl Ring {
    /// Captures on an interface, or on all (`any`), with a ring of `mebibytes` MiB.
    ///
    /// # Errors
    /// A capability is missing, the interface does not exist, or there is no memory for the ring. The message says what to do.
    pub fn open(interface: &str, mebibytes: usize, filter: &Filter) -> io::Result<Self> {
        let index = index_of(interface)?;
        // SAFETY: no memory is involved. With protocol 0, nothing is captured before bind.
        let number =
            unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if number < 0 {
            return Err(no_socket(&io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just opened, and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        attach(&socket, filter).map_err(|error| say("the kernel rejects the filter", &error))?;
        let blocks = mebibytes.max(2);
        let memory = map(&socket, blocks).map_err(|error| {
            let what =
                format!("the kernel cannot allocate {blocks} MiB for the ring: reduce --ring");
            say(&what, &error)
        })?;
        let ring = Self {
            socket,
            memory,
            blocks,
            next: 0,
            frames: 0,
        };
        bind(&ring.socket, index)
            .map_err(|error| say(&format!("cannot capture on {interface}"), &error))?;
        Ok(ring)
    }

    /// Passes the packets of the next block to `take`. Waits for the block no longer than `patience`, and returns whether there was one.
    ///
    /// # Errors
    /// The interface has disappeared.
    pub fn read(
        &mut self,
        patience: Duration,
        mut take: impl FnMut(&Packet<'_>),
    ) -> io::Result<bool> {
        if !self.is_ours() {
            self.wait(patience)?;
            if !self.is_ours() {
                return Ok(false);
            }
        }
        let block = self.block();
        // SAFETY: the block lies in the mapping, begins with its descriptor, and is ours until it is handed back.
        let description = unsafe { ptr::read(block.as_ptr()) };
        // SAFETY: version 3 has no other member of the union.
        let header = unsafe { description.hdr.bh1 };
        // SAFETY: the kernel does not write to a block that is ours.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr().cast::<u8>(), BLOCK) };
        let mut at = header.offset_to_first_pkt as usize;
        for _ in 0..header.num_pkts {
            let Some(packet) = packet_at(bytes, at) else {
                break;
            };
            self.frames += 1;
            let moment = Moment {
                frame: self.frames,
                time: Time::new(packet.header.tp_sec.into(), packet.header.tp_nsec.into()),
            };
            take(&Packet {
                moment,
                link: LinkType::RawIp,
                bytes: packet.bytes,
                truncated: packet.header.tp_snaplen < packet.header.tp_len,
            });
            at += packet.header.tp_next_offset as usize;
        }
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Ok(true)
    }

    /// Counters of the kernel since the last call.
    ///
    /// # Errors
    /// The system call fails, for no known reason.
    pub fn drops(&self) -> io::Result<Drops> {
        let mut statistics = libc::tpacket_stats_v3 {
            tp_packets: 0,
            tp_drops: 0,
            tp_freeze_q_cnt: 0,
        };
        let mut length = size_of_val(&statistics) as socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the structure for this option.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast::<c_void>(),
                &raw mut length,
            )
        };
        checked(result)?;
        Ok(Drops {
            packets: statistics.tp_packets.into(),
            dropped: statistics.tp_drops.into(),
        })
    }

    fn block(&self) -> NonNull<tpacket_block_desc> {
        // SAFETY: `next` is less than the number of mapped blocks. Blocks are page-aligned.
        unsafe { self.memory.byte_add(self.next * BLOCK) }
    }

    /// The owner of the next block: the one word that both sides write.
    fn status(&self) -> &AtomicU32 {
        let description = self.block().as_ptr();
        // SAFETY: the word lies in the mapping, which lives as long as `self`, is aligned, and is only accessed atomically while both
        // sides may.
        unsafe { AtomicU32::from_ptr(&raw mut (*description).hdr.bh1.block_status) }
    }

    fn is_ours(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    fn wait(&self, patience: Duration) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let milliseconds = c_int::try_from(patience.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: one structure is passed, and the count says one.
        let result = unsafe { libc::poll(&raw mut poll, 1, milliseconds) };
        match checked(result) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        if poll.revents & libc::POLLERR == 0 {
            return Ok(());
        }
        let mut code: c_int = 0;
        let mut length = size_of_val(&code) as socklen_t;
        // SAFETY: the kernel writes an int to an int.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ERROR,
                (&raw mut code).cast::<c_void>(),
                &raw mut length,
            )
        };
        checked(result)?;
        let error = io::Error::from_raw_os_error(code);
        Err(say("the interface has disappeared", &error))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and no borrow of it is left.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.blocks * BLOCK) };
    }
}

struct Found<'a> {
    header: tpacket3_hdr,
    bytes: &'a [u8],
}

/// The packet whose header begins at `at`.
fn packet_at(block: &[u8], at: usize) -> Option<Found<'_>> {
    let rest = block.get(at..)?;
    if rest.len() < size_of::<tpacket3_hdr>() {
        return None;
    }
    // SAFETY: there are enough bytes, and any bytes make a header; it need not be aligned.
    let header = unsafe { ptr::read_unaligned(rest.as_ptr().cast::<tpacket3_hdr>()) };
    let bytes = rest.get(usize::from(header.tp_net)..)?;
    let bytes = bytes.get(..header.tp_snaplen as usize)?;
    Some(Found { header, bytes })
}

fn attach(socket: &OwnedFd, filter: &Filter) -> io::Result<()> {
    let program = filter.program();
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Creates the ring, and maps it.
fn map(socket: &OwnedFd, blocks: usize) -> io::Result<NonNull<tpacket_block_desc>> {
    let version = libc::tpacket_versions::TPACKET_V3 as c_int;
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: FRAME as u32,
        tp_frame_nr: (blocks * (BLOCK / FRAME)) as u32,
        tp_retire_blk_tov: RETIRE,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let memory = unsafe {
        libc::mmap(
            ptr::null_mut(),
            blocks * BLOCK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            socket.as_raw_fd(),
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(memory.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
}

/// Starts the capture. Index 0 means all interfaces.
fn bind(socket: &OwnedFd, index: c_int) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the length is that of the structure.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as socklen_t,
        )
    };
    checked(result)
}

fn set<T>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the value has. The callers pass the structure of the option.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        )
    };
    checked(result)
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn index_of(interface: &str) -> io::Result<c_int> {
    if interface == "any" {
        return Ok(0);
    }
    let found = std::ffi::CString::new(interface).map_or(0, |name| {
        // SAFETY: the name ends with NUL.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    if found != 0 {
        return Ok(found.cast_signed());
    }
    let message = format!(
        "no interface is named {interface:?}; available: {}",
        interfaces().join(", ")
    );
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

/// The interfaces of this network namespace, and `any`.
fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split_once(':'));
    let names = names.map(|(name, _)| name.trim().to_owned());
    names.chain(["any".to_owned()]).collect()
}

fn no_socket(error: &io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        let message = "capturing needs the capability CAP_NET_RAW: run as root, or give it to the program \
            (setcap cap_net_raw=ep /path/to/tandem), or to the container (securityContext.capabilities.add: [NET_RAW]); \
            --pcap FILE needs none";
        return io::Error::new(error.kind(), message);
    }
    say("cannot open a packet socket", error)
}

fn say(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
