//! Waits until one of a worker's descriptors is ready.

mod epoll;
mod poll;
#[cfg(test)]
mod tests;
mod uring;

use epoll::Epoll;
use poll::Poll;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tracing::info;
pub(crate) use uring::{Operation, Uring};

/// The system call in which a worker waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLoopKind {
    /// The cheapest one: epoll.
    #[default]
    Auto,
    /// epoll(7): the cost of a wait does not grow with the number of descriptors.
    Epoll,
    /// poll(2), for machines without epoll.
    Poll,
    /// `io_uring`(7), Linux 6.1 or later. The call that waits also receives and sends datagrams.
    IoUring,
}

impl EventLoopKind {
    /// Resolves [`EventLoopKind::Auto`] for this machine; never returns it.
    ///
    /// # Errors
    /// If the kernel does not support the requested kind. The error says why and what to do.
    pub(crate) fn settle(self) -> io::Result<Self> {
        match self {
            Self::Auto => {
                let io_uring = match uring::probe() {
                    Ok(()) => "available".to_owned(),
                    Err(refused) => refused.to_string(),
                };
                info!(%io_uring, "using epoll; io_uring saves system calls, but no CPU time when many messages share a call");
                Ok(Self::Epoll)
            }
            Self::IoUring => uring::probe().map(|()| self).map_err(io::Error::other),
            Self::Epoll | Self::Poll => Ok(self),
        }
    }
}

/// The events to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Interest {
    pub(crate) const NOTHING: Self = Self {
        readable: false,
        writable: false,
    };
    pub(crate) const READABLE: Self = Self {
        readable: true,
        writable: false,
    };
}

/// The events that a descriptor is ready for. Errors and hang-ups count as readable and writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The descriptor has an error, or an entry in its error queue.
    pub(crate) broken: bool,
}

/// An event loop. It is level-triggered: a descriptor that is not drained is reported again.
pub(crate) enum EventLoop {
    Epoll(Epoll),
    Poll(Poll),
    Uring(Box<Uring>),
}

impl EventLoop {
    pub(crate) fn open(kind: EventLoopKind) -> io::Result<Self> {
        match kind {
            EventLoopKind::Auto | EventLoopKind::Epoll => Epoll::open().map(Self::Epoll),
            EventLoopKind::Poll => Ok(Self::Poll(Poll::default())),
            EventLoopKind::IoUring => Ok(Self::Uring(Box::new(Uring::open()?))),
        }
    }

    /// The ring, if the event loop is one. A ring also carries datagrams.
    pub(crate) fn ring(&mut self) -> Option<&mut Uring> {
        match self {
            Self::Uring(ring) => Some(ring),
            Self::Epoll(_) | Self::Poll(_) => None,
        }
    }

    /// A descriptor for other event loops, readable when a wait would return an event. `None` for poll, which has no descriptor,
    /// and for a ring: the kernel does a ring's work only while the ring's thread waits in it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Epoll(epoll) => Some(epoll.descriptor()),
            Self::Poll(_) | Self::Uring(_) => None,
        }
    }

    /// Watches `descriptor` until [`EventLoop::forget`]. `token` identifies it in [`EventLoop::wait`].
    pub(crate) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.watch(descriptor, token, interest),
            Self::Poll(poll) => poll.watch(descriptor, token, interest),
            Self::Uring(ring) => ring.watch(descriptor, token, interest),
        }
    }

    /// Changes the events and the token of a watched descriptor.
    pub(crate) fn change(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.change(descriptor, token, interest),
            Self::Poll(poll) => poll.change(descriptor, token, interest),
            Self::Uring(ring) => ring.change(descriptor, token, interest),
        }
    }

    /// Stops watching a descriptor. Call it before the descriptor is closed. From now on none of its events is reported, even if
    /// its number or its token is reused.
    pub(crate) fn forget(&mut self, descriptor: BorrowedFd<'_>, _token: usize) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.forget(descriptor),
            Self::Poll(poll) => poll.forget(descriptor),
            Self::Uring(ring) => ring.forget(descriptor),
        }
    }

    /// Waits until a descriptor is ready or `timeout` has passed, and reports the ready ones. The timeout is rounded up to whole
    /// milliseconds if the system call counts in them. A signal may end the wait early, with nothing ready.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.wait(timeout, ready),
            Self::Poll(poll) => poll.wait(timeout, ready),
            Self::Uring(ring) => ring.wait(timeout, ready),
        }
    }

    /// Sleeps for `length`, whatever happens meanwhile.
    pub(crate) fn pause(&mut self, length: Duration) {
        match self {
            Self::Epoll(_) | Self::Poll(_) => std::thread::sleep(length),
            Self::Uring(ring) => ring.pause(length),
        }
    }
}

/// A timeout in milliseconds for poll(2), rounded up so that no timer fires early.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        let milliseconds = timeout
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(u64::from(timeout.subsec_nanos().div_ceil(1_000_000)));
        i32::try_from(milliseconds).unwrap_or(i32::MAX)
    })
}
