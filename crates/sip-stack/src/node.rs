//! The node that the runtime drives: the transaction layer, and the program's [`User`] above it.

use crate::handle::Command;
use crate::{Failure, Request, Stack, User};
use sip_message::{KeyHasher, Message, Method, ResponseWriter};
use sip_transaction::{Event, Kind, Limits, RequestMatch, TimerSettings, TimerWheel, Transactions};
use sip_transport::{
    Flow, Input, Listener, Node, Output, Received, Time, Undelivered, response_flow,
};
use std::convert::Infallible;

/// Maximum number of transactions of each kind.
const MOST: usize = 1_000_000;
/// Maximum number of bytes of the messages that transactions keep. Beyond it, requests are answered 503.
const MOST_BYTES: usize = 512 << 20;

pub(crate) struct StackNode<U> {
    user: U,
    transactions: Transactions<()>,
    listeners: Vec<Listener>,
    hasher: KeyHasher,
    tokens: u64,
    /// The timers of the program.
    wheel: TimerWheel<u64>,
    timers: TimerSettings,
    events: Vec<Event<()>>,
}

impl<U: User> StackNode<U> {
    pub(crate) fn new(
        user: U,
        listeners: Vec<Listener>,
        timers: TimerSettings,
        secret: (u64, u64),
        now: Time,
    ) -> Self {
        let limits = Limits {
            servers: MOST,
            clients: MOST,
            bytes: MOST_BYTES,
            amplification: 3,
        };
        let hasher = KeyHasher::new(secret);
        Self {
            user,
            transactions: Transactions::new(now, timers, limits, hasher, secret.0 as u32),
            listeners,
            hasher,
            tokens: 0,
            wheel: TimerWheel::new(now),
            timers,
            events: Vec::new(),
        }
    }

    /// Calls the program's user.
    fn tell(
        &mut self,
        now: Time,
        output: &mut Output<Infallible>,
        tell: impl FnOnce(&mut U, &mut Stack<'_>),
    ) {
        let mut stack = Stack {
            now,
            transactions: &mut self.transactions,
            output,
            listeners: &self.listeners,
            hasher: &self.hasher,
            tokens: &mut self.tokens,
            wheel: &mut self.wheel,
            timers: self.timers,
        };
        tell(&mut self.user, &mut stack);
    }

    fn request(
        &mut self,
        now: Time,
        flow: Flow,
        message: &Message<'_>,
        output: &mut Output<Infallible>,
    ) {
        let key = self.hasher.server_transaction(message);
        let (Ok(()), Some(key), Some(via)) = (message.validate(), key, message.top_via()) else {
            return refuse(message, flow, 400, output);
        };
        let method = message.method();
        let matched =
            self.transactions
                .receive_request(now, key, method, message.bytes().len(), output);
        if matched == RequestMatch::Absorbed {
            return;
        }
        let kind = match method {
            Method::Ack => {
                let request = Request {
                    message,
                    flow,
                    server: None,
                };
                return self.tell(now, output, |user, stack| user.request(stack, &request));
            }
            Method::Invite => Kind::Invite,
            _ => Kind::NonInvite,
        };
        let back = response_flow(flow, &via);
        let listener = self.listeners.get(usize::from(back.listener.0));
        let reliable = listener.is_some_and(|listener| listener.protocol.is_reliable());
        let created = self.transactions.create_server(key, kind, back, reliable);
        let Ok(server) = created else {
            return refuse(message, flow, 503, output);
        };
        let request = Request {
            message,
            flow,
            server: Some(server),
        };
        if method == Method::Cancel {
            return self.cancel(now, &request, output);
        }
        self.tell(now, output, |user, stack| user.request(stack, &request));
    }

    /// Handles a CANCEL (section 9.2).
    fn cancel(&mut self, now: Time, cancel: &Request<'_, '_>, output: &mut Output<Infallible>) {
        let key = self.hasher.cancelled_transaction(cancel.message);
        let invite = key.and_then(|key| self.transactions.find_server(key));
        let status = if invite.is_some() { 200 } else { 481 };
        self.tell(now, output, |user, stack| {
            stack.respond(cancel, status, "");
            if let Some(invite) = invite {
                user.cancelled(stack, invite);
            }
        });
    }

    fn response(
        &mut self,
        now: Time,
        flow: Flow,
        message: &Message<'_>,
        output: &mut Output<Infallible>,
    ) {
        if message.validate().is_err() {
            return;
        }
        let matched = self
            .transactions
            .receive_response(now, flow, message, output);
        if let Some(response) = matched.told() {
            self.tell(now, output, |user, stack| {
                user.response(stack, response.id, message);
            });
        }
    }

    /// A request that could not be sent has failed.
    fn undeliverable(
        &mut self,
        now: Time,
        message: &Undelivered<'_>,
        output: &mut Output<Infallible>,
    ) {
        let Undelivered { flow, bytes, .. } = *message;
        let listener = self.listeners.get(usize::from(flow.listener.0));
        let found = if listener.is_some_and(|listener| listener.protocol.is_reliable()) {
            self.transactions.client_that_sent(bytes)
        } else {
            self.transactions.client_unreached(flow.remote, bytes)
        };
        if let Some(client) = found {
            self.transactions.abandon_client(client.id);
            self.tell(now, output, |user, stack| {
                user.failed(stack, client.id, Failure::Unreachable);
            });
        }
    }
}

/// Responds without a transaction.
fn refuse(message: &Message<'_>, flow: Flow, status: u16, output: &mut Output<Infallible>) {
    if let Some(via) = message
        .top_via()
        .filter(|_| message.method() != Method::Ack)
    {
        output.send(response_flow(flow, &via), |into| {
            ResponseWriter::begin(into, message, flow.remote, status, "", Some(b"refused"))
                .finish();
        });
    }
}

impl<U: User> Node for StackNode<U> {
    type Question = Infallible;
    type Record = Infallible;
    type Control = Command<U>;

    fn handle(&mut self, now: Time, input: Input<'_, Command<U>>, output: &mut Output<Infallible>) {
        match input {
            Input::Received(Received { flow, bytes, .. }) => match Message::parse(bytes) {
                Ok(message) if message.is_request() => self.request(now, flow, &message, output),
                Ok(message) => self.response(now, flow, &message, output),
                // Keep-alives and noise.
                Err(_) => {}
            },
            Input::Undeliverable(message) => self.undeliverable(now, &message, output),
            Input::Control(post) => self.tell(now, output, |user, stack| post(user, stack)),
            Input::ConnectionEnded(_) => {}
        }
    }

    fn expire(&mut self, now: Time, output: &mut Output<Infallible>) {
        let mut events = std::mem::take(&mut self.events);
        self.transactions.expire(now, output, &mut events);
        for event in events.drain(..) {
            if let Event::ClientTimeout { id, .. } = event {
                self.tell(now, output, |user, stack| {
                    user.failed(stack, id, Failure::Timeout);
                });
            }
        }
        self.events = events;
        while let Some(token) = self.wheel.pop_due(now) {
            self.tell(now, output, |user, stack| user.timer(stack, token));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let transactions = self.transactions.next_deadline();
        let own = self.wheel.next_deadline();
        transactions.into_iter().chain(own).min()
    }
}
