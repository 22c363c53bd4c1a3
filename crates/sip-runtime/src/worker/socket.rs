//! The socket that a worker has for each listener.

use crate::stream::Listening;
use crate::udp::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) enum WorkerSocket {
    Datagrams(UdpSocket),
    Streams(Listening),
}

impl WorkerSocket {
    pub(super) fn datagrams(&self) -> Option<&UdpSocket> {
        match self {
            Self::Datagrams(socket) => Some(socket),
            Self::Streams(_) => None,
        }
    }

    /// The receive buffer that the kernel granted, in bytes. `None` for a stream listener.
    pub(super) fn receive_buffer(&self) -> Option<usize> {
        match self {
            Self::Datagrams(socket) => Some(socket.receive_buffer()),
            Self::Streams(_) => None,
        }
    }

    /// Whether the kernel segments GSO batches, if this socket needs it.
    pub(super) fn supports_gso(&self) -> bool {
        match self {
            Self::Datagrams(socket) => socket.supports_gso(),
            Self::Streams(_) => true,
        }
    }
}

impl AsFd for WorkerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Datagrams(socket) => socket.as_fd(),
            Self::Streams(listening) => listening.as_fd(),
        }
    }
}
