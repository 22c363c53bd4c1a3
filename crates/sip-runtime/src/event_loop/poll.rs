//! Waiting with poll(2).

use super::{Interest, Ready};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Poll {
    descriptors: Vec<libc::pollfd>,
    tokens: Vec<usize>,
}

impl Poll {
    pub(super) fn watch(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        if self.place(descriptor).is_some() {
            return Err(Errno::EXIST.into());
        }
        self.descriptors.push(libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: events(interest),
            revents: 0,
        });
        self.tokens.push(token);
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        descriptor: BorrowedFd<'_>,
        token: usize,
        interest: Interest,
    ) -> io::Result<()> {
        let place = self.place(descriptor).ok_or(Errno::NOENT)?;
        if let Some(watched) = self.descriptors.get_mut(place) {
            watched.events = events(interest);
        }
        if let Some(named) = self.tokens.get_mut(place) {
            *named = token;
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let place = self.place(descriptor).ok_or(Errno::NOENT)?;
        self.descriptors.swap_remove(place);
        self.tokens.swap_remove(place);
        Ok(())
    }

    fn place(&self, descriptor: BorrowedFd<'_>) -> Option<usize> {
        let descriptor = descriptor.as_raw_fd();
        self.descriptors
            .iter()
            .position(|watched| watched.fd == descriptor)
    }

    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(Ready),
    ) -> io::Result<()> {
        let count = self.descriptors.len() as libc::nfds_t;
        let timeout = super::milliseconds(timeout);
        #[expect(
            unsafe_code,
            reason = "rustix's poll borrows the descriptors for the life of the list, which is kept here between calls"
        )]
        // SAFETY: pointer and count describe one live, exclusively borrowed vector.
        let result = unsafe { libc::poll(self.descriptors.as_mut_ptr(), count, timeout) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted {
                Ok(())
            } else {
                Err(error)
            };
        }
        for (descriptor, token) in self.descriptors.iter().zip(&self.tokens) {
            let found = descriptor.revents;
            if found != 0 {
                let is_broken = found & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0;
                ready(Ready {
                    token: *token,
                    broken: is_broken,
                    readable: is_broken || found & libc::POLLIN != 0,
                    writable: is_broken || found & libc::POLLOUT != 0,
                });
            }
        }
        Ok(())
    }
}

fn events(interest: Interest) -> libc::c_short {
    let mut events = 0;
    if interest.readable {
        events |= libc::POLLIN;
    }
    if interest.writable {
        events |= libc::POLLOUT;
    }
    events
}
