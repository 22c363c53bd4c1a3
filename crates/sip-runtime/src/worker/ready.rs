//! Connections that are ready have their turn, and leave others theirs.

use super::behind::Intake;
use super::{Worker, WorkerSocket};
use crate::running::QuestionSink;
use sip_transport::{Node, Received, Time};
use std::sync::Arc;
use std::time::Duration;

/// Octets of output after which it goes out while connections are still being read.
const ENOUGH_OUTPUT: usize = 256 << 10;

/// Connections after which some of what waits is served.
const IN_A_ROW: usize = 8;

/// How long connections have their turn in one round. A handshake takes a millisecond, and hundreds may be ready at once.
const TURN: Duration = Duration::from_millis(5);

impl<N: Node, Q: QuestionSink<N::Question>> Worker<N, Q> {
    /// Reads and writes connections that are ready, for a while. Those that are left have their turn in the next round.
    pub(super) fn serve_connections(&mut self, now: Time) {
        if self.ready.is_empty() {
            return;
        }
        let arrived = self.ready_since.min(now);
        let stats = Arc::clone(&self.post.surroundings.stats);
        let mut all = std::mem::take(&mut self.ready);
        let begun = self.clock.now();
        let mut served = 0;
        self.make_room();
        for ready in all.iter().copied() {
            // Among thousands that are ready the last ones wait for the first ones.
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
            self.post
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
        self.post.connections.take_leave();
        if !self.ready.is_empty() {
            self.expect_datagrams();
        }
    }

    /// An event loop that names some descriptors at a time may not come to the sockets of datagrams among so many connections.
    fn expect_datagrams(&mut self) {
        let sockets = self.post.surroundings.sockets.iter().enumerate();
        for (place, socket) in sockets {
            if let WorkerSocket::Datagrams(_) = socket {
                self.waiting.mark(place);
            }
        }
    }
}
