//! Accepted connections whose peers have proved nothing: how long they may stay, and which of them gives its seat to a newcomer.

use super::close::CloseReason;
use super::connection::{Connection, NEVER};
use super::connections::{Connections, seconds_of};
use super::options::UNPROVEN_LIVES;
use super::peers::Peers;
use crate::event_loop::EventLoop;
use sip_transport::{ConnectionId, Time};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many strangers are looked at for one that gives its seat up, from the oldest one.
const LOOKS: usize = 16;

/// A worker's connections whose peers are not proven, the oldest second first: the second in which each ends whatever happens, and
/// its name.
#[derive(Debug, Default)]
pub(super) struct Strangers(BTreeSet<(u32, u32)>);

impl Strangers {
    pub(super) fn remove(&mut self, name: u32, connection: &Connection) {
        self.0.remove(&(connection.last_deadline, name));
    }
}

impl Connections {
    pub(super) fn unproven_timeout(&self) -> Duration {
        let timeout = self.options.unproven_timeout;
        timeout.unwrap_or(self.options.idle_timeout)
    }

    /// The second in which a stranger that is accepted now is closed, whatever it does until then.
    fn last_second(&self, now: Time) -> u32 {
        seconds_of(now + self.unproven_timeout() * UNPROVEN_LIVES)
    }

    /// A peer that connected may be a stranger: it does not last for ever.
    pub(super) fn distrust(&mut self, now: Time, name: u32) {
        if self.options.unproven_timeout.is_none() {
            return;
        }
        let last = self.last_second(now);
        if let Some(connection) = self.slab.get(name) {
            connection.last_deadline = last;
            self.strangers.0.insert((last, name));
            self.shared
                .unproven
                .pin()
                .insert(connection.flow.connection);
        }
    }

    /// The peer of a connection is no stranger. Returns false where another worker, the owner of the connection, must know.
    pub(crate) fn prove(&mut self, now: Time, id: ConnectionId) -> bool {
        if !self.shared.unproven.pin().contains(&id) {
            return true;
        }
        if id.worker() != self.worker {
            return false;
        }
        self.shared.unproven.pin().remove(&id);
        if let Some(connection) = self.slab.get(id.slot()) {
            self.strangers.remove(id.slot(), connection);
            connection.last_deadline = NEVER;
            self.set_deadline_of_waiting(now, id.slot());
        }
        true
    }

    /// Takes a seat for a connection that a peer opens, where there are none left that of a stranger. `rank`: how many connections the
    /// peer has, this one included; 0 where they are not counted.
    pub(super) fn take_seat_of_accepted(
        &mut self,
        now: Time,
        event_loop: &mut EventLoop,
        most: usize,
        rank: u32,
    ) -> bool {
        if self.shared.seats.take(most) {
            return true;
        }
        let Some(stranger) = self.stranger_to_displace(now, rank) else {
            return false;
        };
        self.close(event_loop, stranger, CloseReason::Displaced);
        // Another worker may be faster.
        self.shared.seats.take(most)
    }

    /// Among the oldest strangers, the first one of the peer that has most connections. It goes where its peer has more than the
    /// newcomer's. Among equals it goes once it has had the time that opening a connection may take, so that newcomers do not drive
    /// each other out before any can prove itself.
    fn stranger_to_displace(&mut self, now: Time, rank: u32) -> Option<u32> {
        let open_timeout = self.options.open_timeout.as_secs() as u32;
        let newest = self.last_second(now);
        let (peers, slab) = (&self.shared.peers, &mut self.slab);
        let oldest = self.strangers.0.iter().take(LOOKS);
        let ranked = oldest
            .filter_map(|(last, name)| Some((rank_of(slab.get(*name)?, peers), *last, *name)));
        let (most, last, name) = ranked.min_by_key(|(rank, ..)| Reverse(*rank))?;
        let had_time = newest > last.saturating_add(open_timeout);
        (most > rank || most == rank && had_time).then_some(name)
    }
}

/// How many connections the peer of one has; 0 where they are not counted.
fn rank_of(connection: &Connection, peers: &Peers) -> u32 {
    if connection.is_counted {
        peers.connections(connection.flow.remote.ip())
    } else {
        0
    }
}
