//! Handles datagrams that were returned as ICMP errors. The node is notified if the destination is unreachable.

use super::{Worker, WorkerSocket};
use crate::running::ControlPlane;
use crate::udp::ErrorQueue;
use sip_transport::{Flow, Input, ListenerId, Node, Time, Undelivered};
use std::os::fd::AsFd;

/// Errors read from one socket before other work gets its turn. A flood of errors cannot take more time than this.
const SHARE: usize = 32;

/// The sockets whose error queues may have entries.
pub(super) struct Errors {
    queue: ErrorQueue,
    is_due: Vec<bool>,
    due: Vec<usize>,
}

impl Errors {
    /// Creates the list for `count` sockets.
    pub(super) fn new(count: usize) -> Self {
        Self {
            queue: ErrorQueue::new(),
            is_due: vec![false; count],
            due: Vec::new(),
        }
    }

    /// Records that the error queue of a socket may have entries.
    pub(super) fn mark(&mut self, socket: usize) {
        if let Some(is_due) = self.is_due.get_mut(socket)
            && !std::mem::replace(is_due, true)
        {
            self.due.push(socket);
        }
    }

    pub(super) fn any_due(&self) -> bool {
        !self.due.is_empty()
    }
}

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    /// Notifies the node of returned datagrams, up to a limit per socket.
    pub(super) fn take_returned(&mut self, now: Time) {
        if let Some(ring) = self.event_loop.ring() {
            while let Some(listener) = ring.take_returned() {
                self.errors.mark(usize::from(listener));
            }
        }
        self.outbox
            .take_met_errors(|listener| self.errors.mark(listener));
        if !self.errors.any_due() {
            return;
        }
        for listener in std::mem::take(&mut self.errors.due) {
            if let Some(is_due) = self.errors.is_due.get_mut(listener) {
                *is_due = false;
            }
            if self.take_returned_of(now, listener) == SHARE {
                self.errors.mark(listener);
            }
        }
        self.deliver(now);
    }

    /// Reads the error queue of one listener's socket. Returns the number of errors.
    fn take_returned_of(&mut self, now: Time, listener: usize) -> usize {
        let sockets = &self.outbox.context.sockets;
        let Some(WorkerSocket::Datagrams(socket)) = sockets.get(listener) else {
            return 0;
        };
        let stats = &self.outbox.context.stats;
        for taken in 0..SHARE {
            let Some(returned) = self.errors.queue.take(socket.as_fd()) else {
                return taken;
            };
            let Some((error, to)) = returned.error else {
                continue;
            };
            if let Some(counter) = stats.icmp_errors.get(error as usize) {
                counter.add(1);
            }
            if error.is_unreachable() {
                let flow = Flow::to(ListenerId(listener as u16), to);
                let input = Input::Undeliverable(Undelivered {
                    flow,
                    bytes: returned.quote,
                    handed_over: false,
                });
                self.node.handle(now, input, &mut self.output);
            }
        }
        SHARE
    }
}
