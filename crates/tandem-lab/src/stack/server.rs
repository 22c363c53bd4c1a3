//! The server stack: responds to every request with 200.

use super::Cell;
use super::client::transactions;
use super::side::{Counts, Order, SERVER, Side, bind};
use sip_message::{KeyHasher, Message, ResponseWriter};
use sip_transaction::{Event, Kind, RequestMatch, Transactions};
use sip_transport::{Flow, Input, Node, Output, Time, response_flow};
use std::io;

/// Starts the server stack.
pub(super) fn start(cell: &Cell) -> io::Result<Side> {
    let bound = bind(cell, SERVER, cell.ports.get())?;
    let cell = *cell;
    Side::start(bound, move |_| Server {
        transactions: transactions(cell.transactions),
        keys: KeyHasher::new((0, 0)),
        is_reliable: cell.transport.protocol().is_reliable(),
        unanswered: 0,
        events: Vec::new(),
    })
}

struct Server {
    transactions: Transactions<u64>,
    keys: KeyHasher,
    is_reliable: bool,
    /// Requests that it could not respond to.
    unanswered: u64,
    events: Vec<Event<u64>>,
}

impl Server {
    /// `None` if no response is possible.
    fn serve(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        output: &mut Output<Counts>,
    ) -> Option<()> {
        let request = Message::parse(bytes).ok()?;
        request.validate().ok()?;
        let key = self.keys.server_transaction(&request)?;
        let matched =
            self.transactions
                .receive_request(now, key, request.method(), bytes.len(), output);
        if matched == RequestMatch::Absorbed {
            return Some(());
        }
        let back = response_flow(flow, &request.top_via()?);
        let id = self
            .transactions
            .create_server(key, Kind::NonInvite, back, self.is_reliable)
            .ok()?;
        self.transactions.respond(now, id, 200, output, |into| {
            ResponseWriter::begin(into, &request, flow.remote, 200, "", Some(b"server")).finish();
        })?;
        Some(())
    }
}

impl Node for Server {
    type Question = Counts;
    type Record = std::convert::Infallible;
    type Control = Order;

    fn handle(&mut self, now: Time, input: Input<'_, Order>, output: &mut Output<Counts>) {
        match input {
            Input::Received(message) => {
                if self
                    .serve(now, message.flow, message.bytes, output)
                    .is_none()
                {
                    self.unanswered += 1;
                }
            }
            Input::Control(Order::Count) => output.ask(Counts {
                failed: 0,
                retransmitted: self.transactions.stats().responses_retransmitted,
                lost: self.unanswered,
            }),
            Input::Control(Order::Begin) | Input::Undeliverable(_) | Input::ConnectionEnded(_) => {}
        }
    }

    fn expire(&mut self, now: Time, output: &mut Output<Counts>) {
        self.transactions.expire(now, output, &mut self.events);
        self.events.clear();
    }

    fn next_deadline(&self) -> Option<Time> {
        self.transactions.next_deadline()
    }
}
