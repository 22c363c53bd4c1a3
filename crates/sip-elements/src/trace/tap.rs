//! The tap of one worker: finds the messages to copy.

use super::followed::Followed;
use super::{Direction, Readers, TraceId, TraceOrder, Traced};
use crate::{Question, Record};
use sip_message::{KeyHasher, Message};
use sip_transport::{Flow, HandOverKind, Output, Received, Time};
use std::sync::Arc;

type Out = Output<Question, Record>;

/// Where the output of one input begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    outgoing: usize,
    hand_overs: usize,
}

impl Mark {
    pub(crate) fn of(output: &Out) -> Self {
        Self {
            outgoing: output.outgoing().len(),
            hand_overs: output.hand_overs().len(),
        }
    }

    /// Whether the message of the input went to another worker, which then copies it.
    fn was_handed_over(self, output: &Out) -> bool {
        let added = output.hand_overs().get(self.hand_overs..);
        let mut added = added.unwrap_or_default().iter();
        added.any(|message| message.kind == HandOverKind::Received)
    }
}

/// Copies messages as an order says.
#[derive(Debug)]
pub(crate) struct Tap {
    order: Arc<TraceOrder>,
    /// The calls of each trace of the order, in the same order.
    followed: Vec<Followed>,
    /// Hashes Call-IDs. Its key is the server's secret, so a peer cannot make two calls look the same.
    hasher: KeyHasher,
    scratch: Vec<u8>,
}

impl Tap {
    /// The tap for an order; `None` if it orders nothing. Traces that go on keep their calls from the tap before.
    pub(crate) fn new(
        order: Arc<TraceOrder>,
        hasher: KeyHasher,
        before: Option<&Self>,
    ) -> Option<Box<Self>> {
        if order.traces.is_empty() && !order.everything {
            return None;
        }
        let known = |id: &TraceId| before?.followed_by(*id).cloned();
        let followed = order.traces.iter();
        let followed = followed.map(|(id, _)| known(id).unwrap_or_else(Followed::new));
        Some(Box::new(Self {
            followed: followed.collect(),
            order,
            hasher,
            scratch: Vec::new(),
        }))
    }

    fn followed_by(&self, trace: TraceId) -> Option<&Followed> {
        let mut traces = self.order.traces.iter().zip(&self.followed);
        let (_, followed) = traces.find(|((id, _), _)| *id == trace)?;
        Some(followed)
    }

    /// Records copies of what was received, and of what was sent since `mark`, as far as somebody reads them.
    pub(crate) fn copy(
        &mut self,
        (mark, now): (Mark, Time),
        received: Option<Received<'_>>,
        output: &mut Out,
    ) {
        if let Some(received) = received
            && !mark.was_handed_over(output)
        {
            let direction = Direction::Received;
            let copy = self.copy_of(received.arrived, direction, received.flow, received.bytes);
            if let Some(copy) = copy {
                output.record(copy);
            }
        }
        let mut place = mark.outgoing;
        while let Some(message) = output.outgoing().get(place) {
            let bytes = output.written(message.range.clone());
            let copy = self.copy_of(now, Direction::Sent, message.flow, bytes);
            if let Some(copy) = copy {
                output.record(copy);
            }
            place += 1;
        }
    }

    fn copy_of(
        &mut self,
        at: Time,
        direction: Direction,
        flow: Flow,
        bytes: &[u8],
    ) -> Option<Record> {
        let readers = self.readers(bytes);
        (!readers.is_empty()).then(|| {
            Record::Traced(Traced {
                at,
                direction,
                flow,
                readers,
                bytes: bytes.into(),
            })
        })
    }

    /// Who gets a copy of these bytes. Keep-alives, and anything else that is no SIP message, have no reader.
    fn readers(&mut self, bytes: &[u8]) -> Readers {
        let mut readers = Readers::default();
        let Ok(message) = Message::parse(bytes) else {
            return readers;
        };
        if self.order.everything {
            readers.0 |= Readers::COLLECTOR;
        }
        // Zero marks a vacant place.
        let call = message.call_id().map(|id| self.hasher.hash(&[id]).max(1));
        for ((id, selection), followed) in self.order.traces.iter().zip(&mut self.followed) {
            let is_followed = call.is_some_and(|call| followed.contains(call));
            if !is_followed && !selection.names(&message, &mut self.scratch) {
                continue;
            }
            if let Some(call) = call.filter(|_| !is_followed) {
                followed.insert(call);
            }
            readers.0 |= id.bit();
        }
        readers
    }
}
