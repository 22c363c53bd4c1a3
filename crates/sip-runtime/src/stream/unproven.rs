//! Accepted connections with unproven peers: how long they may stay, and which one makes room for a new connection.

use super::close::CloseReason;
use super::connection::{Connection, NEVER};
use super::connections::{Connections, seconds_of};
use super::options::UNPROVEN_LIFETIME_FACTOR;
use super::peers::Peers;
use crate::event_loop::EventLoop;
use sip_transport::{ConnectionId, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many unproven connections to consider for displacement, starting with the oldest.
const LOOKS: usize = 16;

/// A worker's connections with unproven peers, oldest first, as (second in which it is closed in any case, key).
#[derive(Debug, Default)]
pub(super) struct UnprovenPeers(BTreeSet<(u32, u32)>);

impl UnprovenPeers {
    pub(super) fn remove(&mut self, name: u32, connection: &Connection) {
        self.0.remove(&(connection.last_deadline, name));
    }
}

impl Connections {
    pub(super) fn unproven_timeout(&self) -> Duration {
        let timeout = self.options.unproven_timeout;
        timeout.unwrap_or(self.options.idle_timeout)
    }

    /// The second in which an unproven connection that is accepted now is closed, whatever it does until then.
    fn last_second(&self, now: Time) -> u32 {
        seconds_of(now + self.unproven_timeout() * UNPROVEN_LIFETIME_FACTOR)
    }

    /// Marks the peer of an accepted connection as unproven, which limits the life of the connection.
    pub(super) fn mark_unproven(&mut self, now: Time, name: u32) {
        if self.options.unproven_timeout.is_none() {
            return;
        }
        let last = self.last_second(now);
        if let Some(connection) = self.table.get(name) {
            connection.last_deadline = last;
            self.unproven_peers.0.insert((last, name));
            self.shared
                .unproven
                .pin()
                .insert(connection.flow.connection);
        }
    }

    /// Marks the peer of a connection as proven. Returns false if another worker owns the connection and must be notified.
    pub(crate) fn prove(&mut self, now: Time, id: ConnectionId) -> bool {
        if !self.shared.unproven.pin().contains(&id) {
            return true;
        }
        if id.worker() != self.worker {
            return false;
        }
        self.shared.unproven.pin().remove(&id);
        if let Some(connection) = self.table.get(id.slot()) {
            self.unproven_peers.remove(id.slot(), connection);
            connection.last_deadline = NEVER;
            self.set_deadline_of_waiting(now, id.slot());
        }
        true
    }

    /// Takes a slot for an accepted connection. If none is free, an unproven connection may be displaced. `rank` is how many
    /// connections the peer has, including this one; 0 if they are not counted.
    pub(super) fn take_slot_of_accepted(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        most: usize,
        rank: u32,
    ) -> bool {
        if self.shared.connection_slots.take(most) {
            return true;
        }
        let Some(stranger) = self.connection_to_displace(now, rank) else {
            return false;
        };
        self.close(event_loop, stranger, CloseReason::Displaced);
        // Another worker may take the slot first.
        self.shared.connection_slots.take(most)
    }

    /// The connection to displace. Among the oldest unproven ones, it is the first of the peer with the most connections. It is
    /// displaced if that peer has more connections than the new one's peer. If both have the same number, it is displaced only if
    /// it is older than the open timeout. Otherwise, new connections would displace each other before any peer can prove itself.
    fn connection_to_displace(&mut self, now: Time, rank: u32) -> Option<u32> {
        let open_timeout = self.options.open_timeout.as_secs() as u32;
        let newest = self.last_second(now);
        let (peers, table) = (&self.shared.peers, &mut self.table);
        let oldest = self.unproven_peers.0.iter().take(LOOKS);
        let ranked = oldest
            .filter_map(|(last, name)| Some((rank_of(table.get(*name)?, peers), *last, *name)));
        let (most, last, name) = ranked.min_by_key(|(rank, ..)| Reverse(*rank))?;
        let had_time = newest > last.saturating_add(open_timeout);
        (most > rank || most == rank && had_time).then_some(name)
    }
}

/// How many connections the peer of this one has; 0 if they are not counted.
fn rank_of(connection: &Connection, peers: &Peers) -> u32 {
    if connection.is_counted {
        peers.connections(connection.flow.remote.ip())
    } else {
        0
    }
}
