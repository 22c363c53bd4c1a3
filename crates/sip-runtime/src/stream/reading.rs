//! Reads from connections, and sends the replies of their protocol layers.

use super::close::CloseReason;
use super::connection::{Admitted, Stage};
use super::connections::{Connections, name_of};
use super::framing::ReadOutcome;
use crate::event_loop::{EventLoop, Ready};
use sip_transport::{Flow, Time};
use std::io::IoSlice;
use std::time::Duration;

/// How long a closing connection may take to send its remaining output.
const LEAVING: Duration = Duration::from_secs(2);

/// The connection that a message arrived on.
#[derive(Clone, Copy)]
pub(crate) struct From {
    pub(crate) flow: Flow,
    pub(crate) is_opened_by_us: bool,
}

impl Connections {
    /// Handles a connection that is readable or writable. `deliver` gets every message that was received.
    pub(crate) fn ready(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        ready: Ready,
        deliver: impl FnMut(From, &[u8]),
    ) {
        let name = name_of(ready.token);
        if ready.writable {
            self.flush(now, event_loop, name);
        }
        if ready.readable {
            self.read(now, event_loop, name, deliver);
        }
    }

    fn read(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        mut deliver: impl FnMut(From, &[u8]),
    ) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let (was_in_message, stage) = (connection.is_in_message(), connection.stage);
        let awaited_source = connection.awaits_source;
        let (peers, options) = (&self.shared.peers, &self.options);
        let admit = |peer| {
            if options.policy.load().trusted.contains(peer) {
                Admitted::Trusted
            } else if peers.enter(peer, options.max_per_peer) {
                Admitted::Counted
            } else {
                Admitted::No
            }
        };
        let is_opened_by_us = !connection.is_accepted;
        let deliver = |flow, bytes: &[u8]| {
            let from = From {
                flow,
                is_opened_by_us,
            };
            deliver(from, bytes);
        };
        let (octets, outcome) = connection.read(&mut self.buffers, &self.options, admit, deliver);
        let is_introduced = awaited_source && !connection.awaits_source;
        self.stats.stream_octets_received.add(octets as u64);
        let messages = outcome.messages as u64;
        self.stats.stream_messages_received.add(messages);
        self.stats.pings.add(outcome.pings as u64);
        if is_introduced {
            self.register_source(now, name);
        }
        if let Err(reason) = self.write_output(now, event_loop, name) {
            return self.close(event_loop, name, reason);
        }
        self.update_accounting(name);
        self.make_room(event_loop, name);
        match outcome.end {
            // The peer can receive nothing any more.
            Some(reason) if octets == 0 => self.close(event_loop, name, reason),
            // A peer over its limit gets no reply.
            Some(reason @ CloseReason::PeerLimit) => self.close(event_loop, name, reason),
            Some(reason) => {
                let was_open = !matches!(stage, Stage::Connecting | Stage::Opening);
                self.leave(now, event_loop, name, reason, was_open);
            }
            None if stage == Stage::Opening => self.after_opening(now, event_loop, name, outcome),
            None => self.after_read(now, name, outcome, was_in_message),
        }
    }

    /// Starts closing a connection. Output already written is still sent, then the write direction is closed. No more messages
    /// are routed to the connection. If it was not open yet, its queued messages are undeliverable.
    fn leave(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        reason: CloseReason,
        was_open: bool,
    ) {
        self.set_deadline(now, name, LEAVING);
        self.leave_directory(name);
        if let Some(connection) = self.table.get(name) {
            connection.stage = Stage::Leaving(reason);
        }
        if !was_open {
            self.give_up_messages(name);
        }
        self.leaving.push(name);
        self.update_interest(event_loop, name);
    }

    /// Writes the replies of a connection's layers and queues what the socket does not accept.
    pub(super) fn write_output(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
    ) -> Result<(), CloseReason> {
        let output = self.buffers.output.as_slice();
        let Some(connection) = self.table.get(name).filter(|_| !output.is_empty()) else {
            return Ok(());
        };
        // Replies may overtake queued messages, which are not encoded yet, but not encoded bytes.
        let queue = connection.queue.as_ref();
        let written = if queue.is_none_or(|queue| queue.octets().is_empty()) {
            let result = connection.write(&[IoSlice::new(output)]);
            result.map_err(|_| CloseReason::Failed)?
        } else {
            0
        };
        self.stats.stream_octets_sent.add(written as u64);
        let left = output.len() - written;
        if left == 0 {
            return Ok(());
        }
        if !self.has_room(name, left) {
            return Err(CloseReason::Memory);
        }
        let Some(connection) = self.table.get(name) else {
            return Ok(());
        };
        let rest = self.buffers.output.get(written..).unwrap_or_default();
        let is_first = connection.queue.is_none();
        let queue = connection.queue.get_or_insert_with(Box::default);
        queue.push_octets(rest);
        if is_first && connection.is_open() {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_accounting(name);
        self.update_interest(event_loop, name);
        Ok(())
    }

    /// Called after a handshake step. If the connection is open now, the queued messages are sent.
    fn after_opening(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        outcome: ReadOutcome,
    ) {
        if self.table.get(name).is_some_and(|found| found.is_open()) {
            self.set_deadline_of_waiting(now, name);
            self.flush(now, event_loop, name);
            // The first messages may have arrived together with the last bytes of the handshake.
            self.after_read(now, name, outcome, false);
        }
    }

    /// Sets the deadline to what the connection waits for now.
    fn after_read(&mut self, now: Time, name: u32, outcome: ReadOutcome, was_in_message: bool) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        // Keep-alives prove nothing about their sender.
        let has_come = outcome.messages > 0 || outcome.pings > 0 && connection.is_proven();
        if has_come && connection.stage == Stage::Fresh {
            connection.stage = Stage::Used;
        }
        // Keep-alives do not extend the deadline of an incomplete message.
        let is_news = if connection.is_in_message() {
            outcome.messages > 0 || !was_in_message
        } else {
            has_come
        };
        if is_news {
            self.set_deadline_of_waiting(now, name);
        }
    }
}
