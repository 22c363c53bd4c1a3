//! `Node`: the one interface between the protocol and whatever drives it (the Linux runtime, the
//! simulator, somebody else's event loop).

use crate::flow::Flow;
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

    /// The control plane replied or gave an order.
    fn answer(&mut self, now: Time, answer: Self::Answer, output: &mut Output<Self::Question>);

    /// Time has reached [`Node::next_deadline`]: everything that is due happens.
    fn expire(&mut self, now: Time, output: &mut Output<Self::Question>);

    /// When `expire` wants to be called next; `None` while no timer runs. Cheap: asked every round.
    fn next_deadline(&self) -> Option<Time>;
}

/// A message to be sent: where to, and where its bytes lie in [`Output::bytes`].
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The flow to send through.
    pub flow: Flow,
    /// Its bytes.
    pub range: Range<usize>,
}

/// A received message on its way to the worker that is its call's home.
#[derive(Clone, Debug)]
pub struct HandOver {
    /// Index of the home worker.
    pub worker: u16,
    /// The flow it was received on.
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
}

impl<Q> Default for Output<Q> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            outgoing: Vec::new(),
            hand_overs: Vec::new(),
            questions: Vec::new(),
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

    /// Hands a received message over to the worker that is its call's home.
    pub fn hand_over(&mut self, worker: u16, flow: Flow, message: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.hand_overs.push(HandOver {
            worker,
            flow,
            range: start..self.bytes.len(),
        });
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
        self.outgoing.is_empty() && self.hand_overs.is_empty() && self.questions.is_empty()
    }

    /// Forgets everything but keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.outgoing.clear();
        self.hand_overs.clear();
        self.questions.clear();
    }
}
