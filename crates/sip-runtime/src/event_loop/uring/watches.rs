//! Readiness with a ring: which descriptors are watched, for which events, and which requests the
//! kernel holds.
//!
//! A poll request ends with its first completion, and the next wait submits a new one. So the
//! kernel checks the descriptor again, and one that was not drained is ready again. A multishot
//! request would report changes only.
//!
//! Every request has a generation. Forgetting or changing a descriptor starts a new generation, and
//! late completions of earlier ones are ignored.

use super::operation::{GENERATIONS, Operation};
use crate::event_loop::{Interest, Ready};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

const BROKEN: u32 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as u32;
const READABLE: u32 = libc::POLLIN as u32;
const WRITABLE: u32 = libc::POLLOUT as u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unwatched,
    /// The next wait submits a request.
    Due,
    /// The same, but a multishot request.
    DueForChanges,
    /// The kernel holds a request.
    Asked,
    /// Events were found and wait to be reported.
    Found(u32),
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    token: usize,
    interest: Interest,
    generation: u32,
    state: State,
}

const NO_WATCH: Watch = Watch {
    token: 0,
    interest: Interest::READABLE,
    generation: 0,
    state: State::Unwatched,
};

#[derive(Default)]
pub(super) struct Watches {
    /// Indexed by descriptor. The kernel assigns the lowest free number, so there are few gaps.
    by_descriptor: Vec<Watch>,
    /// Descriptors that need a request; some entries may be stale.
    due: Vec<RawFd>,
    /// Descriptors with events to report; some entries may be stale.
    found: Vec<RawFd>,
    /// Requests to cancel.
    ending: Vec<Operation>,
}

impl Watches {
    pub(super) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let descriptor = descriptor.as_raw_fd();
        let place = usize::try_from(descriptor).map_err(|_| Errno::BADF)?;
        if self.by_descriptor.len() <= place {
            self.by_descriptor.resize(place + 1, NO_WATCH);
        }
        let watch = self.by_descriptor.get_mut(place).ok_or(Errno::BADF)?;
        if watch.state != State::Unwatched {
            return Err(Errno::EXIST.into());
        }
        (watch.token, watch.interest) = (token, interest);
        watch.state = State::Due;
        self.due.push(descriptor);
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        self.end_request(descriptor)?;
        let watch = self.watched(descriptor)?;
        (watch.token, watch.interest) = (token, interest);
        watch.state = State::Due;
        self.due.push(descriptor.as_raw_fd());
        Ok(())
    }

    pub(super) fn forget(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.end_request(descriptor)?;
        self.watched(descriptor)?.state = State::Unwatched;
        Ok(())
    }

    fn watched(&mut self, descriptor: BorrowedFd<'_>) -> Result<&mut Watch, Errno> {
        usize::try_from(descriptor.as_raw_fd())
            .ok()
            .and_then(|place| self.by_descriptor.get_mut(place))
            .filter(|watch| watch.state != State::Unwatched)
            .ok_or(Errno::NOENT)
    }

    /// Cancels the request for the descriptor, if the kernel holds one.
    fn end_request(&mut self, descriptor: BorrowedFd<'_>) -> Result<(), Errno> {
        let watch = self.watched(descriptor)?;
        let request = watch.request(descriptor.as_raw_fd());
        let is_asked = watch.state == State::Asked;
        watch.begin_generation();
        if is_asked {
            self.ending.push(request);
        }
        Ok(())
    }

    /// The next request to submit or to cancel. `None` if the kernel holds all of them.
    pub(super) fn next_request(&mut self) -> Option<squeue::Entry> {
        if let Some(request) = self.ending.pop() {
            let entry = opcode::PollRemove::new(request.into()).build();
            return Some(entry.user_data(Operation::Ignored.into()));
        }
        while let Some(descriptor) = self.due.pop() {
            let Some(watch) = self.by_descriptor.get_mut(place(descriptor)) else {
                continue;
            };
            let goes_on = match watch.state {
                State::Due => false,
                State::DueForChanges => true,
                State::Unwatched | State::Asked | State::Found(_) => continue,
            };
            watch.state = State::Asked;
            let entry = opcode::PollAdd::new(Fd(descriptor), watch.events())
                .multi(goes_on)
                .build();
            return Some(entry.user_data(watch.request(descriptor).into()));
        }
        None
    }

    /// Handles the completion of a request. `result` is a negative error number or the events that
    /// were found; `goes_on` means that more completions follow.
    pub(super) fn complete(
        &mut self,
        descriptor: RawFd,
        generation: u32,
        result: i32,
        goes_on: bool,
    ) {
        let Some(watch) = self.by_descriptor.get_mut(place(descriptor)) else {
            return;
        };
        if watch.generation != generation || watch.state != State::Asked {
            return;
        }
        let found = u32::try_from(result).unwrap_or(BROKEN);
        if found & (watch.events() | BROKEN) == 0 {
            // The peer has closed its side, but nothing is being read from this connection. A
            // single-shot request would report that again and again.
            if !goes_on {
                watch.state = State::DueForChanges;
                self.due.push(descriptor);
            }
            return;
        }
        if goes_on {
            self.ending.push(watch.request(descriptor));
            watch.begin_generation();
        }
        watch.state = State::Found(found);
        self.found.push(descriptor);
    }

    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Reports what was found. The descriptors are polled again afterwards.
    pub(super) fn tell(&mut self, mut ready: impl FnMut(Ready)) {
        for descriptor in self.found.drain(..) {
            let Some(watch) = self.by_descriptor.get_mut(place(descriptor)) else {
                continue;
            };
            let State::Found(found) = watch.state else {
                continue;
            };
            watch.state = State::Due;
            self.due.push(descriptor);
            let is_broken = found & BROKEN != 0;
            ready(Ready {
                token: watch.token,
                broken: is_broken,
                readable: is_broken || watch.interest.readable && found & READABLE != 0,
                writable: is_broken || watch.interest.writable && found & WRITABLE != 0,
            });
        }
    }
}

impl Watch {
    fn request(&self, descriptor: RawFd) -> Operation {
        Operation::Poll {
            descriptor,
            generation: self.generation,
        }
    }

    fn begin_generation(&mut self) {
        self.generation = (self.generation + 1) % GENERATIONS;
    }

    fn events(&self) -> u32 {
        let readable = if self.interest.readable { READABLE } else { 0 };
        let writable = if self.interest.writable { WRITABLE } else { 0 };
        readable | writable
    }
}

fn place(descriptor: RawFd) -> usize {
    usize::try_from(descriptor).unwrap_or(usize::MAX)
}
