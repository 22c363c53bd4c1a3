//! The user agent: the user of the stack that keeps calls, with a program above it.

use super::control::CallControl;
use super::event::{CallEvent, CallNumber, RegistrationEvent, Session};
use super::fields::ALLOW;
use super::lookup::{Lookup, Resolve};
use super::route::Work;
use super::settings::AgentSettings;
use super::table::{Calls, Event};
use crate::{Failure, Handle, Request, Stack, User};
use sip_message::{HeaderName, Message, Method};
use sip_transaction::{ClientId, ServerId};
use std::fmt;

/// The program above a [`UserAgent`]. The loop calls it, never from two threads at once. It must not block.
pub trait CallHandler: Send + Sized + 'static {
    /// Handles an event of a call.
    fn call(&mut self, calls: &mut CallControl<'_, '_>, call: CallNumber, event: CallEvent);

    /// Handles an event of a registration.
    fn registration(
        &mut self,
        calls: &mut CallControl<'_, '_>,
        registration: CallNumber,
        event: RegistrationEvent,
    ) {
        let _ = (calls, registration, event);
    }

    /// Decides about a re-INVITE or UPDATE. `session` is our current session description. Returns the one to answer with, or `None` to
    /// reject the change with 488. A re-INVITE without a body asks for an offer. By default, the session stays as it is.
    fn renegotiate(
        &mut self,
        call: CallNumber,
        request: &Message<'_>,
        session: &Session,
    ) -> Option<Session> {
        let _ = (call, request);
        Some(session.clone())
    }

    /// Handles a request outside calls other than INVITE, CANCEL and OPTIONS. By default, it is rejected with 405.
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        stack.respond_with(request, 405, "", |response| {
            response.header(HeaderName::Allow, ALLOW).finish();
        });
    }
}

/// A user agent with its calls and registrations (RFC 3261 section 8), for a [`CallHandler`] of the program.
///
/// It is a [`User`] of the stack: start it with [`Setup::start`](crate::Setup::start) or [`Setup::drive`](crate::Setup::drive).
pub struct UserAgent<H> {
    calls: Calls,
    handler: H,
}

impl<H: CallHandler> UserAgent<H> {
    /// Creates a user agent without calls. It reaches addresses; for names, see [`UserAgent::resolve_with`].
    pub fn new(settings: AgentSettings, handler: H) -> Self {
        Self {
            calls: Calls::new(settings),
            handler,
        }
    }

    /// Resolves names with this resolver. `handle` is the one of this user agent's stack: post a closure that calls this as soon as the
    /// stack runs.
    pub fn resolve_with(&mut self, handle: Handle<Self>, mut resolver: impl Resolve) {
        self.calls.ask = Some(Box::new(move |ticket, destination, seed| {
            let handle = handle.clone();
            let answer = move |candidates| {
                // If it cannot be posted, the deadline of the call passes.
                let _ = handle.post(move |agent: &mut Self, stack| {
                    agent.calls.located(stack, ticket, candidates);
                    agent.deliver(stack);
                });
            };
            resolver.resolve(Lookup::new(destination, seed, answer));
        }));
    }

    /// Runs a closure with the handler and the calls, from a closure posted to the stack or from the program's own loop.
    pub fn with<T>(
        &mut self,
        stack: &mut Stack<'_>,
        act: impl FnOnce(&mut H, &mut CallControl<'_, '_>) -> T,
    ) -> T {
        let calls = &mut self.calls;
        let result = act(&mut self.handler, &mut CallControl { calls, stack });
        self.deliver(stack);
        result
    }

    /// Passes events to the handler, including those that the handler causes.
    fn deliver(&mut self, stack: &mut Stack<'_>) {
        while let Some(event) = self.calls.events.pop_front() {
            let calls = &mut self.calls;
            let mut control = CallControl { calls, stack };
            match event {
                Event::Call(number, event) => self.handler.call(&mut control, number, event),
                Event::Registration(number, event) => {
                    self.handler.registration(&mut control, number, event);
                }
            }
        }
    }
}

impl<H: CallHandler> User for UserAgent<H> {
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        let Self { calls, handler } = self;
        let is_in_dialog = request.to().is_some_and(|to| to.tag().is_some());
        match request.method() {
            _ if is_in_dialog => {
                let mut renegotiate = |call, request: &Message<'_>, session: &Session| {
                    handler.renegotiate(call, request, session)
                };
                calls.in_dialog(stack, request, &mut renegotiate);
            }
            Method::Ack => {}
            Method::Invite => calls.incoming(stack, request),
            Method::Bye | Method::Update => stack.respond(request, 481, ""),
            Method::Options => stack.respond_with(request, 200, "", |response| {
                response.header(HeaderName::Allow, ALLOW).finish();
            }),
            _ => handler.request(stack, request),
        }
        self.deliver(stack);
    }

    fn response(&mut self, stack: &mut Stack<'_>, client: ClientId, response: &Message<'_>) {
        let Some(work) = self.calls.clients.get(&client).copied() else {
            return;
        };
        let calls = &mut self.calls;
        match work {
            Work::Invite(number) => calls.invite_response(stack, (client, number), response),
            Work::Bye(number, place) => {
                calls.bye_response(stack, client, (number, place), response);
            }
            Work::Register(number) => calls.register_response(stack, (client, number), response),
            // An ACK has no response.
            Work::Ack(..) => {}
        }
        self.deliver(stack);
    }

    fn failed(&mut self, stack: &mut Stack<'_>, client: ClientId, failure: Failure) {
        let Some(work) = self.calls.clients.remove(&client) else {
            return;
        };
        let calls = &mut self.calls;
        match work {
            Work::Invite(number) => calls.invite_failed(stack, number, failure),
            Work::Bye(number, place) => calls.bye_ended(stack, number, place),
            Work::Register(number) => calls.register_failed(stack, number),
            Work::Ack(..) => {}
        }
        self.deliver(stack);
    }

    fn timer(&mut self, stack: &mut Stack<'_>, token: u64) {
        self.calls.timer(stack, CallNumber(token));
        self.deliver(stack);
    }

    fn cancelled(&mut self, stack: &mut Stack<'_>, invite: ServerId) {
        self.calls.cancelled(stack, invite);
        self.deliver(stack);
    }
}

impl<H> fmt::Debug for UserAgent<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.fmt(f)
    }
}
