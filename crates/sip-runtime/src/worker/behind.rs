//! A worker that is behind keeps messages in its backlog and serves the most urgent one first.

use super::Worker;
use crate::running::ControlPlane;
use crate::stats::WorkerStats;
use sip_transport::overload::{Backlog, Shed, Taken, Waiting};
use sip_transport::{Input, Node, Output, Received, Time};
use std::time::Duration;

/// A worker is behind when a message has waited this long. Below that, messages wait in the kernel's queues.
const BEHIND: Duration = Duration::from_millis(5);

/// Messages served from the backlog before the sockets get their turn again.
const SLICE: usize = 32;

/// Batches read from one socket in a row, to find the urgent messages among them.
pub(super) const BATCHES: usize = 64;

/// Passes messages to the node, directly or through the backlog.
pub(super) struct Intake<'w, N: Node> {
    pub(super) node: &'w mut N,
    pub(super) output: &'w mut Output<N::Question, N::Record>,
    pub(super) backlog: Option<&'w mut Backlog>,
    pub(super) stats: &'w WorkerStats,
}

impl<N: Node> Intake<'_, N> {
    /// Takes a message. `reliable` means that its sender does not retransmit it.
    pub(super) fn take(&mut self, now: Time, message: Received<'_>, reliable: bool) {
        let is_current = now - message.arrived <= BEHIND;
        match &mut self.backlog {
            Some(backlog) if !(is_current && backlog.is_empty()) => {
                let urgency = self.node.urgency(message.flow, message.bytes);
                let (node, output) = (&mut *self.node, &mut *self.output);
                backlog.push(urgency, message, reliable, |waiting, reason| {
                    give_up(node, output, self.stats, (now, &waiting, reason));
                });
            }
            _ => self.node.handle(now, Input::Received(message), self.output),
        }
    }
}

fn give_up<N: Node>(
    node: &mut N,
    output: &mut Output<N::Question, N::Record>,
    stats: &WorkerStats,
    (now, waiting, reason): (Time, &Waiting, Shed),
) {
    if let Some(counter) = stats.shed.get(reason as usize) {
        counter.add(1);
    }
    if reason == Shed::Refused {
        node.refuse(now, waiting.received(), output);
    }
}

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    /// Whether the backlog has messages.
    pub(super) fn is_behind(&self) -> bool {
        self.backlog.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// Whether the backlog has messages, but none has waited so long that the worker is behind. The worker then empties the backlog before
    /// it reads more. Otherwise, after a single delay, steady traffic would keep passing through the backlog, and each message would be
    /// copied.
    pub(super) fn has_caught_up(&self, now: Time) -> bool {
        let oldest = self.backlog.as_ref().and_then(Backlog::oldest);
        oldest.is_some_and(|arrived| now - arrived <= BEHIND)
    }

    /// Whether more messages may be read.
    pub(super) fn has_room(&self) -> bool {
        self.backlog.as_ref().is_none_or(Backlog::has_room)
    }

    /// Serves the backlog until more may be read. So the backlog exceeds its limit by at most one read of one connection.
    pub(super) fn make_room(&mut self) {
        while !self.has_room() {
            self.serve_backlog();
        }
    }

    /// Serves a slice of the backlog.
    pub(super) fn serve_backlog(&mut self) {
        let Some(backlog) = self.backlog.as_mut().filter(|it| !it.is_empty()) else {
            return;
        };
        let stats = &*self.outbox.context.stats;
        let was_overloaded = backlog.is_overloaded();
        let now = self.clock.now();
        for _ in 0..SLICE {
            match backlog.take(now) {
                Some(Taken::Serve(waiting)) => {
                    let input = Input::Received(waiting.received());
                    self.node.handle(now, input, &mut self.output);
                }
                Some(Taken::Shed(waiting, reason)) => {
                    let given_up = (now, &waiting, reason);
                    give_up(&mut self.node, &mut self.output, stats, given_up);
                }
                None => break,
            }
        }
        backlog.observe(self.clock.now());
        if backlog.is_overloaded() && !was_overloaded {
            stats.overloads.add(1);
        }
        stats.overloaded.set(backlog.is_overloaded().into());
        stats.backlog.set(backlog.len() as u64);
        stats.backlog_bytes.set(backlog.bytes() as u64);
        self.deliver(now);
    }
}
