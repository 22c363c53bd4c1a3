//! Serves connections that are ready, without starving other work.

use super::behind::Intake;
use super::{Worker, WorkerSocket};
use crate::running::ControlPlane;
use sip_transport::{Node, Received, Time};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of output after which it is sent while connections are still being read.
const ENOUGH_OUTPUT: usize = 256 << 10;

/// Connections after which part of the backlog is served.
const IN_A_ROW: usize = 8;

/// How long to serve connections in one round. A handshake takes a millisecond, and hundreds of connections may be ready at once.
const TURN: Duration = Duration::from_millis(5);

impl<N: Node, C: ControlPlane<N::Question, N::Record>> Worker<N, C> {
    /// Reads and writes ready connections for a limited time. The next round serves the rest.
    pub(super) fn serve_connections(&mut self, now: Time) {
        if self.ready.is_empty() {
            return;
        }
        let arrived = self.ready_since.min(now);
        let stats = Arc::clone(&self.outbox.context.stats);
        let mut all = std::mem::take(&mut self.ready);
        let begun = self.clock.now();
        let mut served = 0;
        self.make_room();
        for ready in all.iter().copied() {
            // Read the clock for each one: with thousands of ready connections, the last ones wait for the first ones.
            let now = self.clock.now();
            if served > 0 && now - begun >= TURN {
                break;
            }
            let mut intake = Intake {
                node: &mut self.node,
                output: &mut self.output,
                backlog: self.backlog.as_mut(),
                stats: &stats,
            };
            self.outbox
                .connections
                .ready(now, &mut self.event_loop, ready, |from, bytes| {
                    let message = Received {
                        arrived,
                        flow: from.flow,
                        bytes,
                        handed_over: false,
                        over_our_connection: from.is_opened_by_us,
                    };
                    intake.take(now, message, true);
                });
            if self.output.bytes().len() > ENOUGH_OUTPUT {
                self.deliver(now);
            }
            served += 1;
            if served % IN_A_ROW == 0 {
                self.serve_backlog();
            }
            self.make_room();
        }
        all.drain(..served);
        self.ready = all;
        self.deliver(now);
        self.outbox.connections.shut_down_closing();
        if !self.ready.is_empty() {
            self.expect_datagrams();
        }
    }

    /// An event loop reports a limited number of descriptors at a time. Among many ready connections, it may miss the UDP sockets.
    fn expect_datagrams(&mut self) {
        let sockets = self.outbox.context.sockets.iter().enumerate();
        for (place, socket) in sockets {
            if let WorkerSocket::Datagrams(_) = socket {
                self.waiting.mark(place);
            }
        }
    }
}
