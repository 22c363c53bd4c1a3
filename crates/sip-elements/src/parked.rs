//! Requests that wait for an answer of the control plane.
//!
//! A parked request keeps its server transaction, so that retransmissions are absorbed. It leaves when its answer arrives
//! or its deadline passes, whichever is first.
//!
//! A cancelled request leaves at once, but its slot stays in use until its question is answered or times out. So there
//! are never more open questions than slots, however fast a caller calls and hangs up.

use crate::Ticket;
use crate::answer::Origin;
use rustc_hash::FxHashMap;
use sip_transaction::{Account, Ledger, ServerId, Table};
use sip_transport::Time;
use std::collections::VecDeque;

/// A request that waits for an answer.
#[derive(Debug)]
pub(crate) struct ParkedRequest {
    /// Where it came from, and its server transaction.
    pub(crate) origin: Origin,
    /// The message as received.
    pub(crate) bytes: Box<[u8]>,
    /// The account that its slot and its bytes are charged to.
    pub(crate) account: Account,
}

#[derive(Debug)]
enum Place {
    Free,
    Waiting(ParkedRequest),
    /// Cancelled. Its question is still open, and its slot is charged to this account.
    GivenUp(Account),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    place: Place,
}

/// The parked requests of one worker, bounded.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_server: FxHashMap<ServerId, Ticket>,
    /// The earliest deadline first.
    deadlines: VecDeque<(Time, Ticket)>,
}

impl Parked {
    /// Parks a request until `deadline`. The caller has reserved a slot in the ledger. The top bit of the ticket is 0;
    /// tickets of the proxy have it set.
    pub(crate) fn park(
        &mut self,
        request: ParkedRequest,
        deadline: Time,
        ledger: &mut Ledger,
    ) -> Ticket {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                place: Place::Free,
            });
            self.slots.len() as u32 - 1
        });
        ledger.hold(request.account, 0, request.bytes.len());
        let mut generation = 0;
        let server = request.origin.server;
        if let Some(slot) = self.slots.get_mut(index as usize) {
            generation = (slot.generation + 1) & (u32::MAX >> 1);
            slot.generation = generation;
            slot.place = Place::Waiting(request);
        }
        let ticket = Ticket((u64::from(generation) << 32) | u64::from(index));
        if let Some(server) = server {
            self.by_server.insert(server, ticket);
        }
        // All requests wait equally long, so the new one normally goes last. After a reload with a shorter wait it goes
        // further ahead.
        let earlier = self.deadlines.iter().rposition(|(at, _)| *at <= deadline);
        let place = earlier.map_or(0, |place| place + 1);
        self.deadlines.insert(place, (deadline, ticket));
        ticket
    }

    /// Takes a parked request out. `None` if it is no longer there.
    pub(crate) fn take(&mut self, ticket: Ticket, ledger: &mut Ledger) -> Option<ParkedRequest> {
        let index = ticket.0 as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.generation) != ticket.0 >> 32 {
            return None;
        }
        let (request, account) = match std::mem::replace(&mut slot.place, Place::Free) {
            Place::Free => return None,
            Place::GivenUp(account) => (None, account),
            Place::Waiting(request) => {
                let account = request.account;
                ledger.hold(account, request.bytes.len(), 0);
                (Some(request), account)
            }
        };
        ledger.leave(Table::Parked, account);
        self.free.push(index);
        let request = request?;
        if let Some(server) = request.origin.server {
            self.by_server.remove(&server);
        }
        Some(request)
    }

    /// Takes out the request of a cancelled server transaction. Its slot stays in use until its question is answered or
    /// times out.
    pub(crate) fn give_up(
        &mut self,
        server: ServerId,
        ledger: &mut Ledger,
    ) -> Option<ParkedRequest> {
        let ticket = self.by_server.remove(&server)?;
        let slot = self.slots.get_mut(ticket.0 as u32 as usize)?;
        let Place::Waiting(request) = &slot.place else {
            return None;
        };
        let account = request.account;
        ledger.hold(account, request.bytes.len(), 0);
        match std::mem::replace(&mut slot.place, Place::GivenUp(account)) {
            Place::Waiting(request) => Some(request),
            Place::Free | Place::GivenUp(_) => None,
        }
    }

    /// Takes out the next request whose deadline has passed.
    pub(crate) fn pop_expired(&mut self, now: Time, ledger: &mut Ledger) -> Option<ParkedRequest> {
        while let Some((deadline, ticket)) = self.deadlines.front().copied() {
            if deadline > now {
                return None;
            }
            self.deadlines.pop_front();
            if let Some(request) = self.take(ticket, ledger) {
                return Some(request);
            }
        }
        None
    }

    /// The earliest time at which `pop_expired` has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// The bytes of all waiting requests, counted one by one.
    pub(crate) fn count_bytes(&self) -> usize {
        let waiting = self.slots.iter().map(|slot| match &slot.place {
            Place::Waiting(request) => request.bytes.len(),
            Place::Free | Place::GivenUp(_) => 0,
        });
        waiting.sum()
    }

    /// The number of slots in use.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
