//! Runs a stack inside the event loop of another program.

use crate::running::{ControlPlane, Handle};
use crate::stats::WorkerStats;
use crate::worker::Worker;
use sip_transport::{Listener, Node};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// One worker without its own thread, for a program that already has an event loop. The program waits until
/// [`Driver::descriptor`] is readable or [`Driver::deadline`] has passed, then calls [`Driver::turn`]. You get one from
/// [`Bound::drive`](crate::Bound::drive).
///
/// Other threads send to it through its [`Handle`], which makes the descriptor readable. Dropping the driver closes its sockets.
///
/// ```no_run
/// # fn serve<N: sip_transport::Node, C: sip_runtime::ControlPlane<N::Question, N::Record>>(
/// #     mut driver: sip_runtime::Driver<N, C>,
/// #     wait: impl Fn(std::os::fd::BorrowedFd<'_>, Option<std::time::Duration>),
/// # ) {
/// loop {
///     driver.turn();
///     wait(driver.descriptor(), driver.deadline());
/// }
/// # }
/// ```
pub struct Driver<N: Node, C> {
    worker: Worker<N, C>,
    descriptor: OwnedFd,
    handle: Handle<N::Control>,
    stats: Arc<WorkerStats>,
    listeners: Vec<Listener>,
}

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Driver<N, C> {
    /// Fails if the event loop has no descriptor.
    pub(crate) fn new(
        worker: Worker<N, C>,
        handle: Handle<N::Control>,
        stats: Arc<WorkerStats>,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let Some(descriptor) = worker.descriptor() else {
            let reason = "only epoll has a descriptor that another loop can wait for: use epoll";
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

    /// Processes everything that is due, for a few milliseconds at most, and never blocks. Call it once before the first wait,
    /// and then each time the descriptor is readable or the deadline has passed. Extra calls do no harm.
    pub fn turn(&mut self) {
        self.worker.turn();
    }

    /// The descriptor to wait for. It stays the same for the life of the driver.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The longest time to wait for the descriptor, from now on. `None` means no limit.
    pub fn deadline(&self) -> Option<Duration> {
        self.worker.until_turn()
    }

    /// A handle that sends answers to the node, from any thread.
    pub fn handle(&self) -> Handle<N::Control> {
        self.handle.clone()
    }

    /// The counters of the worker.
    pub fn stats(&self) -> Arc<WorkerStats> {
        Arc::clone(&self.stats)
    }

    /// The listeners with the addresses that their sockets are bound to.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }
}

impl<N: Node, C> Drop for Driver<N, C> {
    fn drop(&mut self) {
        self.handle.close();
    }
}

impl<N: Node, C> fmt::Debug for Driver<N, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}
