//! The UDP socket of one worker for one listener.

use super::returned::ask_for_returned;
use super::stamp::ask_for_stamps;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Which other sockets may be bound to the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// None.
    Exclusive,
    /// None yet. Sockets opened later with [`Sharing::Shared`] may share it.
    SharedLater,
    /// All sockets that also share it.
    Shared,
}

/// Buffer sizes to request, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub(crate) receive: usize,
    pub(crate) send: usize,
}

/// The step of opening a socket that failed, with its error.
#[derive(Debug)]
pub(crate) struct SocketError {
    pub(crate) step: &'static str,
    pub(crate) errno: Errno,
}

pub(crate) struct UdpSocket {
    /// Shared with the ring.
    descriptor: Arc<OwnedFd>,
    receive_buffer: usize,
    /// The kernel's drop counter when it was last read; it wraps.
    kernel_drops: u32,
}

impl UdpSocket {
    /// Opens and binds a socket. An IPv6 socket does not receive IPv4.
    pub(crate) fn open(
        address: SocketAddr,
        sharing: Sharing,
        buffers: Buffers,
    ) -> Result<Self, SocketError> {
        let step = |step| move |errno| SocketError { step, errno };
        let family = if address.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let descriptor = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))
            .map_err(step("open a socket"))?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&descriptor, true).map_err(step("set IPV6_V6ONLY"))?;
        }
        let share = |share| {
            sockopt::set_socket_reuseport(&descriptor, share).map_err(step("set SO_REUSEPORT"))
        };
        if sharing == Sharing::Shared {
            share(true)?;
        }
        bind(&descriptor, &address).map_err(step("bind"))?;
        if sharing == Sharing::SharedLater {
            // Binding without the option fails if any socket is already bound there, shared or not. Setting it afterwards lets
            // the sockets of our other workers bind.
            share(true)?;
        }
        let receive_buffer = set_receive_buffer(descriptor.as_fd(), buffers.receive)
            .map_err(step("set SO_RCVBUF"))?;
        set_send_buffer(descriptor.as_fd(), buffers.send).map_err(step("set SO_SNDBUF"))?;
        ask_for_stamps(descriptor.as_fd()).map_err(step("set SO_TIMESTAMPNS"))?;
        ask_for_returned(descriptor.as_fd(), address.is_ipv4()).map_err(step("set IP_RECVERR"))?;
        Ok(Self {
            descriptor: Arc::new(descriptor),
            receive_buffer,
            kernel_drops: 0,
        })
    }

    /// The descriptor, for owners that keep it open beyond the life of this socket.
    pub(crate) fn shared(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.descriptor)
    }

    /// The address that the socket is bound to.
    pub(crate) fn address(&self) -> Result<SocketAddr, SocketError> {
        let step = "read back its address";
        let address =
            getsockname(&*self.descriptor).map_err(|errno| SocketError { step, errno })?;
        address
            .try_into()
            .map_err(|errno| SocketError { step, errno })
    }

    /// The receive buffer that the kernel granted, in bytes and comparable with the requested size. The kernel doubles the number
    /// for its own overhead.
    pub(crate) fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Whether the kernel supports `UDP_SEGMENT` (Linux 4.18). A kernel without it would send a GSO batch as a single datagram.
    pub(crate) fn supports_gso(&self) -> bool {
        let mut size: libc::c_int = 0;
        let mut length = size_of_val(&size) as libc::socklen_t;
        #[expect(unsafe_code, reason = "no safe wrapper of UDP_SEGMENT exists")]
        // SAFETY: pointer and length describe `size`, which outlives the call.
        let result = unsafe {
            libc::getsockopt(
                self.descriptor.as_raw_fd(),
                libc::SOL_UDP,
                libc::UDP_SEGMENT,
                (&raw mut size).cast(),
                &raw mut length,
            )
        };
        result == 0
    }

    /// How many datagrams the kernel has dropped since the last call because the receive buffer was full. Costs one system call.
    pub(crate) fn new_kernel_drops(&mut self) -> io::Result<u32> {
        let drops = read_kernel_drops(self.descriptor.as_fd())?;
        let new = drops.wrapping_sub(self.kernel_drops);
        self.kernel_drops = drops;
        Ok(new)
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn set_receive_buffer(socket: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
    // A size above the machine's limit (net.core.rmem_max) requires CAP_NET_ADMIN.
    if sockopt::set_socket_recv_buffer_size_force(socket, size).is_err() {
        sockopt::set_socket_recv_buffer_size(socket, size)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)? / 2)
}

fn set_send_buffer(socket: BorrowedFd<'_>, size: usize) -> Result<(), Errno> {
    sockopt::set_socket_send_buffer_size_force(socket, size)
        .or_else(|_| sockopt::set_socket_send_buffer_size(socket, size))
}

/// `SO_MEMINFO` returns this many numbers. One of them is the drop counter.
const MEMORY_FIGURES: usize = 9;
const DROPS: usize = 8;

fn read_kernel_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut figures = [0_u32; MEMORY_FIGURES];
    let mut length = size_of_val(&figures) as libc::socklen_t;
    #[expect(unsafe_code, reason = "no safe wrapper of SO_MEMINFO exists")]
    // SAFETY: pointer and length describe `figures`, which outlives the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(figures[DROPS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFERS: Buffers = Buffers {
        receive: 64 << 10,
        send: 64 << 10,
    };

    fn open(address: SocketAddr, sharing: Sharing) -> Result<UdpSocket, SocketError> {
        UdpSocket::open(address, sharing, BUFFERS)
    }

    fn anywhere() -> [SocketAddr; 2] {
        [
            ([127, 0, 0, 1], 0).into(),
            ([0_u16, 0, 0, 0, 0, 0, 0, 1], 0).into(),
        ]
    }

    #[test]
    fn latecomers_join_only_a_socket_that_lets_them() {
        for address in anywhere() {
            let alone = open(address, Sharing::Exclusive).expect("bind");
            let taken = alone.address().expect("address");
            for sharing in [Sharing::Exclusive, Sharing::SharedLater, Sharing::Shared] {
                assert_eq!(
                    open(taken, sharing).err().map(|error| error.errno),
                    Some(Errno::ADDRINUSE)
                );
            }
            let first = open(address, Sharing::SharedLater).expect("bind");
            let shared = first.address().expect("address");
            open(shared, Sharing::Shared).expect("a latecomer joins");
            for sharing in [Sharing::Exclusive, Sharing::SharedLater] {
                assert_eq!(
                    open(shared, sharing).err().map(|error| error.errno),
                    Some(Errno::ADDRINUSE)
                );
            }
        }
    }

    #[test]
    fn the_receive_buffer_is_what_the_kernel_says() {
        for address in anywhere() {
            let socket = open(address, Sharing::Exclusive).expect("bind");
            assert_eq!(socket.receive_buffer(), BUFFERS.receive);
            let read_back = sockopt::socket_recv_buffer_size(&socket).expect("read back");
            assert_eq!(read_back, 2 * BUFFERS.receive);
        }
    }

    #[test]
    fn datagrams_that_find_the_buffer_full_are_counted_once() {
        for address in anywhere() {
            let buffers = Buffers {
                receive: 4_096,
                send: 64 << 10,
            };
            let mut socket = UdpSocket::open(address, Sharing::Exclusive, buffers).expect("bind");
            assert_eq!(socket.new_kernel_drops().expect("drops"), 0);
            let sender = std::net::UdpSocket::bind(address).expect("bind");
            let mut sent = 0;
            while socket.new_kernel_drops().expect("drops") == 0 {
                sender
                    .send_to(&[0; 600], socket.address().expect("address"))
                    .expect("send");
                sent += 1;
                assert!(sent < 1_000, "4,096 bytes do not hold this");
            }
            assert_eq!(
                socket.new_kernel_drops().expect("drops"),
                0,
                "counted already"
            );
        }
    }
}
