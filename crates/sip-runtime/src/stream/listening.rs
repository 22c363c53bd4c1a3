//! The listening socket of one worker for one listener.

use super::socket;
use crate::udp::{Sharing, SocketError};
use rustix::io::Errno;
use rustix::net::{SocketFlags, acceptfrom_with, getsockname};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

pub(crate) struct Listening {
    socket: OwnedFd,
}

impl Listening {
    /// Opens and binds a socket. It starts to listen once all workers' sockets are bound
    /// ([`Listening::start`]).
    pub(crate) fn open(
        address: SocketAddr,
        sharing: Sharing,
        keep_alive: Duration,
    ) -> Result<Self, SocketError> {
        let socket = socket::open_listening(address, sharing, keep_alive)?;
        Ok(Self { socket })
    }

    /// Starts to listen: from now on the kernel accepts connections.
    pub(crate) fn start(&self) -> Result<(), SocketError> {
        socket::start_listening(self.socket.as_fd())
    }

    /// The address that the socket is bound to.
    pub(crate) fn address(&self) -> Result<SocketAddr, SocketError> {
        let step = "read back its address";
        let address = getsockname(&self.socket).map_err(|errno| SocketError { step, errno })?;
        address
            .try_into()
            .map_err(|errno| SocketError { step, errno })
    }

    /// The next connection and its peer's address. `Errno::AGAIN` means that none is queued.
    pub(super) fn accept(&self) -> Result<(OwnedFd, SocketAddr), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = acceptfrom_with(&self.socket, flags)?;
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        Ok((socket, peer.ok_or(Errno::CONNABORTED)?))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
