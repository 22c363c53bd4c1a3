//! Waiting with poll(2).

use super::{Interest, Ready};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Poll {
    descriptors: Vec<libc::pollfd>,
    tokens: Vec<usize>,
    /// Where in the lists each token stands.
    places: HashMap<usize, usize>,
}

impl Poll {
    pub(super) fn watch(&mut self, descriptor: BorrowedFd<'_>, token: usize, interest: Interest) {
        self.places.insert(token, self.tokens.len());
        self.descriptors.push(libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: events(interest),
            revents: 0,
        });
        self.tokens.push(token);
    }

    pub(super) fn change(&mut self, token: usize, interest: Interest) {
        if let Some(place) = self.places.get(&token)
            && let Some(descriptor) = self.descriptors.get_mut(*place)
        {
            descriptor.events = events(interest);
        }
    }

    pub(super) fn forget(&mut self, token: usize) {
        let Some(place) = self.places.remove(&token) else {
            return;
        };
        self.descriptors.swap_remove(place);
        self.tokens.swap_remove(place);
        if let Some(moved) = self.tokens.get(place) {
            self.places.insert(*moved, place);
        }
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
        let mut left = result;
        for (descriptor, token) in self.descriptors.iter().zip(&self.tokens) {
            if left == 0 {
                break;
            }
            if descriptor.revents != 0 {
                left -= 1;
                // A hang-up is told even where nothing is waited for.
                let broken = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
                ready(Ready {
                    token: *token,
                    readable: descriptor.revents & (libc::POLLIN | broken) != 0,
                    writable: descriptor.revents & (libc::POLLOUT | broken) != 0,
                });
            }
        }
        Ok(())
    }
}

const fn events(interest: Interest) -> libc::c_short {
    let readable = if interest.readable { libc::POLLIN } else { 0 };
    let writable = if interest.writable { libc::POLLOUT } else { 0 };
    readable | writable
}
