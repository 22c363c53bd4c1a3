//! The server stack: responds to every request with 200.

use super::Cell;
use super::client::transactions;
use super::side::{Counts, Order, SERVER, Side, bind};
use sip_message::{KeyHasher, Message, ResponseWriter};
use sip_transaction::{Event, Kind, RequestMatch, Transactions};
use sip_transport::{Flow, Node, Output, Time, response_flow};
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
    transactions: Transactions,
    keys: KeyHasher,
    is_reliable: bool,
    /// Requests that it could not respond to.
    unanswered: u64,
    events: Vec<Event>,
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
            .create_server(now, key, Kind::NonInvite, back, self.is_reliable, 0)
            .ok()?;
        self.transactions.respond(now, id, 200, output, |into| {
            ResponseWriter::begin(into, &request, flow.remote, 200, "", Some(b"server")).finish();
        })?;
        Some(())
    }
}

impl Node for Server {
    type Question = Counts;
    type Answer = Order;

    fn receive(&mut self, now: Time, flow: Flow, bytes: &[u8], output: &mut Output<Counts>) {
        if self.serve(now, flow, bytes, output).is_none() {
            self.unanswered += 1;
        }
    }

    fn receive_handed_over(&mut self, _: Time, _: Flow, _: &[u8], _: &mut Output<Counts>) {}

    fn answer(&mut self, _: Time, order: Order, output: &mut Output<Counts>) {
        if let Order::Count = order {
            output.ask(Counts {
                failed: 0,
                retransmitted: self.transactions.stats().responses_retransmitted,
                lost: self.unanswered,
            });
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
