//! Waits with `io_uring`(7). Requests are written to one ring, which the kernel reads. Completions come back in another ring,
//! which the kernel writes. One system call submits requests, does the work and waits.
//!
//! The kernel does the work only while the ring's thread is in that call (`IORING_SETUP_DEFER_TASKRUN`), so nothing interrupts
//! the worker. Whether the kernel has pending work can be seen without a system call.

mod carrying;
mod ending;
mod operation;
mod support;
mod watches;

pub(crate) use operation::Operation;
pub(super) use support::probe;

use super::{Interest, Ready};
use crate::udp::RingDatagrams;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, squeue};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tracing::error;
use watches::Watches;

/// A ring, the descriptors it watches and the datagrams it carries.
pub(crate) struct Uring {
    ring: IoUring,
    /// The thread that starts the ring is the only one that may use it afterwards.
    is_started: bool,
    watches: Watches,
    datagrams: Option<Box<RingDatagrams>>,
}

impl Uring {
    pub(super) fn open() -> io::Result<Self> {
        Self::with_room_for(support::SUBMISSIONS, support::COMPLETIONS)
    }

    /// A ring with this many submission and completion entries.
    pub(super) fn with_room_for(submissions: u32, completions: u32) -> io::Result<Self> {
        Ok(Self {
            ring: support::set_up(submissions, completions).map_err(io::Error::other)?,
            is_started: false,
            watches: Watches::default(),
            datagrams: None,
        })
    }

    pub(super) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        self.watches.watch(descriptor, token, interest)
    }

    pub(super) fn change(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        self.watches.change(descriptor, token, interest)
    }

    /// The kernel releases the descriptor with the next wait.
    pub(super) fn forget(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.watches.forget(descriptor)
    }

    /// Reports what is ready; waits if nothing is.
    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        self.prepare()?;
        if timeout == Some(Duration::ZERO) || self.has_events() {
            self.look()?;
        } else {
            self.sleep(timeout)?;
        }
        self.watches.tell(&mut ready);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.tell_arrived(|listener| {
                ready(Ready {
                    token: usize::from(listener),
                    readable: true,
                    writable: false,
                    broken: false,
                });
            });
        }
        Ok(())
    }

    fn sleep(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let end = timeout.map(|timeout| (Instant::now(), timeout));
        let mut remaining = timeout;
        loop {
            // All queued sends have completed by the time the kernel begins to wait.
            let sends = self.datagrams.as_ref().map_or(0, |it| it.in_flight());
            let is_interrupted = self.enter(sends + 1, remaining)? == Entered::Interrupted;
            self.take_completions();
            if self.has_events() || is_interrupted {
                return Ok(());
            }
            // The completions bring no event: for example, the end of a request for a forgotten descriptor.
            if let Some((begun, timeout)) = end {
                let left = timeout.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    return Ok(());
                }
                remaining = Some(left);
            }
            self.prepare()?;
        }
    }

    /// Submits, then sleeps for `length`. Arriving datagrams do not end the sleep.
    pub(super) fn pause(&mut self, length: Duration) {
        let all = i32::MAX as usize;
        let result = self
            .prepare()
            .and_then(|()| self.enter(all, Some(length)).map(drop));
        if let Err(error) = result {
            error!(%error, "the ring failed");
        }
        self.take_completions();
    }

    /// Whether there are events to report.
    fn has_events(&self) -> bool {
        self.watches.has_found() || self.datagrams.as_ref().is_some_and(|it| it.has_events())
    }

    /// Queues every request that is due.
    fn prepare(&mut self) -> io::Result<()> {
        if !self.is_started {
            self.ring.submitter().register_enable_rings()?;
            self.is_started = true;
        }
        while let Some(request) = self.watches.next_request() {
            self.push(&request)?;
        }
        while let Some(request) = self.datagrams.as_mut().and_then(|it| it.next_request()) {
            self.push(&request)?;
        }
        Ok(())
    }

    fn push(&mut self, request: &squeue::Entry) -> io::Result<()> {
        while !self.try_push(request) {
            self.enter(0, None)?;
            self.take_completions();
        }
        Ok(())
    }

    fn try_push(&mut self, request: &squeue::Entry) -> bool {
        #[expect(unsafe_code, reason = "the kernel reads what the request points to")]
        // SAFETY: poll requests hold no pointers. Datagram requests point into `datagrams`, whose memory does not move and is not
        // touched until they have completed. It is freed after the kernel has released the ring (see `ending`).
        let result = unsafe { self.ring.submission().push(request) };
        result.is_ok()
    }

    /// Submits and collects completions without waiting. It makes no system call if there is nothing to submit or collect.
    fn look(&mut self) -> io::Result<()> {
        // Two rounds: submitted requests may complete at once.
        for _ in 0..2 {
            let queue = self.ring.submission();
            if queue.is_empty() && !queue.taskrun() && !queue.cq_overflow() {
                break;
            }
            drop(queue);
            self.enter(0, None)?;
        }
        self.take_completions();
        Ok(())
    }

    /// The system call: submits, then waits for at most `completions` completions and at most `timeout`.
    fn enter(&mut self, completions: usize, timeout: Option<Duration>) -> io::Result<Entered> {
        let time = timeout.map(Timespec::from).unwrap_or_default();
        let mut arguments = SubmitArgs::new();
        if timeout.is_some() {
            arguments = arguments.timespec(&time);
        }
        let submitter = self.ring.submitter();
        match submitter.submit_with_args(completions, &arguments) {
            Ok(_) => Ok(Entered::Done),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::INTR) => Ok(Entered::Interrupted),
                // The timeout has passed, or completions must be collected first.
                Some(Errno::TIME | Errno::BUSY | Errno::AGAIN) => Ok(Entered::Done),
                _ => Err(error),
            },
        }
    }

    fn take_completions(&mut self) {
        let Self {
            ring,
            watches,
            datagrams,
            ..
        } = self;
        for completion in ring.completion() {
            let result = completion.result();
            let goes_on = cqueue::more(completion.flags());
            match Operation::from(completion.user_data()) {
                Operation::Ignored => {}
                Operation::Poll {
                    descriptor,
                    generation,
                } => watches.complete(descriptor, generation, result, goes_on),
                Operation::Receive { listener } => {
                    if let Some(datagrams) = datagrams {
                        let buffer = cqueue::buffer_select(completion.flags());
                        datagrams.complete_receive(listener, result, buffer, goes_on);
                    }
                }
                Operation::Send { slot } => {
                    if let Some(datagrams) = datagrams {
                        datagrams.complete_send(slot, result);
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Done,
    Interrupted,
}
