//! [`Node`]: the interface between the protocol and its driver (the Linux runtime, the simulator, or a third-party event loop).

use crate::flow::{ConnectionId, Flow};
use crate::overload::Urgency;
use crate::time::Time;
use std::convert::Infallible;
use std::ops::Range;

/// A sans-IO SIP element. It never blocks, opens no sockets and reads no clock. Bytes, control messages and time go in. Bytes, questions,
/// records and hand-overs come out through [`Output`].
pub trait Node {
    /// A question to the control plane. A question that is lost is like one that is never answered: its deadline passes.
    type Question;
    /// A fact for the control plane to keep, such as a line of a log. It waits for no answer, and it is counted if it is lost. A node
    /// that records nothing uses [`Infallible`](std::convert::Infallible).
    type Record;
    /// Input from the control plane: replies to questions, and orders (new settings, drain).
    type Control;

    /// Handles one input.
    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, Self::Control>,
        output: &mut Output<Self::Question, Self::Record>,
    );

    /// Classifies a message by a quick look at its bytes. A driver that is behind calls this for each message before it serves
    /// any.
    fn urgency(&self, flow: Flow, bytes: &[u8]) -> Urgency {
        let _ = (flow, bytes);
        Urgency::First
    }

    /// Rejects a request that is shed because of overload. The response must be cheap, and the request has no other effect.
    fn refuse(
        &mut self,
        now: Time,
        message: Received<'_>,
        output: &mut Output<Self::Question, Self::Record>,
    ) {
        let _ = (now, message, output);
    }

    /// Handles everything that is due at [`Node::next_deadline`] or earlier.
    fn expire(&mut self, now: Time, output: &mut Output<Self::Question, Self::Record>);

    /// The next time that `expire` must be called; `None` if no timer runs. Drivers call this every round, so it must be cheap.
    fn next_deadline(&self) -> Option<Time>;

    /// Handles a message that has just arrived here on `flow`: short for [`Input::Received`].
    fn receive(
        &mut self,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        output: &mut Output<Self::Question, Self::Record>,
    ) {
        let message = Received::new(now, flow, bytes);
        self.handle(now, Input::Received(message), output);
    }

    /// Handles a reply or an order from the control plane: short for [`Input::Control`].
    fn control(
        &mut self,
        now: Time,
        message: Self::Control,
        output: &mut Output<Self::Question, Self::Record>,
    ) {
        self.handle(now, Input::Control(message), output);
    }
}

/// An input of a node. Timers are handled by [`Node::expire`].
#[derive(Clone, Copy, Debug)]
pub enum Input<'m, A> {
    /// A datagram, or one framed message of a stream, was received. If its call has another worker as its home, it leaves through
    /// [`Output::hand_over`].
    Received(Received<'m>),
    /// A message of this node could not be sent, or the network returned it. A node that expects no responses to its messages need
    /// not handle this.
    Undeliverable(Undelivered<'m>),
    /// A connection of this worker has ended: messages sent on this flow no longer reach its peer. A node that keeps no state by
    /// connection need not handle this.
    ConnectionEnded(Flow),
    /// A reply or an order from the control plane.
    Control(A),
}

/// A message of a node that could not be sent on its flow: the connection has ended, none could be opened, or the peer accepts no
/// more data (RFC 3261 section 18.4).
///
/// On a datagram flow, an ICMP error reports this. Another worker may have sent the message. ICMP errors can be forged.
#[derive(Clone, Copy, Debug)]
pub struct Undelivered<'m> {
    /// The flow it was sent on. On a datagram flow it has the address that the message was sent to.
    pub flow: Flow,
    /// The message. On a datagram flow, its beginning as far as the ICMP error quotes it.
    pub bytes: &'m [u8],
    /// Whether another worker learned this and handed it over to this one, the home of the call. A node gives such a message back
    /// to no other worker ([`Output::return_undeliverable`]).
    pub handed_over: bool,
}

/// A received message, and the driver's knowledge about it.
#[derive(Clone, Copy, Debug)]
pub struct Received<'m> {
    /// The time at which the machine received the message. It is earlier than the time of processing if the message waited, and
    /// never later than the `now` passed with it.
    pub arrived: Time,
    /// The flow it was received on.
    pub flow: Flow,
    /// Its bytes.
    pub bytes: &'m [u8],
    /// Whether another worker received the message and handed it over to this one, the home of its call. A node hands such a
    /// message over to no other worker.
    pub handed_over: bool,
    /// Whether the message arrived over a connection that this node opened, to a peer of its choice. Unknown (false) for messages
    /// handed over.
    pub over_our_connection: bool,
}

impl<'m> Received<'m> {
    /// A message that has just arrived at this worker, over a flow that the peer began.
    pub const fn new(now: Time, flow: Flow, bytes: &'m [u8]) -> Self {
        Self {
            arrived: now,
            flow,
            bytes,
            handed_over: false,
            over_our_connection: false,
        }
    }
}

/// A message to send: its flow, and the range of its bytes in [`Output::bytes`].
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The flow to send on.
    pub flow: Flow,
    /// Its range in [`Output::bytes`].
    pub range: Range<usize>,
}

/// Why a message goes to another worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverKind {
    /// Received here; the other worker is the home of its call.
    Received,
    /// To be sent; the other worker owns its connection.
    ToSend,
    /// Could not be sent here; the other worker is the home of its call.
    Undeliverable,
    /// Carries no message: the peer of the flow's connection has proved itself; the other worker owns the connection.
    Proven,
}

/// A message that goes to another worker.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Index of the other worker.
    pub worker: u16,
    /// The reason.
    pub kind: HandOverKind,
    /// The time at which the machine received the message. Meaningless for other kinds than [`HandOverKind::Received`].
    pub arrived: Time,
    /// The flow that it was received on, or is to be sent on.
    pub flow: Flow,
    /// Its range in [`Output::bytes`].
    pub range: Range<usize>,
}

/// The output of a node in one round. The driver empties it and passes the same one again, so that the buffers are reused.
#[derive(Debug)]
pub struct Output<Q, R = Infallible> {
    bytes: Vec<u8>,
    outgoing: Vec<Outgoing>,
    hand_overs: Vec<HandOver>,
    questions: Vec<Q>,
    records: Vec<R>,
    /// Index of the message in `outgoing`, and the range of its domain.
    names: Vec<(usize, Range<usize>)>,
    aliases: Vec<(ConnectionId, u16)>,
    proven: Vec<ConnectionId>,
    closed: Vec<ConnectionId>,
}

impl<Q, R> Default for Output<Q, R> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            outgoing: Vec::new(),
            hand_overs: Vec::new(),
            questions: Vec::new(),
            records: Vec::new(),
            names: Vec::new(),
            aliases: Vec::new(),
            proven: Vec::new(),
            closed: Vec::new(),
        }
    }
}

impl<Q, R> Output<Q, R> {
    /// Writes a message directly into the send batch. Returns its range for callers that keep a copy (retransmissions); read it
    /// with [`Output::written`].
    pub fn send(&mut self, flow: Flow, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        self.send_to(flow, None, write)
    }

    /// Like [`Output::send`]. Over TLS, the peer must have proved to be `domain`: the domain of the URI that led to its address
    /// (RFC 5922 section 7.3).
    pub fn send_to(
        &mut self,
        flow: Flow,
        domain: Option<&[u8]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Range<usize> {
        if let Some(domain) = domain {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(domain);
            self.names
                .push((self.outgoing.len(), start..self.bytes.len()));
        }
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        self.outgoing.push(Outgoing {
            flow,
            range: range.clone(),
        });
        range
    }

    /// Changes the flows of the messages to send, from the one with index `first` on, where `to` returns another flow. Returns how many.
    pub fn redirect(
        &mut self,
        first: usize,
        mut to: impl FnMut(Flow, &[u8]) -> Option<Flow>,
    ) -> usize {
        let outgoing = self.outgoing.get_mut(first..).unwrap_or_default();
        let mut changed = 0;
        for message in outgoing {
            let bytes = self.bytes.get(message.range.clone()).unwrap_or_default();
            if let Some(flow) = to(message.flow, bytes) {
                message.flow = flow;
                changed += 1;
            }
        }
        changed
    }

    /// The bytes of a message written in this round.
    pub fn written(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// Hands a received message, which arrived at the machine at `arrived`, over to the home worker of its call.
    pub fn hand_over(&mut self, worker: u16, arrived: Time, flow: Flow, message: &[u8]) {
        self.pass(worker, (HandOverKind::Received, arrived), flow, message);
    }

    /// Gives an undeliverable message back to the home worker of its call.
    pub fn return_undeliverable(&mut self, worker: u16, flow: Flow, message: &[u8]) {
        self.pass(
            worker,
            (HandOverKind::Undeliverable, Time::default()),
            flow,
            message,
        );
    }

    fn pass(
        &mut self,
        worker: u16,
        (kind, arrived): (HandOverKind, Time),
        flow: Flow,
        message: &[u8],
    ) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.hand_overs.push(HandOver {
            worker,
            kind,
            arrived,
            flow,
            range: start..self.bytes.len(),
        });
    }

    /// Registers an alias: requests to the peer's address and `port` are to use the connection that it opened (RFC 5923).
    pub fn alias(&mut self, connection: ConnectionId, port: u16) {
        self.aliases.push((connection, port));
    }

    /// Marks the peer of a connection, of any worker, as proven. It is no longer a stranger, and keep-alives keep its connection
    /// open.
    pub fn proven(&mut self, connection: ConnectionId) {
        if connection.is_some() && self.proven.last() != Some(&connection) {
            self.proven.push(connection);
        }
    }

    /// Closes a connection of this worker after everything of this round is sent. Data that its socket does not accept at once is
    /// undeliverable. A peer that is still sending may lose data that it has not read.
    pub fn close(&mut self, connection: ConnectionId) {
        self.closed.push(connection);
    }

    /// The domains that messages are for, with their indexes in [`Output::outgoing`], in that order.
    pub fn names(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let name = |(place, range): &(usize, Range<usize>)| {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            (*place, bytes)
        };
        self.names.iter().map(name)
    }

    /// Connections, and the ports of their aliases.
    pub fn aliases(&self) -> &[(ConnectionId, u16)] {
        &self.aliases
    }

    /// Connections whose peers are proven.
    pub fn proofs(&self) -> &[ConnectionId] {
        &self.proven
    }

    /// Connections to close after everything is sent.
    pub fn closed(&self) -> &[ConnectionId] {
        &self.closed
    }

    /// Asks the control plane a question.
    pub fn ask(&mut self, question: Q) {
        self.questions.push(question);
    }

    /// Gives the control plane a fact to keep.
    pub fn record(&mut self, record: R) {
        self.records.push(record);
    }

    /// Takes the records, in order.
    pub fn drain_records(&mut self) -> std::vec::Drain<'_, R> {
        self.records.drain(..)
    }

    /// The arena that all ranges refer to.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Messages to send, in order.
    pub fn outgoing(&self) -> &[Outgoing] {
        &self.outgoing
    }

    /// Messages to other workers, in order.
    pub fn hand_overs(&self) -> &[HandOver] {
        &self.hand_overs
    }

    /// Takes the questions, in order.
    pub fn drain_questions(&mut self) -> std::vec::Drain<'_, Q> {
        self.questions.drain(..)
    }

    /// The questions that wait, in order.
    pub fn questions(&self) -> &[Q] {
        &self.questions
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
            && self.hand_overs.is_empty()
            && self.questions.is_empty()
            && self.records.is_empty()
            && self.aliases.is_empty()
            && self.proven.is_empty()
            && self.closed.is_empty()
    }

    /// Removes all output but keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.outgoing.clear();
        self.hand_overs.clear();
        self.questions.clear();
        self.records.clear();
        self.names.clear();
        self.aliases.clear();
        self.proven.clear();
        self.closed.clear();
    }
}
