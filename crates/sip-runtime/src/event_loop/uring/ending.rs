//! The end of a ring: whatever it was asked for must have ended before the memory it writes to is freed and its sockets are
//! closed.

use super::Uring;
use io_uring::types::CancelBuilder;
use rustix::io::Errno;
use std::time::Duration;
use tracing::error;

/// How long the kernel may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the kernel is asked for completions: it writes some twenty at a time, and there is a request for each listener.
const LOOKS: usize = 1 << 14;

impl Uring {
    /// Sends what is to be sent still, and ends all other requests. False when the kernel does not let go of some.
    fn end_requests(&mut self) -> bool {
        if !self.is_started {
            return true;
        }
        self.flush();
        let everything = CancelBuilder::any().all();
        let result = self
            .ring
            .submitter()
            .register_sync_cancel(Some(PATIENCE.into()), everything);
        if let Err(error) = result
            && Errno::from_io_error(&error) != Some(Errno::NOENT)
        {
            return false;
        }
        // Each ends with a completion, which the kernel writes when it is asked for it.
        for _ in 0..LOOKS {
            if self.look().is_err() {
                return false;
            }
            if self.datagrams.as_ref().is_none_or(|it| it.is_idle()) {
                return true;
            }
        }
        false
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let is_free = self.end_requests();
        let Some(datagrams) = self.datagrams.take() else {
            return;
        };
        if let Err(error) = datagrams.unregister(&self.ring.submitter()) {
            error!(%error, "the ring does not let go of its sockets");
        }
        if !is_free {
            error!("the ring does not end: its buffers are not given back");
            std::mem::forget(datagrams);
        }
    }
}
