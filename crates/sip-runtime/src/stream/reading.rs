//! What comes over connections, and what their layers answer by themselves.

use super::close::CloseReason;
use super::connection::Stage;
use super::connections::{Connections, name_of};
use super::framing::Brought;
use crate::event_loop::{EventLoop, Ready};
use sip_transport::{Flow, Time};
use std::io::IoSlice;
use std::time::Duration;

/// How long what is written to a peer that is being left may take to reach it.
const LEAVING: Duration = Duration::from_secs(2);

impl Connections {
    /// Something can be read from a connection, or written to it. `deliver` gets every message that came.
    pub(crate) fn ready(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        ready: Ready,
        deliver: impl FnMut(Flow, &[u8]),
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
        deliver: impl FnMut(Flow, &[u8]),
    ) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        let (was_in_message, stage) = (connection.is_in_message(), connection.stage);
        let source = connection.flow.remote;
        let (octets, brought) = connection.read(&mut self.buffers, &self.options, deliver);
        let flow = connection.flow;
        self.stats.stream_octets_received.add(octets as u64);
        let messages = brought.messages as u64;
        self.stats.stream_messages_received.add(messages);
        self.stats.pings.add(brought.pings as u64);
        if flow.remote != source {
            self.move_to_source(flow, source);
        }
        let written = self.write_output(now, event_loop, name);
        match (written.err().or(brought.end), stage) {
            (None, Stage::Opening) => self.after_opening(now, event_loop, name, brought),
            (None, _) => self.after_read(now, name, brought, was_in_message),
            (Some(CloseReason::ByPeer | CloseReason::Failed), Stage::Leaving(reason))
            | (Some(reason @ (CloseReason::ByPeer | CloseReason::Failed)), _) => {
                self.close(event_loop, name, reason);
            }
            (Some(reason), _) => self.leave(now, name, reason),
        }
    }

    /// What is written still goes out; then the peer is told that this was all.
    fn leave(&mut self, now: Time, name: u32, reason: CloseReason) {
        if let Some(connection) = self.slab.get(name) {
            connection.stage = Stage::Leaving(reason);
            self.leaving.push(name);
            self.set_deadline(now, name, LEAVING);
        }
    }

    /// Writes what the layers of a connection have to say, and queues what its socket does not take.
    pub(super) fn write_output(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
    ) -> Result<(), CloseReason> {
        let output = self.buffers.output.as_slice();
        let Some(connection) = self.slab.get(name).filter(|_| !output.is_empty()) else {
            return Ok(());
        };
        // It may overtake messages, which are not encoded yet, but not octets.
        let queue = connection.queue.as_ref();
        let written = if queue.is_none_or(|queue| queue.octets().is_empty()) {
            let result = connection.write(&[IoSlice::new(output)]);
            result.map_err(|_| CloseReason::Failed)?
        } else {
            0
        };
        self.stats.stream_octets_sent.add(written as u64);
        let rest = output.get(written..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        let is_first = connection.queue.is_none();
        let queue = connection.queue.get_or_insert_with(Box::default);
        queue.push_octets(rest);
        self.queued += rest.len();
        if is_first && connection.is_open() {
            self.set_deadline(now, name, self.options.write_timeout);
        }
        self.update_interest(event_loop, name);
        Ok(())
    }

    /// What had to be agreed on may be agreed on now: what waited for it goes out.
    fn after_opening(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        name: u32,
        brought: Brought,
    ) {
        let Some(connection) = self.slab.get(name).filter(|found| found.is_open()) else {
            return;
        };
        let patience = match connection.stage {
            Stage::Fresh if connection.is_accepted => self.options.silent_timeout,
            _ => self.options.idle_timeout,
        };
        self.set_deadline(now, name, patience);
        self.flush(now, event_loop, name);
        // The first message may come with the last octets of a handshake.
        self.after_read(now, name, brought, false);
    }

    /// Moves the deadline to what the connection waits for now.
    fn after_read(&mut self, now: Time, name: u32, brought: Brought, was_in_message: bool) {
        let Some(connection) = self.slab.get(name) else {
            return;
        };
        let has_come = brought.messages + brought.pings > 0;
        if has_come && connection.stage == Stage::Fresh {
            connection.stage = Stage::Used;
        }
        if connection.queue.is_some() {
            return; // The peer has to read before anything else counts.
        }
        if connection.is_in_message() {
            if has_come || !was_in_message {
                self.set_deadline(now, name, self.options.message_timeout);
            }
        } else if has_come {
            self.set_deadline(now, name, self.options.idle_timeout);
        }
    }
}
