//! A stack inside somebody else's loop.

use crate::running::{Handle, QuestionSink};
use crate::stats::WorkerStats;
use crate::worker::Worker;
use sip_transport::{Listener, Node};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// One worker without a thread of its own, for a program that has a loop already: it waits until [`Driver::descriptor`] is
/// readable or [`Driver::deadline`] has passed, and calls [`Driver::turn`]. From [`Bound::drive`](crate::Bound::drive).
///
/// Other threads speak to it through its [`Handle`], which makes the descriptor readable. Dropping it closes its sockets.
///
/// ```no_run
/// # fn serve<N: sip_transport::Node, Q: sip_runtime::QuestionSink<N::Question>>(
/// #     mut driver: sip_runtime::Driver<N, Q>,
/// #     wait: impl Fn(std::os::fd::BorrowedFd<'_>, Option<std::time::Duration>),
/// # ) {
/// loop {
///     driver.turn();
///     wait(driver.descriptor(), driver.deadline());
/// }
/// # }
/// ```
pub struct Driver<N: Node, Q> {
    worker: Worker<N, Q>,
    descriptor: OwnedFd,
    handle: Handle<N::Answer>,
    stats: Arc<WorkerStats>,
    listeners: Vec<Listener>,
}

impl<N: Node, Q: QuestionSink<N::Question>> Driver<N, Q> {
    /// Fails where the event loop has no descriptor.
    pub(crate) fn new(
        worker: Worker<N, Q>,
        handle: Handle<N::Answer>,
        stats: Arc<WorkerStats>,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let Some(descriptor) = worker.descriptor() else {
            let reason = "only epoll has a descriptor that another loop can wait for: take epoll";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        };
        let descriptor = descriptor.try_clone_to_owned()?;
        Ok(Self {
            worker,
            descriptor,
            handle,
            stats,
            listeners,
        })
    }

    /// Does what there is to do, for some milliseconds at most, and never waits. To be called once before the first wait, and
    /// whenever the descriptor is readable or the deadline has passed; at other times it does no harm.
    pub fn turn(&mut self) {
        self.worker.turn();
    }

    /// The descriptor to wait for until it is readable. The same for the life of the driver.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// How long to wait for the descriptor at most; `None`: for ever. Counts from now.
    pub fn deadline(&self) -> Option<Duration> {
        self.worker.until_turn()
    }

    /// Speaks to the node from anywhere.
    pub fn handle(&self) -> Handle<N::Answer> {
        self.handle.clone()
    }

    /// What the worker counts.
    pub fn stats(&self) -> Arc<WorkerStats> {
        Arc::clone(&self.stats)
    }

    /// The listeners with the addresses their sockets got.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }
}

impl<N: Node, Q> Drop for Driver<N, Q> {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl<N: Node, Q> fmt::Debug for Driver<N, Q> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
