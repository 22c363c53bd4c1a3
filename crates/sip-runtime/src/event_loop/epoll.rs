//! Waiting with epoll(7).

use super::{Interest, Ready};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Events taken from the kernel per call. The next wait returns the rest.
const EVENTS: usize = 64;

pub(crate) struct Epoll {
    descriptor: OwnedFd,
}

impl Epoll {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            descriptor: epoll::create(CreateFlags::CLOEXEC)?,
        })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub(super) fn watch(
        &self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token as u64);
        Ok(epoll::add(
            &self.descriptor,
            descriptor,
            data,
            flags(interest),
        )?)
    }

    pub(super) fn change(
        &self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token as u64);
        Ok(epoll::modify(
            &self.descriptor,
            descriptor,
            data,
            flags(interest),
        )?)
    }

    pub(super) fn forget(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::delete(&self.descriptor, descriptor)?)
    }

    pub(super) fn wait(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        let timeout = timeout.map(|_| {
            let milliseconds = i64::from(super::milliseconds(timeout));
            Timespec {
                tv_sec: milliseconds / 1_000,
                tv_nsec: milliseconds % 1_000 * 1_000_000,
            }
        });
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.descriptor, &mut events, timeout.as_ref()) {
            Ok((events, _)) => {
                for event in events {
                    let found = event.flags;
                    let is_broken = found.intersects(EventFlags::ERR | EventFlags::HUP);
                    ready(Ready {
                        token: event.data.u64() as usize,
                        broken: is_broken,
                        readable: is_broken || found.contains(EventFlags::IN),
                        writable: is_broken || found.contains(EventFlags::OUT),
                    });
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn flags(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.readable);
    flags.set(EventFlags::OUT, interest.writable);
    flags
}
