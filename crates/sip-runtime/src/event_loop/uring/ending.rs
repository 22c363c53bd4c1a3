//! Shuts a ring down. All its requests must have completed before the memory they write to is freed and the sockets are closed.

use super::Uring;
use io_uring::types::CancelBuilder;
use rustix::io::Errno;
use std::time::Duration;
use tracing::error;

/// How long the kernel may take to complete all requests.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often to ask the kernel for completions. It writes about twenty at a time, and there is one request per listener.
const LOOKS: usize = 1 << 14;

impl Uring {
    /// Sends what is still queued and cancels all other requests. Returns false if the kernel does not complete some of them.
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
        // Each canceled request ends with a completion, which the kernel writes when asked for it.
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
            error!(%error, "the ring did not release its sockets");
        }
        if !is_free {
            error!("the ring did not end: its buffers are leaked");
            std::mem::forget(datagrams);
        }
    }
}
