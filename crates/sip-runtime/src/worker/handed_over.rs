//! Handles what other workers have handed over. Received messages are treated like those from the sockets.

use super::behind::Intake;
use super::{INBOX_SHARE, Worker};
use crate::inbox::Inbox;
use crate::running::ControlPlane;
use sip_transport::{HandOverKind, Input, ListenerId, Node, Protocol, Received, Time, Undelivered};

/// Messages after which the clock is read again. Each message takes time, during which the ones behind it wait.
const AT_ONCE: usize = 32;

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    /// Takes messages from the inbox while there is room for them.
    pub(super) fn take_hand_overs(&mut self, now: Time) {
        let (mut now, mut taken) = (now, 0);
        while taken < INBOX_SHARE && self.has_room() {
            let Some(message) = self.outbox.inbox().and_then(Inbox::take_hand_over) else {
                break;
            };
            taken += 1;
            if taken % AT_ONCE == 0 {
                now = self.clock.now();
            }
            let (flow, bytes) = (message.flow, message.bytes.as_slice());
            match message.kind {
                HandOverKind::Received => {
                    let is_reliable = self.is_reliable(flow.listener);
                    let mut intake = Intake {
                        node: &mut self.node,
                        output: &mut self.output,
                        backlog: self.backlog.as_mut(),
                        stats: &self.outbox.context.stats,
                    };
                    let message = Received {
                        arrived: message.arrived.min(now),
                        flow,
                        bytes,
                        handed_over: true,
                        over_our_connection: false,
                    };
                    intake.take(now, message, is_reliable);
                }
                HandOverKind::Undeliverable => {
                    let input = Input::Undeliverable(Undelivered {
                        flow,
                        bytes,
                        handed_over: true,
                    });
                    self.node.handle(now, input, &mut self.output);
                }
                HandOverKind::Proven => {
                    self.outbox.connections.prove(now, flow.connection);
                }
                HandOverKind::ToSend => {
                    let event_loop = &mut self.event_loop;
                    self.outbox.send_for_other(now, event_loop, flow, bytes);
                }
            }
            self.outbox.keep_buffer(message.bytes);
        }
        if taken > 0 {
            self.stats().handed_over_in.add(taken as u64);
            self.deliver(now);
        }
    }

    /// Whether senders to this listener do not retransmit.
    fn is_reliable(&self, listener: ListenerId) -> bool {
        let listener = self.outbox.context.listeners.get(usize::from(listener.0));
        listener.is_some_and(|listener| listener.protocol != Protocol::Udp)
    }
}
