//! Waiting with poll(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Poll {
    descriptors: Vec<libc::pollfd>,
    tokens: Vec<usize>,
}

impl Poll {
    pub(super) fn watch(&mut self, descriptor: BorrowedFd<'_>, token: usize) {
        self.descriptors.push(libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        self.tokens.push(token);
    }

    pub(super) fn wait(
        &mut self,
        timeout: Option<Duration>,
        mut readable: impl FnMut(usize),
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
            if descriptor.revents != 0 {
                readable(*token);
            }
        }
        Ok(())
    }
}
