//! The signals of a program without calls of its own: SIGTERM and SIGINT end it, SIGHUP reloads its configuration.
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals.
pub(crate) struct Termination {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Termination {
    pub(crate) fn open() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT, and calls `reload` at each SIGHUP.
    pub(crate) async fn until_end(&mut self, mut reload: impl FnMut()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload(),
            }
        }
    }
}
