//! Accounts for the memory that connections hold: incomplete messages and queued output. Each worker has one limit per direction.
//! Each peer address has one limit for both directions, across all workers.
//!
//! A connection that holds nothing has no entry. If incomplete messages take too much memory, the connection whose message has
//! been incomplete for longest is closed. A peer that sends slowly thus makes room for those that do not.

use super::close::CloseReason;
use super::connection::Connection;
use super::connections::Connections;
use super::peers::Peers;
use crate::event_loop::EventLoop;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How many connections to consider for closing, starting with the one whose message has been incomplete for longest.
const LOOKS: usize = 64;

/// The accounting entry of one connection. It exists only while the connection holds something.
#[derive(Debug, Default)]
pub(super) struct Held {
    incoming: usize,
    outgoing: usize,
    /// The bytes charged to its peer: 0 if the connection does not count towards its peer's limit.
    of_peer: usize,
    /// Its position in the queue of incomplete messages; 0 if it is not queued.
    place: u64,
}

/// What all connections of a worker hold.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) incoming: usize,
    pub(super) outgoing: usize,
    /// Connections with an incomplete message by position, the oldest first.
    line: BTreeMap<u64, u32>,
    /// The position assigned last.
    last: u64,
}

impl Memory {
    /// Records what a connection holds now.
    fn enter(&mut self, name: u32, connection: &mut Connection, peers: &Peers) {
        let (incoming, outgoing) = (connection.partial_octets(), connection.queue_octets());
        if incoming + outgoing == 0 {
            return self.strike(connection, peers);
        }
        let of_peer = if connection.is_counted {
            incoming + outgoing
        } else {
            0
        };
        let peer = connection.flow.remote.ip();
        let held = connection.held.get_or_insert_default();
        self.incoming = self.incoming + incoming - held.incoming;
        self.outgoing = self.outgoing + outgoing - held.outgoing;
        if held.of_peer != of_peer {
            peers.charge(peer, held.of_peer, of_peer);
        }
        (held.incoming, held.outgoing, held.of_peer) = (incoming, outgoing, of_peer);
        if incoming == 0 {
            self.line.remove(&held.place);
            held.place = 0;
        } else if held.place == 0 {
            self.last += 1;
            held.place = self.last;
            self.line.insert(held.place, name);
        }
    }

    /// Removes the entry of a connection.
    fn strike(&mut self, connection: &mut Connection, peers: &Peers) {
        let Some(held) = connection.held.take() else {
            return;
        };
        self.incoming -= held.incoming;
        self.outgoing -= held.outgoing;
        if held.of_peer > 0 {
            peers.charge(connection.flow.remote.ip(), held.of_peer, 0);
        }
        self.line.remove(&held.place);
    }
}

impl Connections {
    /// Updates the accounting to what a connection holds now.
    pub(super) fn update_accounting(&mut self, name: u32) {
        if let Some(connection) = self.table.get(name) {
            self.memory.enter(name, connection, &self.shared.peers);
            self.publish_accounting();
        }
    }

    /// Removes a closed connection from the accounting.
    pub(super) fn remove_from_accounting(&mut self, connection: &mut Connection) {
        self.memory.strike(connection, &self.shared.peers);
        self.publish_accounting();
    }

    fn publish_accounting(&self) {
        self.stats.partial_octets.set(self.memory.incoming as u64);
        self.stats.queued_octets.set(self.memory.outgoing as u64);
    }

    /// Whether a message of `more` bytes may be queued for a peer.
    pub(super) fn may_wait(&mut self, name: u32, more: usize) -> bool {
        let queued = self.table.get(name).map(|connection| connection.queued());
        queued.is_some_and(|queued| queued + more <= self.options.max_queue)
            && self.has_room(name, more)
    }

    /// Whether all connections together, and those of this one's address, may queue `more` bytes. The last quarter of the room is
    /// reserved for proven peers, so unproven peers that do not read cannot block messages to trunks.
    pub(super) fn has_room(&mut self, name: u32, more: usize) -> bool {
        let most_of_peer = self.options.max_held_per_peer;
        let Some(connection) = self.table.get(name) else {
            return false;
        };
        let most_of_all = if connection.is_proven() {
            self.max_queued
        } else {
            self.max_queued / 4 * 3
        };
        self.memory.outgoing + more <= most_of_all
            && (!connection.is_counted
                || self.shared.peers.octets(connection.flow.remote.ip()) + more <= most_of_peer)
    }

    /// Called after a connection has received: closes other connections, or this one, until the memory limits hold.
    pub(super) fn make_room(&mut self, event_loop: &mut EventLoop, name: u32) {
        while let Some(victim) = self.victim(name) {
            self.close(event_loop, victim, CloseReason::Memory);
        }
    }

    fn victim(&mut self, name: u32) -> Option<u32> {
        let connection = self.table.get(name)?;
        let held = connection.held.as_ref().filter(|held| held.incoming > 0)?;
        let peer = connection.flow.remote.ip();
        let is_greedy =
            held.of_peer > 0 && self.shared.peers.octets(peer) > self.options.max_held_per_peer;
        if is_greedy {
            let of_peer = self.first_in_line(|other| is_of(other, peer));
            return Some(of_peer.unwrap_or(name));
        }
        if self.memory.incoming <= self.max_partial {
            return None;
        }
        let unproven = self.first_in_line(|other| !other.is_proven());
        unproven.or_else(|| self.first_in_line(|_| true))
    }

    /// The first connection with an incomplete message that meets the condition, among the oldest [`LOOKS`].
    fn first_in_line(&mut self, is_so: impl Fn(&Connection) -> bool) -> Option<u32> {
        let mut names = self.memory.line.values().take(LOOKS).copied();
        names.find(|name| self.table.get(*name).is_some_and(|found| is_so(found)))
    }
}

/// Whether a connection counts towards the limit of this peer.
fn is_of(connection: &Connection, peer: IpAddr) -> bool {
    let own = super::peers::peer(connection.flow.remote.ip());
    connection.is_counted && own == super::peers::peer(peer)
}
