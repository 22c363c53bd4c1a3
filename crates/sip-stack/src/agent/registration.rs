//! A registration as a value: it lasts until it is dropped.

use super::watched::Watched;
use super::{Agent, CallError};
use crate::calls::{CallNumber, NotSent, RegistrationEvent};
use std::sync::Arc;
use std::time::Duration;

/// The lifetime that the agent asks for.
const LIFETIME: Duration = Duration::from_secs(3_600);

/// What has happened to a registration.
#[derive(Debug, Default)]
pub(super) struct RegistrationState {
    number: Option<CallNumber>,
    not_sent: Option<NotSent>,
    /// The lifetime of the binding; `None` while the agent is not registered.
    granted: Option<Duration>,
    /// The last failure, if nothing has succeeded since.
    failure: Option<CallError>,
    has_ended: bool,
}

impl RegistrationState {
    pub(super) fn apply(&mut self, event: RegistrationEvent) {
        match event {
            RegistrationEvent::Registered(lifetime) => {
                (self.granted, self.failure) = (Some(lifetime), None);
            }
            RegistrationEvent::Failed(response) => {
                let failure = CallError::NotRegistered(response);
                (self.granted, self.failure) = (None, Some(failure));
            }
            RegistrationEvent::Ended => (self.granted, self.has_ended) = (None, true),
        }
    }
}

/// A registration. The agent refreshes it in time, and retries after a failure. Dropping it removes the binding.
#[derive(Debug)]
pub struct Registration {
    agent: Agent,
    number: CallNumber,
    state: Arc<Watched<RegistrationState>>,
}

impl Registration {
    pub(super) fn start(agent: &Agent) -> Result<Self, CallError> {
        let state = Arc::new(Watched::new(RegistrationState::default()));
        let theirs = Arc::clone(&state);
        let posted = agent.post(move |handler, calls| match calls.register(LIFETIME) {
            Ok(number) => {
                handler.watch_registration(number, Arc::clone(&theirs));
                theirs.change(|state| state.number = Some(number));
            }
            Err(error) => theirs.change(|state| state.not_sent = Some(error)),
        });
        if !posted {
            return Err(CallError::Stopped);
        }
        let registered = state.wait(|state| {
            let not_sent = state.not_sent.map(|why| Err(CallError::NotSent(why)));
            let failure = state.failure.clone().map(Err);
            let granted = state.granted.and(state.number).map(Ok);
            not_sent.or(failure).or(granted)
        });
        let number = state.read(|state| state.number);
        match (registered, number) {
            (Ok(number), _) => Ok(Self {
                agent: agent.clone(),
                number,
                state,
            }),
            (Err(error), Some(number)) => {
                // The program does not wait for the next attempt.
                agent.post(move |_, calls| calls.unregister(number));
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The lifetime of the binding when it was last refreshed; `None` after a failure.
    pub fn lifetime(&self) -> Option<Duration> {
        self.state.read(|state| state.granted)
    }

    /// Removes the binding, and waits for the response of the registrar.
    ///
    /// # Errors
    /// The stack has stopped.
    pub fn end(self) -> Result<(), CallError> {
        if !self.post_end() {
            return Err(CallError::Stopped);
        }
        self.state.wait(|state| state.has_ended.then_some(()));
        Ok(())
    }

    fn post_end(&self) -> bool {
        let number = self.number;
        self.agent.post(move |_, calls| calls.unregister(number))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.state.read(|state| state.has_ended) {
            self.post_end();
        }
    }
}
