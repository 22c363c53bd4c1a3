//! Accepts the connections that peers open.

use super::close::RefuseReason;
use super::connection::Stage;
use super::connections::{Connections, Opened};
use super::listening::Listening;
use crate::event_loop::EventLoop;
use crate::tls::TlsSession;
use rustix::io::Errno;
use sip_transport::{Flow, ListenerId, Protocol, Time};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// Connections accepted from one listener before other work gets its turn.
const AT_ONCE: usize = 128;

impl Connections {
    /// Accepts the connections that are queued at a listener.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        id: ListenerId,
        listening: &Listening,
    ) {
        for _ in 0..AT_ONCE {
            match listening.accept() {
                // This connection got the descriptor that another worker needs to refuse a peer.
                Ok(_) if self.shared.wanted.is_any() => self.refused(RefuseReason::NoDescriptor),
                Ok((socket, peer)) => {
                    let flow = Flow::to(id, peer);
                    if let Err(reason) = self.admit(now, event_loop, socket, flow) {
                        self.refused(reason);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => {
                    return self.refuse_one(now, event_loop, id, listening);
                }
                // For example, a peer that disconnected while it was queued. The error concerns only that connection.
                Err(_) => {}
            }
        }
    }

    fn admit(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        socket: OwnedFd,
        flow: Flow,
    ) -> Result<(), RefuseReason> {
        let (peer, most) = (flow.remote.ip(), self.options.max_per_peer);
        let listener = self.listener(flow.listener);
        let is_behind_balancer = listener.is_some_and(|listener| listener.behind_balancer);
        let admission = self.options.admission.as_ref();
        if !is_behind_balancer && admission.is_some_and(|admission| !admission.admits(peer, now)) {
            return Err(RefuseReason::Banned);
        }
        let is_trusted = !is_behind_balancer && self.is_trusted(peer);
        let is_counted = !is_behind_balancer && !is_trusted;
        if is_counted && !self.shared.peers.enter(peer, most) {
            return Err(RefuseReason::PeerLimit);
        }
        // Connections of trusted peers may also use the slots that are reserved for outgoing connections.
        let kept = if is_trusted {
            0
        } else {
            self.options.kept_for_opening
        };
        let most = self.options.max_connections.saturating_sub(kept);
        let rank = if is_counted {
            self.shared.peers.connections(peer)
        } else {
            0
        };
        if !self.take_slot_of_accepted(now, event_loop, most, rank) {
            self.leave_peer(peer, is_counted);
            return Err(RefuseReason::TableFull);
        }
        let protocol = self.protocol(flow.listener);
        let (stage, tls) = match protocol {
            Protocol::Udp | Protocol::Tcp => (Stage::Fresh, None),
            Protocol::Ws => (Stage::Opening, None),
            Protocol::Tls | Protocol::Wss => (Stage::Opening, self.accept_tls()),
        };
        let directory = &self.shared.directory;
        let destination = directory.destination(protocol, flow.remote, None);
        let opened = Opened {
            socket,
            flow,
            destination,
            stage,
            tls,
        };
        let inserted = self.insert(event_loop, opened);
        let Some(name) = inserted else {
            self.leave_peer(peer, is_counted);
            return Err(RefuseReason::TableFull);
        };
        self.stats.connections_accepted.add(1);
        if let Some(connection) = self.table.get(name) {
            connection.is_counted = is_counted;
            if is_behind_balancer {
                connection.expect_proxy_header();
            }
        }
        if !is_trusted {
            self.mark_unproven(now, name);
        }
        let patience = if stage == Stage::Fresh && !is_behind_balancer {
            self.options.silent_timeout
        } else {
            self.options.open_timeout
        };
        self.set_deadline(now, name, patience);
        Ok(())
    }

    fn leave_peer(&self, peer: IpAddr, is_counted: bool) {
        if is_counted {
            self.shared.peers.leave(peer);
        }
    }

    pub(super) fn is_trusted(&self, peer: IpAddr) -> bool {
        self.options.policy.load().trusted.contains(peer)
    }

    /// Creates the server side of TLS. It can fail only if there is no certificate, which the configuration rules out.
    fn accept_tls(&self) -> Option<TlsSession> {
        let context = self.options.tls.as_ref()?.context();
        TlsSession::accept(context.acceptor()?).ok()
    }

    /// Handles the source address that a load balancer has announced: from now on the connection is found under that address.
    pub(super) fn register_source(&mut self, now: Time, name: u32) {
        let Some(connection) = self.table.get(name) else {
            return;
        };
        let (flow, before) = (connection.flow, connection.destination);
        connection.destination = before.at(flow.remote);
        let directory = &self.shared.directory;
        directory.leave(before, flow.connection);
        directory.enter(connection.destination, flow.connection);
        if self.is_trusted(flow.remote.ip()) {
            self.prove(now, flow.connection);
        }
    }
}
