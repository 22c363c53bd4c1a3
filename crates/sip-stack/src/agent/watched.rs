//! A state that the loop changes and that other threads wait for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A state, and the threads that wait for its changes. The lock is held for moments only, so the loop does not wait for the program.
#[derive(Debug, Default)]
pub(super) struct Watched<T> {
    state: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(super) const fn new(state: T) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        // A state is assigned field by field: it is valid at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    pub(super) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock())
    }

    /// Waits until `read` finds something.
    pub(super) fn wait<R>(&self, read: impl Fn(&T) -> Option<R>) -> R {
        let mut state = self.lock();
        loop {
            if let Some(found) = read(&state) {
                return found;
            }
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until `read` finds something, at most for this time.
    pub(super) fn wait_for<R>(
        &self,
        within: Duration,
        read: impl Fn(&T) -> Option<R>,
    ) -> Option<R> {
        let began = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(found) = read(&state) {
                return Some(found);
            }
            let left = within.checked_sub(began.elapsed())?;
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
