//! Ctrl-C and SIGTERM: the first signal ends a measurement gracefully, the second one ends the process.

use std::io;
use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit status after a second signal, as shells use it for SIGINT.
const INTERRUPTED: i32 = 130;

/// Whether the user has asked to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_raised: Mutex<bool>,
    raised: Condvar,
}

impl Interrupt {
    /// A flag that SIGINT and SIGTERM raise.
    ///
    /// # Errors
    /// Signal handlers cannot be installed.
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
                eprintln!("shutting down: deregistering phones; a second signal exits at once");
                raised.raise();
                signals.next().await;
                process::exit(INTERRUPTED);
            });
        };
        thread::Builder::new().name("signals".into()).spawn(wait)?;
        Ok(interrupt)
    }

    pub(crate) fn raise(&self) {
        *self
            .0
            .is_raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.0.raised.notify_all();
    }

    pub(crate) fn is_raised(&self) -> bool {
        *self
            .0
            .is_raised
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until this time, or until the flag is raised. Returns whether it was raised.
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

/// The two signals that ask for a shutdown.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for a signal.
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
