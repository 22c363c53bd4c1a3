//! Waiting with epoll(7).

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Readable descriptors taken out of the kernel at once; what does not fit comes with the next wait.
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

    pub(super) fn watch(&self, descriptor: BorrowedFd<'_>, token: usize) -> io::Result<()> {
        let data = EventData::new_u64(token as u64);
        Ok(epoll::add(
            &self.descriptor,
            descriptor,
            data,
            EventFlags::IN,
        )?)
    }

    pub(super) fn wait(
        &self,
        timeout: Option<Duration>,
        mut readable: impl FnMut(usize),
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
                    readable(event.data.u64() as usize);
                }
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
