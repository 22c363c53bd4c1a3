//! Calls as values: made, taken, waited for, hung up.

use super::watched::Watched;
use super::{Agent, Waiting};
use crate::calls::{CallEnd, CallEvent, CallNumber, Invitation, NotSent, ReceivedMessage, Session};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What has happened to a call. It holds at most four messages.
#[derive(Debug, Default)]
pub(super) struct CallState {
    number: Option<CallNumber>,
    not_sent: Option<NotSent>,
    ringing: Option<ReceivedMessage>,
    /// The 2xx to our INVITE.
    answer: Option<ReceivedMessage>,
    is_confirmed: bool,
    /// The last message of the peer with a session description.
    session: Option<ReceivedMessage>,
    end: Option<CallEnd>,
}

impl CallState {
    pub(super) fn incoming(invite: &ReceivedMessage) -> Self {
        let mut state = Self::default();
        state.keep_session(invite);
        state
    }

    pub(super) fn apply(&mut self, event: CallEvent) {
        match event {
            CallEvent::Incoming(_) => {}
            CallEvent::Ringing(response) => {
                self.keep_session(&response);
                self.ringing = Some(response);
            }
            CallEvent::Answered(response) => {
                self.keep_session(&response);
                self.answer = Some(response);
            }
            CallEvent::Confirmed(ack) => {
                self.keep_session(&ack);
                self.is_confirmed = true;
            }
            CallEvent::Renegotiated(request) => self.keep_session(&request),
            CallEvent::Ended(end) => self.end = Some(end),
        }
    }

    fn keep_session(&mut self, message: &ReceivedMessage) {
        if !message.body().is_empty() {
            self.session = Some(message.clone());
        }
    }

    fn is_over(&self) -> Option<CallError> {
        let not_sent = self.not_sent.map(CallError::NotSent);
        not_sent.or_else(|| self.end.clone().map(CallError::Ended))
    }
}

/// Why a call or a registration does not exist, or does not exist any more.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The request was not sent.
    NotSent(NotSent),
    /// The call is over.
    Ended(CallEnd),
    /// The registrar refused: its final response. `None`: it did not respond, or could not be reached.
    NotRegistered(Option<ReceivedMessage>),
    /// The stack has stopped.
    Stopped,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = |f: &mut fmt::Formatter<'_>, what: &str, response: &ReceivedMessage| {
            let message = response.message();
            let reason = String::from_utf8_lossy(message.reason());
            write!(f, "{what} {} {reason}", message.status())
        };
        match self {
            Self::NotSent(why) => why.fmt(f),
            Self::Ended(CallEnd::ByUs) => f.write_str("we ended the call"),
            Self::Ended(CallEnd::ByPeer) => f.write_str("the peer ended the call"),
            Self::Ended(CallEnd::Rejected(response)) => refused(f, "call rejected:", response),
            Self::Ended(CallEnd::NoAnswer) => f.write_str("the call was not answered in time"),
            Self::Ended(CallEnd::Unreachable) => f.write_str("no server could be reached"),
            Self::Ended(CallEnd::NoAck) => f.write_str("the caller did not acknowledge our answer"),
            Self::NotRegistered(Some(response)) => refused(f, "registration refused:", response),
            Self::NotRegistered(None) => f.write_str("the registrar did not respond"),
            Self::Stopped => f.write_str("the stack has stopped"),
        }
    }
}

impl std::error::Error for CallError {}

/// A call to be made.
#[derive(Debug)]
#[must_use = "send() makes the call"]
pub struct Dial<'a> {
    agent: &'a Agent,
    invitation: Invitation,
}

impl<'a> Dial<'a> {
    pub(super) const fn new(agent: &'a Agent, invitation: Invitation) -> Self {
        Self { agent, invitation }
    }

    /// Sets the session description: the offer.
    pub fn session(mut self, session: impl Into<Session>) -> Self {
        self.invitation = self.invitation.session(session);
        self
    }

    /// Adds a header field to the INVITE ([`Invitation::field`]).
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.invitation = self.invitation.field(name, value);
        self
    }

    /// Sends the INVITE. [`Call::answered`] waits for the answer.
    ///
    /// # Errors
    /// The INVITE cannot be sent.
    pub fn send(self) -> Result<Call, CallError> {
        let state = Arc::new(Watched::default());
        let (theirs, invitation) = (Arc::clone(&state), self.invitation);
        let posted = self.agent.post(move |handler, calls| {
            let sent = calls.invite(invitation);
            if let Ok(number) = sent {
                handler.watch(number, Arc::clone(&theirs));
            }
            theirs.change(|state| match sent {
                Ok(number) => state.number = Some(number),
                Err(error) => state.not_sent = Some(error),
            });
        });
        if !posted {
            return Err(CallError::Stopped);
        }
        let sent = state.wait(|state: &CallState| match (state.number, state.not_sent) {
            (Some(number), _) => Some(Ok(number)),
            (None, Some(error)) => Some(Err(CallError::NotSent(error))),
            (None, None) => None,
        });
        let agent = self.agent.clone();
        sent.map(|number| Call {
            agent,
            number,
            state,
        })
    }
}

/// A call. Dropping it hangs up.
#[derive(Debug)]
pub struct Call {
    agent: Agent,
    number: CallNumber,
    state: Arc<Watched<CallState>>,
}

impl Call {
    /// Waits until the called party is alerted, and returns the provisional response; `None` if the call was answered without one.
    ///
    /// # Errors
    /// The call has ended.
    pub fn ringing(&self) -> Result<Option<ReceivedMessage>, CallError> {
        self.state
            .wait(|state| match (&state.ringing, &state.answer) {
                (None, None) => state.is_over().map(Err),
                (ringing, _) => Some(Ok(ringing.clone())),
            })
    }

    /// Waits for the answer to our INVITE, and returns the 2xx. It waits no longer than [`Bounds::ringing`](crate::Bounds::ringing).
    ///
    /// # Errors
    /// The call was rejected, cancelled or not answered.
    pub fn answered(&self) -> Result<ReceivedMessage, CallError> {
        self.state.wait(|state| match &state.answer {
            Some(answer) => Some(Ok(answer.clone())),
            None => state.is_over().map(Err),
        })
    }

    /// The last message of the peer with a session description: INVITE, response, ACK, re-INVITE or UPDATE.
    pub fn peer_session(&self) -> Option<ReceivedMessage> {
        self.state.read(|state| state.session.clone())
    }

    /// Why the call is over; `None` while it is not.
    pub fn end(&self) -> Option<CallEnd> {
        self.state.read(|state| state.end.clone())
    }

    /// Waits until the call is over, and returns why.
    pub fn ended(&self) -> CallEnd {
        self.state.wait(|state| state.end.clone())
    }

    /// Waits until the call is over, at most for this time.
    pub fn ended_within(&self, within: Duration) -> Option<CallEnd> {
        self.state.wait_for(within, |state| state.end.clone())
    }

    /// Hangs up in any state, and waits until the peer knows, or until it could not be told. Returns why the call is over: the peer may have
    /// been quicker.
    ///
    /// # Errors
    /// The stack has stopped.
    pub fn hang_up(self) -> Result<CallEnd, CallError> {
        if self.post_hang_up() {
            Ok(self.ended())
        } else {
            Err(CallError::Stopped)
        }
    }

    fn post_hang_up(&self) -> bool {
        let number = self.number;
        self.agent.post(move |_, calls| calls.hang_up(number))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.end().is_none() {
            self.post_hang_up();
        }
    }
}

/// A call that waits for our answer. Dropping it rejects it with 480.
#[derive(Debug)]
pub struct IncomingCall {
    call: Call,
    invite: ReceivedMessage,
}

impl IncomingCall {
    pub(super) fn new(agent: Agent, waiting: Waiting) -> Self {
        let Waiting {
            number,
            state,
            invite,
        } = waiting;
        let call = Call {
            agent,
            number,
            state,
        };
        Self { call, invite }
    }

    /// The INVITE, with the caller and the offer.
    pub const fn invite(&self) -> &ReceivedMessage {
        &self.invite
    }

    /// Sends 180 Ringing.
    pub fn ring(&self) {
        self.progress(180, Session::none());
    }

    /// Sends a provisional response (101 to 199), with a session description for early media.
    pub fn progress(&self, status: u16, session: impl Into<Session>) {
        let (number, session) = (self.call.number, session.into());
        self.call.agent.post(move |_, calls| {
            calls.ring(number, status, &session);
        });
    }

    /// Accepts the call, and waits until the caller has acknowledged it.
    ///
    /// # Errors
    /// The caller has given up, or sent no ACK within 64*T1.
    pub fn accept(self, session: impl Into<Session>) -> Result<Call, CallError> {
        let (number, session) = (self.call.number, session.into());
        let posted = self.call.agent.post(move |_, calls| {
            calls.accept(number, session);
        });
        if !posted {
            return Err(CallError::Stopped);
        }
        let confirmed = self.call.state.wait(|state| {
            let confirmed = state.is_confirmed.then_some(Ok(()));
            confirmed.or_else(|| state.is_over().map(Err))
        });
        confirmed.map(|()| self.call)
    }

    /// Rejects the call with a status from 300 to 699, such as 486 Busy Here.
    pub fn reject(self, status: u16) {
        let number = self.call.number;
        self.call.agent.post(move |_, calls| {
            calls.reject(number, status);
        });
    }
}
