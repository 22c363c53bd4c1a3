//! `Node`: the one interface between the protocol and whatever drives it (the Linux runtime, the
//! simulator, somebody else's event loop).

use crate::flow::{ConnectionId, Flow};
use crate::overload::Urgency;
use crate::time::Time;
use std::ops::Range;

/// A sans-IO SIP element. It never blocks, opens no socket and reads no clock: bytes, answers and
/// time go in; bytes, questions and hand-overs come out through [`Output`].
pub trait Node {
    /// What the node asks the control plane.
    type Question;
    /// What the control plane tells the node: replies to questions and orders (new settings, drain).
    type Answer;

    /// One datagram, or one framed message of a stream, arrived on `flow`.
    ///
    /// Messages of calls whose home is another worker leave again through [`Output::hand_over`].
    fn receive(&mut self, now: Time, flow: Flow, bytes: &[u8], output: &mut Output<Self::Question>);

    /// A message that another worker read and handed over to this one, the home of its call.
    /// It is never handed over again.
    fn receive_handed_over(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        output: &mut Output<Self::Question>,
    );

    /// What a driver calls for each message. A node that measures how long messages waited before it was their turn overrides this;
    /// for any other one it leads to [`Node::receive`] and [`Node::receive_handed_over`].
    fn serve(&mut self, now: Time, message: Received<'_>, output: &mut Output<Self::Question>) {
        let Received { flow, bytes, .. } = message;
        if message.handed_over {
            self.receive_handed_over(now, flow, bytes, output);
        } else {
            self.receive(now, flow, bytes, output);
        }
    }

    /// How urgent a message is, by no more than a glance: a driver asks it of each while it is behind, before it is served.
    fn urgency(&self, flow: Flow, bytes: &[u8]) -> Urgency {
        let _ = (flow, bytes);
        Urgency::First
    }

    /// A request that is given up because too many come: it gets an answer that costs little, and nothing else happens.
    fn refuse(&mut self, now: Time, message: Received<'_>, output: &mut Output<Self::Question>) {
        let _ = (now, message, output);
    }

    /// A message of ours could not be sent on `flow`: there is no connection any more, none could be opened, or the peer takes
    /// no more (RFC 3261 section 18.4). `bytes` are those of the message.
    ///
    /// On a flow of datagrams an ICMP error says so. Then `bytes` are how the message began, as far as the error quotes it, `flow` has
    /// the address where it was sent, and another worker may have sent it. Anybody can forge such errors.
    ///
    /// Messages of calls whose home is another worker leave again through [`Output::give_back`], and come to it in
    /// [`Node::undeliverable_handed_over`]. A node that expects no answer to what it sends may leave both as they are.
    fn undeliverable(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        output: &mut Output<Self::Question>,
    ) {
        let _ = (now, flow, bytes, output);
    }

    /// A message of ours that another worker, the owner of its connection, could not send. It is never given back again.
    fn undeliverable_handed_over(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        output: &mut Output<Self::Question>,
    ) {
        let _ = (now, flow, bytes, output);
    }

    /// A connection of this worker has ended: nothing that is sent on `flow` any more reaches its peer. A node that keeps nothing by
    /// connection may leave this as it is.
    fn connection_ended(&mut self, now: Time, flow: Flow, output: &mut Output<Self::Question>) {
        let _ = (now, flow, output);
    }

    /// The control plane replied or gave an order.
    fn answer(&mut self, now: Time, answer: Self::Answer, output: &mut Output<Self::Question>);

    /// Time has reached [`Node::next_deadline`]: everything that is due happens.
    fn expire(&mut self, now: Time, output: &mut Output<Self::Question>);

    /// When `expire` wants to be called next; `None` while no timer runs. Cheap: asked every round.
    fn next_deadline(&self) -> Option<Time>;
}

/// A received message, and what its driver knows about it.
#[derive(Clone, Copy, Debug)]
pub struct Received<'m> {
    /// When it reached the machine, which is earlier than its turn by as long as it waited. Never later than the `now` that
    /// comes with it.
    pub arrived: Time,
    /// The flow it was received on.
    pub flow: Flow,
    /// Its bytes.
    pub bytes: &'m [u8],
    /// Whether another worker read it and handed it over to this one.
    pub handed_over: bool,
    /// Whether it came over a connection that we opened: its peer is one that we chose. Not known of what was handed over.
    pub over_our_connection: bool,
}

/// A message to be sent: where to, and where its bytes lie in [`Output::bytes`].
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The flow to send through.
    pub flow: Flow,
    /// Its bytes.
    pub range: Range<usize>,
}

/// What a message is on its way to another worker for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// It was received here; there is its call's home.
    Received,
    /// It is to be sent; there is the owner of its connection.
    ToSend,
    /// It could not be sent here; there is its call's home.
    Undeliverable,
    /// No message: the peer of the flow's connection has proved who it is; there is the owner of the connection.
    Proven,
}

/// A message on its way to another worker.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Index of the other worker.
    pub worker: u16,
    /// What for.
    pub errand: Errand,
    /// When a received message reached the machine; means nothing for other errands.
    pub arrived: Time,
    /// The flow it was received on, or is to be sent through.
    pub flow: Flow,
    /// Its bytes in [`Output::bytes`].
    pub range: Range<usize>,
}

/// What a node puts out in one round. The driver empties it and hands the same one in again, so
/// that the buffers are reused.
#[derive(Debug)]
pub struct Output<Q> {
    bytes: Vec<u8>,
    outgoing: Vec<Outgoing>,
    hand_overs: Vec<HandOver>,
    questions: Vec<Q>,
    /// The message's place in `outgoing`, and its name.
    names: Vec<(usize, Range<usize>)>,
    aliases: Vec<(ConnectionId, u16)>,
    proven: Vec<ConnectionId>,
    closed: Vec<ConnectionId>,
}

impl<Q> Default for Output<Q> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            outgoing: Vec::new(),
            hand_overs: Vec::new(),
            questions: Vec::new(),
            names: Vec::new(),
            aliases: Vec::new(),
            proven: Vec::new(),
            closed: Vec::new(),
        }
    }
}

impl<Q> Output<Q> {
    /// Writes a message straight into the send batch. Returns where it lies, for whoever must keep
    /// a copy (retransmissions); read it with [`Output::written`].
    pub fn send(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        self.outgoing.push(Outgoing {
            flow,
            range: range.clone(),
        });
        range
    }

    /// The bytes of a message written in this round.
    pub fn written(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// Hands a received message, which reached the machine at `arrived`, over to the worker that is its call's home.
    pub fn hand_over(&mut self, worker: u16, arrived: Time, flow: Flow, message: &[u8]) {
        self.pass(worker, (Errand::Received, arrived), flow, message);
    }

    /// Gives a message that could not be sent back to the worker that is its call's home.
    pub fn give_back(&mut self, worker: u16, flow: Flow, message: &[u8]) {
        self.pass(
            worker,
            (Errand::Undeliverable, Time::default()),
            flow,
            message,
        );
    }

    fn pass(&mut self, worker: u16, (errand, arrived): (Errand, Time), flow: Flow, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.hand_overs.push(HandOver {
            worker,
            errand,
            arrived,
            flow,
            range: start..self.bytes.len(),
        });
    }

    /// Says for whom the address of the message that is sent next stands: the domain of the URI that led to it. Over TLS whoever
    /// gets it must have proved to be that (RFC 5922 section 7.3).
    pub fn name_next(&mut self, domain: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(domain);
        let next = self.outgoing.len();
        self.names.push((next, start..self.bytes.len()));
    }

    /// Says that a peer wants requests to its address and `port` to take the connection that it opened (RFC 5923).
    pub fn alias(&mut self, connection: ConnectionId, port: u16) {
        self.aliases.push((connection, port));
    }

    /// Says that the peer of a connection, of whichever worker, has done what a stranger cannot: it may stay as long as its connection
    /// is kept alive.
    pub fn proven(&mut self, connection: ConnectionId) {
        if connection.is_some() && self.proven.last() != Some(&connection) {
            self.proven.push(connection);
        }
    }

    /// Closes a connection of this worker once all of this round is sent. What its socket does not take at once is undeliverable; a peer
    /// that is still sending may lose what it has not read.
    pub fn close(&mut self, connection: ConnectionId) {
        self.closed.push(connection);
    }

    /// For whom the addresses of messages stand, by their places in [`Output::outgoing`], in that order.
    pub fn names(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let name = |(place, range): &(usize, Range<usize>)| {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            (*place, bytes)
        };
        self.names.iter().map(name)
    }

    /// Connections, and the ports under which they want to be found.
    pub fn aliases(&self) -> &[(ConnectionId, u16)] {
        &self.aliases
    }

    /// Connections whose peers have proved themselves.
    pub fn proofs(&self) -> &[ConnectionId] {
        &self.proven
    }

    /// Connections to close once everything is sent.
    pub fn closed(&self) -> &[ConnectionId] {
        &self.closed
    }

    /// Asks the control plane.
    pub fn ask(&mut self, question: Q) {
        self.questions.push(question);
    }

    /// The arena that all ranges point into.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Messages to send, in order.
    pub fn outgoing(&self) -> &[Outgoing] {
        &self.outgoing
    }

    /// Messages for other workers, in order.
    pub fn hand_overs(&self) -> &[HandOver] {
        &self.hand_overs
    }

    /// Takes the questions, in order.
    pub fn drain_questions(&mut self) -> std::vec::Drain<'_, Q> {
        self.questions.drain(..)
    }

    /// How many questions wait.
    pub fn questions(&self) -> &[Q] {
        &self.questions
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
            && self.hand_overs.is_empty()
            && self.questions.is_empty()
            && self.aliases.is_empty()
            && self.proven.is_empty()
            && self.closed.is_empty()
    }

    /// Forgets everything but keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.outgoing.clear();
        self.hand_overs.clear();
        self.questions.clear();
        self.names.clear();
        self.aliases.clear();
        self.proven.clear();
        self.closed.clear();
    }
}
