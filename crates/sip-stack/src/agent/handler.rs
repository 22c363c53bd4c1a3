//! The handler in the loop: passes events on to the states that the program waits for.

use super::Waiting;
use super::call::CallState;
use super::registration::RegistrationState;
use super::watched::Watched;
use crate::calls::{CallControl, CallEvent, CallHandler, CallNumber, RegistrationEvent};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// What the loop knows of the program. All of it belongs to live calls and registrations.
pub(super) struct Handler {
    calls: HashMap<CallNumber, Arc<Watched<CallState>>>,
    registrations: HashMap<CallNumber, Arc<Watched<RegistrationState>>>,
    incoming: SyncSender<Waiting>,
    /// Told once nothing is left, after the program has dropped everything.
    idle: Option<SyncSender<()>>,
}

impl Handler {
    pub(super) fn new(incoming: SyncSender<Waiting>) -> Self {
        Self {
            calls: HashMap::new(),
            registrations: HashMap::new(),
            incoming,
            idle: None,
        }
    }

    pub(super) fn watch(&mut self, number: CallNumber, state: Arc<Watched<CallState>>) {
        self.calls.insert(number, state);
    }

    pub(super) fn watch_registration(
        &mut self,
        number: CallNumber,
        state: Arc<Watched<RegistrationState>>,
    ) {
        self.registrations.insert(number, state);
    }

    /// Reports to `idle` once all calls and registrations have ended.
    pub(super) fn leaves(&mut self, idle: SyncSender<()>, calls: &CallControl<'_, '_>) {
        self.idle = Some(idle);
        self.report_idle(calls);
    }

    fn report_idle(&self, calls: &CallControl<'_, '_>) {
        if let Some(idle) = &self.idle
            && calls.is_idle()
        {
            // One report is enough.
            let _ = idle.try_send(());
        }
    }
}

impl CallHandler for Handler {
    fn call(&mut self, calls: &mut CallControl<'_, '_>, number: CallNumber, event: CallEvent) {
        if let CallEvent::Incoming(invite) = event {
            let state = Arc::new(Watched::new(CallState::incoming(&invite)));
            let waiting = Waiting {
                number,
                state: Arc::clone(&state),
                invite,
            };
            if self.idle.is_none() && self.incoming.try_send(waiting).is_ok() {
                self.watch(number, state);
            } else {
                calls.reject(number, 486);
            }
            return;
        }
        let is_over = matches!(event, CallEvent::Ended(_));
        if let Some(state) = self.calls.get(&number) {
            state.change(|state| state.apply(event));
        }
        if is_over {
            self.calls.remove(&number);
            self.report_idle(calls);
        }
    }

    fn registration(
        &mut self,
        calls: &mut CallControl<'_, '_>,
        number: CallNumber,
        event: RegistrationEvent,
    ) {
        let is_over = matches!(event, RegistrationEvent::Ended);
        if let Some(state) = self.registrations.get(&number) {
            state.change(|state| state.apply(event));
        }
        if is_over || !calls.is_registration(number) {
            self.registrations.remove(&number);
            self.report_idle(calls);
        }
    }
}
