//! All calls of a user agent: found by number and by dialog, ended, and woken by their timers.

use super::call::{Call, Stage};
use super::event::{CallEnd, CallEvent, CallNumber, RegistrationEvent};
use super::registration::Registration;
use super::route::{Waiting, Work};
use super::settings::AgentSettings;
use crate::Stack;
use sip_transaction::{ClientId, ServerId};
use sip_transport::selection::Destination;
use std::collections::{HashMap, VecDeque};
use std::fmt;

/// The most calls with one Call-ID. There are two if a user agent calls itself.
const PER_CALL_ID: usize = 4;

/// Asks the resolver: ticket, destination, seed.
pub(crate) type Ask = Box<dyn FnMut(u64, Destination, u64) + Send>;

/// What the program learns next.
#[derive(Debug)]
pub(crate) enum Event {
    Call(CallNumber, CallEvent),
    Registration(CallNumber, RegistrationEvent),
}

/// The calls and registrations of a user agent.
pub(crate) struct Calls {
    pub(crate) settings: AgentSettings,
    pub(crate) by_number: HashMap<CallNumber, Call>,
    by_call_id: HashMap<Box<[u8]>, Vec<CallNumber>>,
    pub(crate) registrations: HashMap<CallNumber, Registration>,
    /// Requests that wait for a response.
    pub(crate) clients: HashMap<ClientId, Work>,
    /// INVITEs of peers that have no final response yet.
    pub(crate) invites: HashMap<ServerId, CallNumber>,
    pub(crate) lookups: HashMap<u64, Waiting>,
    pub(crate) ask: Option<Ask>,
    pub(crate) events: VecDeque<Event>,
    last_number: u64,
    pub(crate) last_ticket: u64,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("calls", &self.by_number.len())
            .field("registrations", &self.registrations.len())
            .finish_non_exhaustive()
    }
}

impl Calls {
    pub(crate) fn new(settings: AgentSettings) -> Self {
        Self {
            settings,
            by_number: HashMap::new(),
            by_call_id: HashMap::new(),
            registrations: HashMap::new(),
            clients: HashMap::new(),
            invites: HashMap::new(),
            lookups: HashMap::new(),
            ask: None,
            events: VecDeque::new(),
            last_number: 0,
            last_ticket: 0,
        }
    }

    /// A number for a call or a registration.
    pub(crate) const fn next_number(&mut self) -> CallNumber {
        self.last_number += 1;
        CallNumber(self.last_number)
    }

    /// Whether there is room for another call with this Call-ID.
    pub(crate) fn has_room(&self, call_id: &[u8]) -> bool {
        let same = self.by_call_id.get(call_id).map_or(0, Vec::len);
        self.by_number.len() < self.settings.bounds.calls && same < PER_CALL_ID
    }

    pub(crate) fn insert(&mut self, call: Call) -> CallNumber {
        let number = self.next_number();
        let same = self.by_call_id.entry(call.call_id.clone()).or_default();
        same.push(number);
        self.by_number.insert(number, call);
        number
    }

    /// The calls with this Call-ID.
    pub(crate) fn with_call_id(&self, call_id: &[u8]) -> impl Iterator<Item = (CallNumber, &Call)> {
        let numbers = self.by_call_id.get(call_id).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.by_number.get(number)?)))
    }

    /// The call and its dialog that a request of a peer belongs to (section 12.2.2).
    pub(crate) fn find(
        &self,
        call_id: &[u8],
        local_tag: &[u8],
        remote_tag: &[u8],
    ) -> Option<(CallNumber, usize)> {
        self.with_call_id(call_id).find_map(|(number, call)| {
            let is_ours = *call.local_tag == *local_tag;
            Some((number, call.dialog_with(remote_tag).filter(|_| is_ours)?))
        })
    }

    pub(crate) fn tell(&mut self, number: CallNumber, event: CallEvent) {
        self.events.push_back(Event::Call(number, event));
    }

    /// Whether a call that the program knows exists, or a registration.
    pub(crate) fn is_idle(&self) -> bool {
        let mut calls = self.by_number.values();
        calls.all(|call| matches!(call.stage, Stage::Over)) && self.registrations.is_empty()
    }

    /// Reports the end of a call, and forgets it as soon as no 2xx can arrive any more.
    pub(crate) fn end(&mut self, stack: &mut Stack<'_>, number: CallNumber, end: CallEnd) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        if !matches!(call.stage, Stage::Over) {
            call.stage = Stage::Over;
            (call.until, call.unacknowledged) = (None, None);
            call.session.body = Box::default();
            self.tell(number, CallEvent::Ended(end));
        }
        self.settle(stack, number);
    }

    /// Removes a call that is over and does not linger, or arms the timer of one that is not.
    pub(crate) fn settle(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        if let Some(timer) = call.timer.take() {
            stack.stop_timer(timer);
        }
        let lingers = call.lingers.is_some_and(|until| until > stack.now());
        if !matches!(call.stage, Stage::Over) || lingers {
            let at = call.next_deadline();
            call.timer = at.map(|at| stack.start_timer(at, number.0));
            return;
        }
        let invite = call.invite;
        if let Some(call) = self.by_number.remove(&number)
            && let Some(same) = self.by_call_id.get_mut(&call.call_id)
        {
            same.retain(|other| *other != number);
            if same.is_empty() {
                self.by_call_id.remove(&call.call_id);
            }
        }
        if let Some(client) = invite {
            self.clients.remove(&client);
        }
        self.forget_lookups(number);
    }

    /// Handles the timer of a call or a registration.
    pub(crate) fn timer(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        if self.registrations.contains_key(&number) {
            return self.registration_timer(stack, number);
        }
        let Some(call) = self.by_number.get_mut(&number) else {
            return;
        };
        call.timer = None;
        self.repeat_success(stack, number);
        let now = stack.now();
        let call = self.by_number.get_mut(&number);
        if let Some(call) = call.filter(|call| call.until.is_some_and(|until| until <= now)) {
            call.until = None;
            match &call.stage {
                Stage::Calling(_) => self.cancel(stack, number, CallEnd::NoAnswer),
                Stage::Ringing(_) => {
                    self.reject(stack, number, 480, CallEnd::NoAnswer);
                }
                Stage::Ending(end) => {
                    let end = end.clone();
                    self.end(stack, number, end);
                }
                Stage::Up | Stage::Over => {}
            }
        }
        self.settle(stack, number);
    }
}
