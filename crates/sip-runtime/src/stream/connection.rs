//! One connection: its socket, the protocol layers between bytes and messages, and its send queue.
//!
//! ```text
//! socket ─▶ PROXY header? ─▶ TLS? ─▶ framing ─▶ messages
//! ```

use super::close::CloseReason;
use super::directory::Destination;
use super::framing::{Framing, ReadOutcome};
use super::memory::Held;
use super::options::StreamOptions;
use super::queue::Queue;
use crate::event_loop::Interest;
use crate::tls::{TlsError, TlsSession};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg, sockopt};
use sip_transport::Flow;
use sip_transport::proxy_protocol::{self, ProxyHeader};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes per read.
const AT_ONCE: usize = 64 << 10;

/// The last deadline of a connection whose peer is proven.
pub(super) const NEVER: u32 = u32::MAX;

/// Whether a connection that a load balancer forwards may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// Yes. It counts towards the limit of its peer.
    Counted,
    /// Yes. Its peer is trusted.
    Trusted,
    /// No. Its peer already has the maximum number of connections.
    No,
}

/// The life-cycle stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// We are opening it.
    Connecting,
    /// It is connected. A handshake that must precede the first message is in progress.
    Opening,
    /// Open; no message has arrived yet.
    Fresh,
    /// Open; messages have arrived.
    Used,
    /// Closing: pending output is still sent, input is discarded.
    Leaving(CloseReason),
    /// The peer has been sent the end of the stream.
    Left(CloseReason),
}

/// Buffers that the connections of a worker share, one connection at a time.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Bytes as read from the socket.
    raw: Vec<u8>,
    /// Decrypted bytes.
    plain: Vec<u8>,
    /// Replies of the layers themselves, not encrypted yet.
    reply: Vec<u8>,
    /// Bytes to write to the socket.
    pub(super) output: Vec<u8>,
}

pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) flow: Flow,
    pub(super) stage: Stage,
    /// A load balancer has yet to announce who the peer is (PROXY protocol).
    pub(super) awaits_source: bool,
    tls: Option<Box<TlsSession>>,
    framing: Framing,
    /// The start of an incomplete message.
    partial: Vec<u8>,
    pub(super) queue: Option<Box<Queue>>,
    /// The events that the event loop waits for.
    pub(super) interest: Interest,
    /// Its entry in the memory accounting.
    pub(super) held: Option<Box<Held>>,
    /// When the connection is closed unless something happens, in Unix seconds.
    pub(super) deadline: u32,
    /// When the deadline is checked; never later than the deadline.
    pub(super) scheduled: u32,
    /// When the connection is closed in any case, unless its peer is proven by then. [`NEVER`] if the peer is proven.
    pub(super) last_deadline: u32,
    /// Whether the peer opened it.
    pub(super) is_accepted: bool,
    /// Whether it counts towards the limit of its peer.
    pub(super) is_counted: bool,
    /// The destination under which the directory lists it.
    pub(super) destination: Destination,
    /// A second port under which it is found (RFC 5923), besides the port of its peer.
    pub(super) alias: Option<u16>,
}

impl Connection {
    pub(super) fn new(
        socket: OwnedFd,
        flow: Flow,
        destination: Destination,
        stage: Stage,
        framing: Framing,
        tls: Option<TlsSession>,
    ) -> Self {
        Self {
            socket,
            flow,
            stage,
            awaits_source: false,
            tls: tls.map(Box::new),
            framing,
            partial: Vec::new(),
            queue: None,
            interest: Interest::READABLE,
            held: None,
            deadline: 0,
            scheduled: 0,
            last_deadline: NEVER,
            is_accepted: stage != Stage::Connecting,
            is_counted: stage != Stage::Connecting,
            destination,
            alias: None,
        }
    }

    /// Expects the PROXY protocol header, which announces the peer.
    pub(super) fn expect_proxy_header(&mut self) {
        self.awaits_source = true;
        self.stage = Stage::Opening;
    }

    /// Whether it leads to an address: the peer's own, or the alias that the peer has asked for.
    pub(super) fn leads_to(&self, address: SocketAddr) -> bool {
        let own = self.flow.remote;
        own == address || own.ip() == address.ip() && self.alias == Some(address.port())
    }

    /// Whether its peer is proven.
    pub(super) const fn is_proven(&self) -> bool {
        self.last_deadline == NEVER
    }

    /// Whether a message is incomplete in any layer.
    pub(super) fn is_in_message(&self) -> bool {
        let tls = self.tls.as_ref();
        self.has_partial()
            || self.framing.is_in_message()
            || tls.is_some_and(|tls| tls.is_in_record())
    }

    /// Whether an incomplete message or frame is buffered.
    const fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Whether the peer has authenticated with a certificate.
    pub(super) fn is_certified(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.peer_identities().is_some())
    }

    /// Reads once and delivers every complete message. Replies are in `buffers.output` afterwards. Messages behind a load
    /// balancer are delivered only after `admit` has accepted the announced peer.
    pub(super) fn read(
        &mut self,
        buffers: &mut Buffers,
        options: &StreamOptions,
        admit: impl FnOnce(IpAddr) -> Admitted,
        mut deliver: impl FnMut(Flow, &[u8]),
    ) -> (usize, ReadOutcome) {
        let mut outcome = ReadOutcome::default();
        buffers.output.clear();
        buffers.reply.clear();
        let octets = &mut buffers.raw;
        octets.clear();
        octets.reserve(AT_ONCE);
        let count = match recv(&self.socket, spare_capacity(octets), RecvFlags::empty()) {
            Ok((0, _)) => {
                outcome.end = Some(CloseReason::ByPeer);
                return (0, outcome);
            }
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return (0, outcome),
            Err(_) => {
                outcome.end = Some(CloseReason::Failed);
                return (0, outcome);
            }
        };
        if self.end().is_none() {
            let taken = self.take(buffers, options, &mut outcome, admit, |flow, bytes| {
                deliver(flow, bytes);
            });
            if let Err(reason) = taken {
                outcome.end.get_or_insert(reason);
            }
        }
        (count, outcome)
    }

    /// Passes the bytes that were read through the layers.
    fn take(
        &mut self,
        buffers: &mut Buffers,
        options: &StreamOptions,
        outcome: &mut ReadOutcome,
        admit: impl FnOnce(IpAddr) -> Admitted,
        mut deliver: impl FnMut(Flow, &[u8]),
    ) -> Result<(), CloseReason> {
        if self.awaits_source {
            if !self.take_source(&mut buffers.raw)? {
                return Ok(());
            }
            let admitted = admit(self.flow.remote.ip());
            self.is_counted = admitted == Admitted::Counted;
            if admitted == Admitted::No {
                return Err(CloseReason::PeerLimit);
            }
        }
        let end = if self.tls.is_some() {
            self.decrypt(buffers)
        } else {
            if self.partial.is_empty() {
                std::mem::swap(&mut buffers.raw, &mut buffers.plain);
            } else {
                let needed = self.framing.needed();
                append(&mut self.partial, &buffers.raw, needed);
            }
            None
        };
        let flow = self.flow;
        if !self.is_accepted && self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking()) {
            self.framing.begin(flow.remote, &mut buffers.reply);
        }
        let is_rest = self.has_partial();
        let octets = if is_rest {
            &mut self.partial
        } else {
            &mut buffers.plain
        };
        let reply = &mut buffers.reply;
        let taken = self
            .framing
            .take(octets, options, reply, outcome, &mut |bytes: &[u8]| {
                deliver(flow, bytes);
            });
        // An error in the data takes precedence over the end that follows it.
        outcome.end = outcome.end.or(end);
        if outcome.end.is_some() || taken >= octets.len() {
            self.partial = Vec::new();
        } else if is_rest {
            self.partial.drain(..taken);
            if taken > 0 {
                self.partial.shrink_to_fit();
            }
        } else {
            self.partial = octets.get(taken..).unwrap_or_default().to_vec();
        }
        if self.stage == Stage::Opening && self.is_agreed() {
            self.stage = if self.is_accepted {
                Stage::Fresh
            } else {
                Stage::Used
            };
        }
        if !buffers.reply.is_empty() {
            self.protect(&buffers.reply, &mut buffers.output)?;
        }
        Ok(())
    }

    /// Reads the PROXY protocol header. The bytes after it stay in `raw`. Returns false if the header is incomplete.
    fn take_source(&mut self, raw: &mut Vec<u8>) -> Result<bool, CloseReason> {
        if !self.partial.is_empty() {
            let mut all = std::mem::take(&mut self.partial);
            all.append(raw);
            *raw = all;
        }
        match proxy_protocol::read(raw) {
            Ok(ProxyHeader::Incomplete) => {
                self.partial = std::mem::take(raw);
                Ok(false)
            }
            Ok(ProxyHeader::Header {
                consumed,
                addresses,
            }) => {
                raw.drain(..consumed);
                self.awaits_source = false;
                if let Some(addresses) = addresses {
                    self.flow.remote = addresses.source;
                }
                Ok(true)
            }
            Err(_) => Err(CloseReason::BadProxyHeader),
        }
    }

    /// Decrypts what was read and appends it to the incomplete message, if there is one. Returns the reason if nothing more will arrive.
    fn decrypt(&mut self, buffers: &mut Buffers) -> Option<CloseReason> {
        let tls = self.tls.as_mut()?;
        let plain = if self.partial.is_empty() {
            buffers.plain.clear();
            &mut buffers.plain
        } else {
            &mut self.partial
        };
        let received = tls.receive(&mut buffers.raw, plain);
        // After a failure, this is the alert.
        tls.take_output(&mut buffers.output);
        match received {
            Ok(received) => received.closed.then_some(CloseReason::ByPeer),
            Err(TlsError::NotTls(_)) => Some(CloseReason::NotTls),
            Err(_) => Some(CloseReason::TlsFailed),
        }
    }

    /// Whether everything that must precede the first message is done.
    fn is_agreed(&self) -> bool {
        let is_secure = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        !self.awaits_source && is_secure && self.framing.is_open()
    }

    /// Appends bytes as they go to the socket: encrypted if the connection uses TLS.
    fn protect(&mut self, octets: &[u8], into: &mut Vec<u8>) -> Result<(), CloseReason> {
        match &mut self.tls {
            None => into.extend_from_slice(octets),
            Some(tls) => tls.send(octets, into).map_err(|_| CloseReason::TlsFailed)?,
        }
        Ok(())
    }

    /// Encodes messages into `buffers.output`.
    pub(super) fn encode(
        &mut self,
        messages: &[&[u8]],
        buffers: &mut Buffers,
    ) -> Result<(), CloseReason> {
        let framed = &mut buffers.plain;
        framed.clear();
        for message in messages {
            self.framing.write(message, framed);
        }
        buffers.output.clear();
        self.protect(&buffers.plain, &mut buffers.output)
    }

    /// Whether messages go to the socket unchanged.
    pub(super) fn is_plain(&self) -> bool {
        self.tls.is_none() && self.framing.is_plain()
    }

    /// Writes as much of the parts as the socket accepts.
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

    /// Whether messages can be encoded.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Connecting | Stage::Opening)
    }

    /// The close reason, if input is no longer processed.
    pub(super) const fn end(&self) -> Option<CloseReason> {
        match self.stage {
            Stage::Leaving(reason) | Stage::Left(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether no message can be sent any more.
    pub(super) fn is_shut(&self) -> bool {
        match self.stage {
            Stage::Left(_) => true,
            // A rejected WebSocket.
            Stage::Leaving(_) => !self.framing.is_open(),
            _ => false,
        }
    }

    /// Whether messages can be written to the socket directly, without the queue.
    pub(super) fn is_writable(&self) -> bool {
        self.queue.is_none() && self.is_open() && !self.is_shut()
    }

    /// Called when the socket becomes writable while it is connecting. Returns the error if connecting failed. The first bytes of
    /// TLS or of the WebSocket are in `output` afterwards.
    pub(super) fn finish_connecting(&mut self, output: &mut Vec<u8>) -> Result<(), Errno> {
        sockopt::socket_error(&self.socket)??;
        output.clear();
        match &mut self.tls {
            Some(tls) => tls.take_output(output),
            None => self.framing.begin(self.flow.remote, output),
        }
        self.stage = if self.is_agreed() {
            Stage::Used
        } else {
            Stage::Opening
        };
        Ok(())
    }

    /// Memory of incomplete messages in all layers, in bytes.
    pub(super) fn partial_octets(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |tls| tls.kept());
        self.partial.capacity() + self.framing.kept() + tls
    }

    /// Memory of queued data, in bytes.
    pub(super) fn queue_octets(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.room())
    }

    /// How many bytes are queued.
    pub(super) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.length())
    }

    /// Whether to wait until the socket is writable.
    pub(super) fn wants_to_write(&self) -> bool {
        let queue = self.queue.as_ref();
        self.stage == Stage::Connecting
            || queue.is_some_and(|queue| self.is_open() || !queue.octets().is_empty())
    }

    /// Prepares the close message of TLS, in `output`.
    pub(super) fn write_close_notify(&mut self, output: &mut Vec<u8>) {
        output.clear();
        if let Some(tls) = &mut self.tls {
            tls.close(output);
        }
    }

    /// Closes the write direction.
    pub(super) fn shut_down(&mut self) {
        if let Stage::Leaving(reason) = self.stage {
            self.stage = Stage::Left(reason);
        }
        // The socket may already be closed.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }
}

/// Appends bytes to an incomplete message. `needed` is the message's total length, if known. Capacity grows with the received
/// bytes, never beyond what the message needs.
fn append(partial: &mut Vec<u8>, octets: &[u8], needed: Option<usize>) {
    let length = partial.len() + octets.len();
    if length > partial.capacity() {
        let most = needed.unwrap_or(usize::MAX);
        let room = (2 * partial.len()).min(most).max(length);
        partial.reserve_exact(room - partial.len());
    }
    partial.extend_from_slice(octets);
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        let size = size_of::<Connection>();
        println!("connection: {size} bytes");
        assert!(size <= 216, "{size} bytes");
    }

    #[test]
    fn room_grows_with_what_comes_and_no_further_than_the_message() {
        let mut partial = b"0123456789".to_vec();
        append(&mut partial, b"x", Some(1_000_000));
        assert!(partial.capacity() <= 20, "{}", partial.capacity());
        append(&mut partial, &[b'x'; 100], None);
        assert_eq!(partial.capacity(), 111);
        append(&mut partial, b"x", Some(120));
        assert_eq!((partial.len(), partial.capacity()), (112, 120));
    }
}
