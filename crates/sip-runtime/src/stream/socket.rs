//! The system calls of stream sockets.

use crate::udp::{Sharing, SocketError};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with,
};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Length of the accept queue. The kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// Keep-alive probes and their interval, before the kernel gives up a silent peer.
const PROBES: u32 = 5;
const PROBE_INTERVAL: Duration = Duration::from_secs(15);

/// Opens a bound socket that does not listen yet: first, the sockets of all workers must be bound.
pub(super) fn open_listening(
    address: SocketAddr,
    sharing: Sharing,
    keep_alive: Duration,
) -> Result<OwnedFd, SocketError> {
    let step = |step| move |errno| SocketError { step, errno };
    let socket = open(address).map_err(step("open a socket"))?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true).map_err(step("set IPV6_V6ONLY"))?;
    }
    // Without this, connections of an earlier process that the kernel still remembers would prevent
    // binding.
    sockopt::set_socket_reuseaddr(&socket, true).map_err(step("set SO_REUSEADDR"))?;
    let share =
        |share| sockopt::set_socket_reuseport(&socket, share).map_err(step("set SO_REUSEPORT"));
    if sharing == Sharing::Shared {
        share(true)?;
    }
    bind(&socket, &address).map_err(step("bind"))?;
    if sharing == Sharing::SharedLater {
        share(true)?;
    }
    // Accepted sockets inherit these.
    set_options(&socket, keep_alive).map_err(step("set its options"))?;
    Ok(socket)
}

/// Starts to listen.
pub(super) fn start_listening(socket: BorrowedFd<'_>) -> Result<(), SocketError> {
    let step = "listen";
    listen(socket, BACKLOG).map_err(|errno| SocketError { step, errno })
}

/// Starts to connect from `local`, with any port, to `remote`.
pub(super) fn begin_connecting(
    local: SocketAddr,
    remote: SocketAddr,
    keep_alive: Duration,
) -> Result<OwnedFd, Errno> {
    let socket = open(remote)?;
    set_options(&socket, keep_alive)?;
    // The kernel chooses the port when it knows the destination. This allows more connections than
    // there are ports.
    set_bind_address_no_port(socket.as_fd())?;
    bind(&socket, &SocketAddr::new(local.ip(), 0))?;
    match connect(&socket, &remote) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn open(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
}

fn set_options(socket: &OwnedFd, keep_alive: Duration) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, keep_alive)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)
}

fn set_bind_address_no_port(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let yes: libc::c_int = 1;
    #[expect(
        unsafe_code,
        reason = "no safe wrapper of IP_BIND_ADDRESS_NO_PORT exists"
    )]
    // SAFETY: pointer and length describe `yes`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const yes).cast(),
            size_of_val(&yes) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
