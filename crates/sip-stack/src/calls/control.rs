//! What a program can do with calls and registrations.

use super::event::{CallEnd, CallNumber, Session};
use super::invitation::{Invitation, NotSent};
use super::table::Calls;
use crate::Stack;
use std::fmt;
use std::time::Duration;

/// The calls of a [`UserAgent`](crate::UserAgent), for the duration of one call of the program.
pub struct CallControl<'c, 's> {
    pub(crate) calls: &'c mut Calls,
    pub(crate) stack: &'c mut Stack<'s>,
}

impl<'s> CallControl<'_, 's> {
    /// Makes a call. Its events follow.
    ///
    /// # Errors
    /// The call does not exist then, and has no events.
    pub fn invite(&mut self, invitation: Invitation) -> Result<CallNumber, NotSent> {
        self.calls.invite(self.stack, invitation)
    }

    /// Sends 180 for an incoming call, or another provisional response (101 to 199), with a session description for early media. Returns
    /// whether the call still waits for an answer.
    pub fn ring(&mut self, call: CallNumber, status: u16, session: &Session) -> bool {
        self.calls.ring(self.stack, call, status, session)
    }

    /// Accepts an incoming call with 200 and this session description. Returns false if it no longer waits for an answer.
    pub fn accept(&mut self, call: CallNumber, session: impl Into<Session>) -> bool {
        self.calls.accept(self.stack, call, session.into())
    }

    /// Rejects an incoming call with a status from 300 to 699. Returns false if it no longer waits for an answer.
    pub fn reject(&mut self, call: CallNumber, status: u16) -> bool {
        self.calls.reject(self.stack, call, status, CallEnd::ByUs)
    }

    /// Ends a call in any state: with CANCEL, 480 or BYE. [`CallEvent::Ended`](crate::CallEvent::Ended) follows. A call that is over, or that
    /// does not exist, is left alone.
    pub fn hang_up(&mut self, call: CallNumber) {
        self.calls.hang_up(self.stack, call);
    }

    /// Ends all calls and registrations.
    pub fn leave(&mut self) {
        for call in self.calls.by_number.keys().copied().collect::<Vec<_>>() {
            self.calls.hang_up(self.stack, call);
        }
        for number in self.calls.registrations.keys().copied().collect::<Vec<_>>() {
            self.calls.unregister(self.stack, number);
        }
    }

    /// Registers our contact for the address of record, for this time at most, and refreshes it until [`CallControl::unregister`].
    ///
    /// # Errors
    /// There is no way to the registrar, or there are too many registrations.
    pub fn register(&mut self, expires: Duration) -> Result<CallNumber, NotSent> {
        self.calls.register(self.stack, expires)
    }

    /// Removes our contact from the registrar. [`RegistrationEvent::Ended`](crate::RegistrationEvent::Ended) follows.
    pub fn unregister(&mut self, registration: CallNumber) {
        self.calls.unregister(self.stack, registration);
    }

    /// The number of calls, including those that ended less than 64*T1 ago.
    pub fn calls(&self) -> usize {
        self.calls.by_number.len()
    }

    /// Whether this registration exists.
    pub fn is_registration(&self, registration: CallNumber) -> bool {
        self.calls.registrations.contains_key(&registration)
    }

    /// Whether all calls are over, and no registration exists.
    pub fn is_idle(&self) -> bool {
        self.calls.is_idle()
    }

    /// The stack below.
    pub const fn stack(&mut self) -> &mut Stack<'s> {
        self.stack
    }
}

impl fmt::Debug for CallControl<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.fmt(f)
    }
}
