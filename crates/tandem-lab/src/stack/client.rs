//! The client stack: sends REGISTER requests, with a limited number outstanding.

use super::Cell;
use super::side::{CLIENT, Counts, Order, Side, bind};
use sip_message::{HeaderName, KeyHasher, Message, Method, RequestWriter};
use sip_runtime::Clock;
use sip_transaction::{ClientOptions, Event, Kind, Limits, TimerSettings, Transactions};
use sip_transport::{Flow, Input, ListenerId, Node, Output, Received, Time};
use std::io;
use std::net::SocketAddr;

/// Starts the client stack. Over UDP it has one port per target. Over TCP one port is enough, because a side that opens connections need
/// not listen.
pub(super) fn start(cell: &Cell, targets: Vec<SocketAddr>) -> io::Result<Side> {
    let is_reliable = cell.transport.protocol().is_reliable();
    let ports = if is_reliable { 1 } else { targets.len() as u16 };
    let bound = bind(cell, CLIENT, ports)?;
    let senders = bound.listeners().iter().cycle();
    let routes = (0..).zip(targets).zip(senders);
    let routes = routes.map(|((place, target), sender)| Route {
        flow: Flow::to(ListenerId(place % ports), target),
        uri: format!("sip:{target};transport={}", cell.transport.parameter()),
        sent_by: format!(
            "SIP/2.0/{} {};branch=",
            sender.protocol.via_token(),
            sender.advertised
        ),
    });
    let mut routes: Vec<Route> = routes.collect();
    let cell = *cell;
    Side::start(bound, move |_| Client {
        transactions: transactions(cell.transactions),
        routes: std::mem::take(&mut routes),
        is_reliable,
        window: u64::from(cell.window),
        total: cell.transactions,
        sent: 0,
        ended: 0,
        failed: 0,
        events: Vec::new(),
    })
}

/// Transactions of a stack, with room for a whole run.
pub(super) fn transactions(most: u64) -> Transactions<u64> {
    let most = most as usize;
    let limits = Limits {
        servers: most,
        clients: most,
        bytes: usize::MAX,
        amplification: 3,
    };
    let now = Clock::start().now();
    // The peer is a thread of the same measurement, so branches need no secret.
    let hasher = KeyHasher::new((0, 0));
    Transactions::new(now, TimerSettings::default(), limits, hasher, 0)
}

/// Local address and target of a port.
struct Route {
    flow: Flow,
    uri: String,
    /// The Via header field up to the branch.
    sent_by: String,
}

struct Client {
    transactions: Transactions<u64>,
    routes: Vec<Route>,
    is_reliable: bool,
    window: u64,
    total: u64,
    sent: u64,
    ended: u64,
    failed: u64,
    events: Vec<Event<u64>>,
}

impl Client {
    /// Sends requests until the window is full.
    fn fill_window(&mut self, now: Time, output: &mut Output<Counts>) {
        while self.sent < self.total && self.sent - self.ended < self.window {
            self.sent += 1;
            if !self.send(now, output) {
                self.end(now, false, output);
            }
        }
    }

    fn send(&mut self, now: Time, output: &mut Output<Counts>) -> bool {
        let serial = self.sent;
        let place = serial as usize % self.routes.len();
        let Some(route) = self.routes.get(place) else {
            return false;
        };
        let Ok(id) = self.transactions.reserve_client(serial) else {
            return false;
        };
        let mut call_id = Vec::with_capacity(48);
        push_number(&mut call_id, serial);
        call_id.extend_from_slice(b"@client.tandem.localhost");
        let branch = self.transactions.branch(id, &call_id, serial);
        let write = |into: &mut Vec<u8>| {
            RequestWriter::begin(into, Method::Register, route.uri.as_bytes())
                .header_with(HeaderName::Via, |value| {
                    value.extend_from_slice(route.sent_by.as_bytes());
                    branch.write(value);
                    value.extend_from_slice(b";rport");
                })
                .header(HeaderName::MaxForwards, b"70")
                .header_with(HeaderName::From, |value| {
                    value.extend_from_slice(b"<sip:fluffy@client.tandem.localhost>;tag=");
                    push_number(value, serial);
                })
                .header(HeaderName::To, b"<sip:fluffy@server.tandem.localhost>")
                .header(HeaderName::CallId, &call_id)
                .header(HeaderName::CSeq, b"1 REGISTER")
                .header(HeaderName::Contact, b"<sip:fluffy@client.tandem.localhost>")
                .finish();
        };
        let options = ClientOptions::new(Kind::NonInvite, route.flow, self.is_reliable);
        self.transactions
            .start_client(now, id, &options, output, write);
        true
    }

    /// Handles the end of a transaction, and starts the next one.
    fn end(&mut self, now: Time, is_success: bool, output: &mut Output<Counts>) {
        self.ended += 1;
        self.failed += u64::from(!is_success);
        if self.ended == self.total {
            output.ask(self.counts());
        } else {
            self.fill_window(now, output);
        }
    }

    fn counts(&self) -> Counts {
        Counts {
            failed: self.failed,
            retransmitted: self.transactions.stats().requests_retransmitted,
            lost: 0,
        }
    }

    fn response(&mut self, now: Time, received: &Received<'_>, output: &mut Output<Counts>) {
        let Received { flow, bytes, .. } = *received;
        let Ok(message) = Message::parse(bytes) else {
            return;
        };
        let matched = self
            .transactions
            .receive_response(now, flow, &message, output);
        if matched.told().is_some() && message.status() >= 200 {
            self.end(now, message.status() == 200, output);
        }
    }
}

/// Hand-written, because the cost of formatting would show in the figures.
fn push_number(into: &mut Vec<u8>, number: u64) {
    for place in (0..16).rev() {
        into.push(b"0123456789abcdef"[(number >> (4 * place)) as usize & 15]);
    }
}

impl Node for Client {
    type Question = Counts;
    type Record = std::convert::Infallible;
    type Control = Order;

    fn handle(&mut self, now: Time, input: Input<'_, Order>, output: &mut Output<Counts>) {
        match input {
            Input::Received(message) => self.response(now, &message, output),
            Input::Undeliverable(message) => {
                if let Some(client) = self.transactions.client_that_sent(message.bytes) {
                    self.transactions.abandon_client(client.id);
                    self.end(now, false, output);
                }
            }
            Input::Control(Order::Begin) => self.fill_window(now, output),
            Input::Control(Order::Count) => output.ask(self.counts()),
            Input::ConnectionEnded(_) => {}
        }
    }

    fn expire(&mut self, now: Time, output: &mut Output<Counts>) {
        let mut events = std::mem::take(&mut self.events);
        self.transactions.expire(now, output, &mut events);
        for _ in events.drain(..) {
            self.end(now, false, output);
        }
        self.events = events;
    }

    fn next_deadline(&self) -> Option<Time> {
        self.transactions.next_deadline()
    }
}
