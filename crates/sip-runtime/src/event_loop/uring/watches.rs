//! Readiness by a ring: which descriptors are watched, for what, and what the kernel was told.
//!
//! A request to poll ends with its first completion and is made anew at the next wait. So the
//! kernel looks at the descriptor again, and one that was not drained is ready again. A request of
//! many completions would tell of changes only.
//!
//! Every request has a generation. Whatever was asked of a descriptor before it was forgotten or
//! changed is of an earlier one, and its late completion is nobody's.

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
    /// A request is to be made with the next wait.
    Due,
    /// The same, but one that goes on after telling what is no news.
    DueForChanges,
    /// The kernel holds a request.
    Asked,
    /// What was found waits to be told.
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
    /// The kernel gives out the lowest free number, so there are few gaps.
    by_descriptor: Vec<Watch>,
    /// Descriptors of which something is due; some may be so no longer.
    due: Vec<RawFd>,
    /// Descriptors with a finding; some may have none any more.
    found: Vec<RawFd>,
    /// Requests that are to end.
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

    /// What the kernel was asked of the descriptor counts no more.
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

    /// The next request that is due, or due to end. `None` when the kernel knows everything.
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

    /// A request has told what it found, a negative error number or what the descriptor is ready
    /// for; `goes_on` when it will tell more.
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
            // The peer has ended, of which nobody wants to hear as long as nobody reads. A request
            // for one completion would find that again and again.
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

    /// Tells what was found; it will be looked for again.
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
