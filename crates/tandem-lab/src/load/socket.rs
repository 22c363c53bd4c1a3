//! A UDP socket with a large buffer, towards one server.

use crate::run::own_address;
use rustix::net::sockopt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};

/// What the receive buffer must hold: a smaller one drops messages and voids the run.
const RECEIVE_BUFFER: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Socket {
    udp: UdpSocket,
    server: SocketAddr,
    local: SocketAddr,
}

impl Socket {
    /// A socket on any port of the address that the server sees.
    pub(crate) fn open(server: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = if server.is_ipv4() {
            ([0; 4], 0).into()
        } else {
            ([0_u16; 8], 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        let local = SocketAddr::new(own_address(server)?, socket.local_addr()?.port());
        if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
        }
        let granted = sockopt::socket_recv_buffer_size(&socket)?;
        if granted < RECEIVE_BUFFER {
            let message = format!(
                "receive buffer is {granted} bytes, not {RECEIVE_BUFFER}: raise net.core.rmem_max"
            );
            return Err(io::Error::other(message));
        }
        socket.set_nonblocking(true)?;
        Ok(Self {
            udp: socket,
            server,
            local,
        })
    }

    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        loop {
            match self.udp.send_to(message, self.server) {
                // On loopback a full queue empties at once.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                result => return result.map(drop),
            }
        }
    }

    /// One datagram, if one waits.
    pub(crate) fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        match self.udp.recv(buffer) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Datagrams that the kernel dropped because the buffer was full.
    pub(crate) fn kernel_drops(&self) -> u64 {
        // The drops of a socket stand in the last column of its line in /proc/net/udp.
        let table = if self.local.is_ipv4() {
            "/proc/net/udp"
        } else {
            "/proc/net/udp6"
        };
        let port = format!(":{:04X}", self.local.port());
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let line = text.lines().find(|line| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|address| address.ends_with(&port))
        });
        line.and_then(|line| line.split_whitespace().last()?.parse().ok())
            .unwrap_or(0)
    }
}
