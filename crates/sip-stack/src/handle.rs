//! Access to the stack from other threads.

use crate::{Stack, User};
use sip_runtime::SendError;
use std::fmt;

/// A closure for the loop to run, with the program's user and the stack.
pub(crate) type Command<U> = Box<dyn FnOnce(&mut U, &mut Stack<'_>) + Send>;

/// Posts closures to the loop from any thread, and wakes it. Clones are cheap. A handle does not keep the stack running.
pub struct Handle<U>(pub(crate) sip_runtime::Handle<Command<U>>);

impl<U: User> Handle<U> {
    /// Makes the loop call `post` soon. Never blocks.
    ///
    /// # Errors
    /// Fails if the queue is full, or if the stack has ended.
    pub fn post(
        &self,
        post: impl FnOnce(&mut U, &mut Stack<'_>) + Send + 'static,
    ) -> Result<(), NotPosted> {
        self.0.send(0, Box::new(post)).map_err(|error| match error {
            SendError::Full(_) => NotPosted::Full,
            SendError::Gone(_) => NotPosted::Ended,
        })
    }
}

impl<U> Clone for Handle<U> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<U> fmt::Debug for Handle<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handle")
    }
}

/// Why a closure was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPosted {
    /// The queue is full; retry later.
    Full,
    /// The stack has ended.
    Ended,
}

impl fmt::Display for NotPosted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full => "too much waits for the stack already",
            Self::Ended => "the stack has ended",
        })
    }
}

impl std::error::Error for NotPosted {}
