//! How a worker waits until one of its descriptors is ready.

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

/// Which system call a worker waits in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventLoopKind {
    /// What costs least: epoll.
    #[default]
    Auto,
    /// epoll(7): the cost of a wait does not grow with the number of descriptors.
    Epoll,
    /// poll(2): where epoll is not to be had.
    Poll,
    /// `io_uring`(7), Linux 6.1 or later: datagrams are received and sent by the call that waits.
    IoUring,
}

impl EventLoopKind {
    /// What this kind is on this machine, never [`EventLoopKind::Auto`].
    ///
    /// # Errors
    /// When the kernel does not have what was asked for, with the reason and what to do.
    pub(crate) fn settle(self) -> io::Result<Self> {
        match self {
            Self::Auto => {
                let io_uring = match uring::probe() {
                    Ok(()) => "this kernel has it, too".to_owned(),
                    Err(refused) => refused.to_string(),
                };
                info!(%io_uring, "the event loop is epoll: io_uring spares system calls, but no time where many messages share one");
                Ok(Self::Epoll)
            }
            Self::IoUring => uring::probe().map(|()| self).map_err(io::Error::other),
            Self::Epoll | Self::Poll => Ok(self),
        }
    }
}

/// What to wait for.
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

/// What a descriptor is ready for. Errors and hang-ups count as both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// It has an error, or something in its error queue.
    pub(crate) broken: bool,
}

/// An event loop: level-triggered, so that nothing is lost when a descriptor is not drained.
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

    /// The ring, where the loop is one: it carries datagrams, too.
    pub(crate) fn ring(&mut self) -> Option<&mut Uring> {
        match self {
            Self::Uring(ring) => Some(ring),
            Self::Epoll(_) | Self::Poll(_) => None,
        }
    }

    /// Readable when a wait would name something, for loops of others. `None` where there is no such descriptor: poll has
    /// none, and the kernel works for a ring only while the ring's thread waits in it.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Epoll(epoll) => Some(epoll.descriptor()),
            Self::Poll(_) | Self::Uring(_) => None,
        }
    }

    /// Watches `descriptor` until it is forgotten; `token` names it in [`EventLoop::wait`].
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

    /// Waits for something else of a descriptor that is watched.
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

    /// Watches a descriptor no longer; to be called before it is closed. No event of it appears
    /// from now on, whoever gets its number or its token.
    pub(crate) fn forget(&mut self, descriptor: BorrowedFd<'_>, _token: usize) -> io::Result<()> {
        match self {
            Self::Epoll(epoll) => epoll.forget(descriptor),
            Self::Poll(poll) => poll.forget(descriptor),
            Self::Uring(ring) => ring.forget(descriptor),
        }
    }

    /// Waits until a descriptor is ready or `timeout` has passed (rounded up to whole milliseconds
    /// where the system call counts in them), and names the ready ones. May return early with
    /// none, when a signal came.
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

    /// Lets `length` pass, whatever comes meanwhile.
    pub(crate) fn pause(&mut self, length: Duration) {
        match self {
            Self::Epoll(_) | Self::Poll(_) => std::thread::sleep(length),
            Self::Uring(ring) => ring.pause(length),
        }
    }
}

/// A timeout in milliseconds as poll(2) wants it: rounded up, so that no timer runs early.
fn milliseconds(timeout: Option<Duration>) -> i32 {
    timeout.map_or(-1, |timeout| {
        let milliseconds = timeout
            .as_secs()
            .saturating_mul(1_000)
            .saturating_add(u64::from(timeout.subsec_nanos().div_ceil(1_000_000)));
        i32::try_from(milliseconds).unwrap_or(i32::MAX)
    })
}
