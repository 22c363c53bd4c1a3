//! Ctrl-C and SIGTERM: the first one ends what is measured in order, the second one ends the process.

use std::io;
use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit status of a process that a second signal ended, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether the user wants an end. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_raised: Mutex<bool>,
    raised: Condvar,
}

impl Interrupt {
    /// One that SIGINT and SIGTERM raise from now on.
    ///
    /// # Errors
    /// Signals cannot be received.
    pub fn on_signals() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _context = runtime.enter();
            Signals::open()?
        };
        let interrupt = Self::default();
        let raised = interrupt.clone();
        let wait = move || {
            runtime.block_on(async {
                signals.next().await;
                eprintln!("ending: phones deregister; a second signal ends at once");
                raised.raise();
                signals.next().await;
                process::exit(INTERRUPTED);
            });
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(interrupt)
    }

    /// Raises it.
    pub(crate) fn raise(&self) {
        *self
            .0
            .is_raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.0.raised.notify_all();
    }

    /// Whether it was raised.
    pub(crate) fn is_raised(&self) -> bool {
        *self
            .0
            .is_raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until then, or until it is raised. Whether it was.
    pub(crate) fn sleep_until(&self, at: Instant) -> bool {
        let raised = self
            .0
            .is_raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let left = at.saturating_duration_since(Instant::now());
        let waited = self
            .0
            .raised
            .wait_timeout_while(raised, left, |raised| !*raised);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The two signals that ask for an end.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleep_ends_when_it_is_raised_or_when_its_time_has_come() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.sleep_until(Instant::now() + Duration::from_millis(10)));
        let other = interrupt.clone();
        let raising = thread::spawn(move || other.raise());
        assert!(interrupt.sleep_until(Instant::now() + Duration::from_secs(3_600)));
        raising.join().unwrap();
        assert!(interrupt.is_raised());
    }
}
