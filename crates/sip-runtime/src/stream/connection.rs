//! One connection: its socket, what lies between its octets and messages, and what waits to go out.
//!
//! ```text
//! socket ─▶ PROXY header? ─▶ TLS? ─▶ framing ─▶ messages
//! ```

use super::close::CloseReason;
use super::directory::Destination;
use super::framing::{Brought, Framing};
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

/// Octets read at a time.
const AT_ONCE: usize = 64 << 10;

/// The last deadline of a connection whose peer is proven.
pub(super) const NEVER: u32 = u32::MAX;

/// Whether a connection of a peer that a balancer brings may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// As one of its peer's.
    Counted,
    /// Its peer is trusted.
    Trusted,
    /// Its peer has as many as it may.
    No,
}

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// We are opening it.
    Connecting,
    /// It is there; whatever must be agreed on before the first message is being agreed on.
    Opening,
    /// No message has come.
    Fresh,
    /// Messages come and go.
    Used,
    /// What came makes no sense: what is written still goes out, what comes is thrown away.
    Leaving(CloseReason),
    /// The peer has been told that this was all.
    Left(CloseReason),
}

/// What the connections of a worker read into and write from, one after the other.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// As it came from the socket.
    raw: Vec<u8>,
    /// Decrypted.
    plain: Vec<u8>,
    /// What is to be answered by the layers themselves, not encrypted.
    reply: Vec<u8>,
    /// What goes to the socket.
    pub(super) output: Vec<u8>,
}

pub(super) struct Connection {
    socket: OwnedFd,
    pub(super) flow: Flow,
    pub(super) stage: Stage,
    /// A balancer will say who is connected (PROXY protocol).
    pub(super) awaits_source: bool,
    tls: Option<Box<TlsSession>>,
    framing: Framing,
    /// The beginning of a message.
    partial: Vec<u8>,
    pub(super) queue: Option<Box<Queue>>,
    /// What the event loop waits for.
    pub(super) interest: Interest,
    /// What the books say that it holds.
    pub(super) held: Option<Box<Held>>,
    /// When it is closed unless something happens, in Unix seconds.
    pub(super) deadline: u32,
    /// When it is looked at whether the deadline has come; never later than that.
    pub(super) scheduled: u32,
    /// When it is closed whatever happens, unless its peer is proven by then. [`NEVER`]: its peer is more than a stranger.
    pub(super) last_deadline: u32,
    /// The peer opened it.
    pub(super) is_accepted: bool,
    /// It counts as one of its peer's.
    pub(super) is_counted: bool,
    /// Under which it is found.
    pub(super) destination: Destination,
    /// The port under which it is found beside that of its peer (RFC 5923).
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

    /// The first octets will say who is connected.
    pub(super) fn await_source(&mut self) {
        self.awaits_source = true;
        self.stage = Stage::Opening;
    }

    /// Whether it leads to an address: that of its peer, or the one under which the peer wants to be found.
    pub(super) fn leads_to(&self, address: SocketAddr) -> bool {
        let own = self.flow.remote;
        own == address || own.ip() == address.ip() && self.alias == Some(address.port())
    }

    /// Whether its peer is more than a stranger.
    pub(super) const fn is_proven(&self) -> bool {
        self.last_deadline == NEVER
    }

    /// Whether a message has begun and not ended, in whichever layer.
    pub(super) fn is_in_message(&self) -> bool {
        let tls = self.tls.as_ref();
        self.has_partial()
            || self.framing.is_in_message()
            || tls.is_some_and(|tls| tls.is_in_record())
    }

    /// Whether the beginning of a message or frame is kept.
    const fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Whether the peer has proved who it is by a certificate.
    pub(super) fn is_certified(&self) -> bool {
        self.tls
            .as_ref()
            .is_some_and(|tls| tls.peer_identities().is_some())
    }

    /// Reads once and hands out every message that is whole. What is to be written in answer is in `buffers.output` then. Whom a
    /// balancer brings is heard only once he has been admitted.
    pub(super) fn read(
        &mut self,
        buffers: &mut Buffers,
        options: &StreamOptions,
        admit: impl FnOnce(IpAddr) -> Admitted,
        mut deliver: impl FnMut(Flow, &[u8]),
    ) -> (usize, Brought) {
        let mut brought = Brought::default();
        buffers.output.clear();
        buffers.reply.clear();
        let octets = &mut buffers.raw;
        octets.clear();
        octets.reserve(AT_ONCE);
        let count = match recv(&self.socket, spare_capacity(octets), RecvFlags::empty()) {
            Ok((0, _)) => {
                brought.end = Some(CloseReason::ByPeer);
                return (0, brought);
            }
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return (0, brought),
            Err(_) => {
                brought.end = Some(CloseReason::Failed);
                return (0, brought);
            }
        };
        if self.end().is_none() {
            let taken = self.take(buffers, options, &mut brought, admit, |flow, bytes| {
                deliver(flow, bytes);
            });
            if let Err(reason) = taken {
                brought.end.get_or_insert(reason);
            }
        }
        (count, brought)
    }

    /// What has been read goes through the layers.
    fn take(
        &mut self,
        buffers: &mut Buffers,
        options: &StreamOptions,
        brought: &mut Brought,
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
            .take(octets, options, reply, brought, &mut |bytes: &[u8]| {
                deliver(flow, bytes);
            });
        // What came before the end counts.
        brought.end = brought.end.or(end);
        if brought.end.is_some() || taken >= octets.len() {
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

    /// Who is connected, as a balancer says. What comes behind it stays in `raw`. False: it has not said so yet.
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

    /// Decrypts what has been read, behind what a message has begun with. Returns why nothing more will come.
    fn decrypt(&mut self, buffers: &mut Buffers) -> Option<CloseReason> {
        let tls = self.tls.as_mut()?;
        let plain = if self.partial.is_empty() {
            buffers.plain.clear();
            &mut buffers.plain
        } else {
            &mut self.partial
        };
        let received = tls.receive(&mut buffers.raw, plain);
        // Where it failed, this is the alert that says so.
        tls.take_output(&mut buffers.output);
        match received {
            Ok(received) => received.closed.then_some(CloseReason::ByPeer),
            Err(TlsError::NotTls(_)) => Some(CloseReason::NotTls),
            Err(_) => Some(CloseReason::TlsFailed),
        }
    }

    /// Whether everything is agreed on that comes before the first message.
    fn is_agreed(&self) -> bool {
        let is_secure = self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking());
        !self.awaits_source && is_secure && self.framing.is_open()
    }

    /// Appends octets as they go to the socket: encrypted where there is TLS.
    fn protect(&mut self, octets: &[u8], into: &mut Vec<u8>) -> Result<(), CloseReason> {
        match &mut self.tls {
            None => into.extend_from_slice(octets),
            Some(tls) => tls.send(octets, into).map_err(|_| CloseReason::TlsFailed)?,
        }
        Ok(())
    }

    /// Makes octets for the socket of messages, in `buffers.output`.
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

    /// Whether messages go to the socket as they are.
    pub(super) fn is_plain(&self) -> bool {
        self.tls.is_none() && self.framing.is_plain()
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

    /// Whether messages can be made octets of.
    pub(super) const fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Connecting | Stage::Opening)
    }

    /// Why nothing that comes counts any more.
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
            // A WebSocket that was refused.
            Stage::Leaving(_) => !self.framing.is_open(),
            _ => false,
        }
    }

    /// Whether what is to be sent goes straight to the socket.
    pub(super) fn is_writable(&self) -> bool {
        self.queue.is_none() && self.is_open() && !self.is_shut()
    }

    /// The socket became writable while it was being opened: is it open? What TLS, or a WebSocket, begins with is in `output` then.
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

    /// Room that the beginnings of messages take, in all layers.
    pub(super) fn partial_octets(&self) -> usize {
        let tls = self.tls.as_ref().map_or(0, |tls| tls.kept());
        self.partial.capacity() + self.framing.kept() + tls
    }

    /// Room that what waits to be written takes.
    pub(super) fn queue_octets(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.room())
    }

    /// How many octets wait to be written.
    pub(super) fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.length())
    }

    /// Whether the socket is to say when it takes more.
    pub(super) fn wants_to_write(&self) -> bool {
        let queue = self.queue.as_ref();
        self.stage == Stage::Connecting
            || queue.is_some_and(|queue| self.is_open() || !queue.octets().is_empty())
    }

    /// What a peer is told that we leave, in `output`.
    pub(super) fn say_goodbye(&mut self, output: &mut Vec<u8>) {
        output.clear();
        if let Some(tls) = &mut self.tls {
            tls.close(output);
        }
    }

    /// Nothing more comes from us.
    pub(super) fn shut_down(&mut self) {
        if let Stage::Leaving(reason) = self.stage {
            self.stage = Stage::Left(reason);
        }
        // It may be gone already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }
}

/// Appends octets to the beginning of a message of which so many are needed, as far as that is known. Room grows with what has come,
/// and no further than the message needs.
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
