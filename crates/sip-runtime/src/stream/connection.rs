//! One connection: its socket, what has come in of a message, and what waits to go out.

use super::close::CloseReason;
use super::queue::Queue;
use crate::event_loop::Interest;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};
use sip_message::framing::{Frame, Framer};
use sip_transport::Flow;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Octets that a message's rest is read in at a time.
const READ_REST: usize = 8 << 10;

/// What the answer to a double CRLF is (RFC 5626 section 4.4.1).
pub(super) const PONG: &[u8] = b"\r\n";

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// We are opening it.
    Opening,
    /// It was accepted, and no message has come.
    Fresh,
    /// Messages come and go.
    Used,
    /// What came makes no sense: what is written still goes out, what comes is thrown away.
    Leaving(CloseReason),
}

/// What one read brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    pub(super) octets: usize,
    pub(super) messages: usize,
    /// Keep-alives that are to be answered.
    pub(super) pings: usize,
    /// Why the connection cannot go on.
    pub(super) end: Option<CloseReason>,
}

pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) flow: Flow,
    pub(super) stage: Stage,
    framer: Framer,
    /// The beginning of a message.
    partial: Vec<u8>,
    pub(super) queue: Option<Box<Queue>>,
    /// What the event loop waits for.
    pub(super) interest: Interest,
    /// When it is closed unless something happens, in Unix seconds.
    pub(super) deadline: u64,
    /// When it is looked at whether the deadline has come; never later than that.
    pub(super) scheduled: u64,
    /// It was accepted: it counts for its peer.
    pub(super) is_accepted: bool,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, flow: Flow, stage: Stage, framer: Framer) -> Self {
        Self {
            socket,
            flow,
            stage,
            framer,
            partial: Vec::new(),
            queue: None,
            interest: Interest::READABLE,
            deadline: 0,
            scheduled: 0,
            is_accepted: stage == Stage::Fresh,
        }
    }

    /// Whether a message has begun and not ended.
    pub(super) fn is_in_message(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Reads once and hands out every message that is whole. `buffer` is for what came, where no message has begun.
    pub(super) fn read(
        &mut self,
        buffer: &mut Vec<u8>,
        mut deliver: impl FnMut(Flow, &[u8]),
    ) -> Brought {
        buffer.clear();
        let is_rest = self.is_in_message();
        let octets = if is_rest {
            self.partial.reserve(READ_REST);
            &mut self.partial
        } else {
            buffer
        };
        let mut brought = Brought::default();
        match recv(&self.socket, spare_capacity(octets), RecvFlags::empty()) {
            Ok((0, _)) => brought.end = Some(CloseReason::ByPeer),
            Ok((count, _)) => brought.octets = count,
            Err(Errno::AGAIN | Errno::INTR) => return brought,
            Err(_) => brought.end = Some(CloseReason::Failed),
        }
        if brought.end.is_some() || matches!(self.stage, Stage::Leaving(_)) {
            return brought;
        }
        let taken = take_messages(
            &mut self.framer,
            octets,
            self.flow,
            &mut brought,
            &mut deliver,
        );
        let rest = octets.get(taken..).unwrap_or_default();
        if brought.end.is_some() {
            // The node answers what it can make of it.
            deliver(self.flow, rest);
            self.partial = Vec::new();
        } else if rest.is_empty() {
            self.partial = Vec::new();
        } else if is_rest {
            self.partial.drain(..taken);
        } else {
            self.partial = rest.to_vec();
        }
        brought
    }

    /// Writes as much of the parts as the socket takes.
    pub(super) fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            let result = sendmsg(
                &self.socket,
                parts,
                &mut SendAncillaryBuffer::default(),
                flags,
            );
            match result {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) => return Ok(0),
                result => return result,
            }
        }
    }

    /// Whether what is to be sent goes straight to the socket.
    pub(super) fn is_writable(&self) -> bool {
        self.queue.is_none() && self.stage != Stage::Opening
    }

    /// The socket became writable while it was being opened: is it open?
    pub(super) fn finish_opening(&mut self) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket)??;
        self.stage = Stage::Used;
        Ok(())
    }

    /// How many octets wait to be written.
    pub(super) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.length())
    }

    /// Says to the peer that nothing more comes from us.
    pub(super) fn shut_down(&self) {
        // It may be gone already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }
}

/// Hands out the whole messages at the beginning of `octets`. Returns how many octets they are.
fn take_messages(
    framer: &mut Framer,
    octets: &[u8],
    flow: Flow,
    brought: &mut Brought,
    deliver: &mut impl FnMut(Flow, &[u8]),
) -> usize {
    let mut taken = 0;
    loop {
        let rest = octets.get(taken..).unwrap_or_default();
        match framer.next(rest) {
            Ok(Frame::Message(length)) => {
                deliver(flow, rest.get(..length).unwrap_or_default());
                brought.messages += 1;
                taken += length;
            }
            Ok(Frame::Ping(length)) => {
                brought.pings += 1;
                taken += length;
            }
            Ok(Frame::Crlf(length)) => taken += length,
            Ok(Frame::Incomplete) => return taken,
            Err(error) => {
                brought.end = Some(error.into());
                return taken;
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
