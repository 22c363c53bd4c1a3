//! Requests that wait for an answer of the control plane. A parked request holds its server transaction, so that
//! retransmissions are absorbed; its deadline passes or its answer comes, whichever is first, and it is gone.
//!
//! A request that is cancelled leaves its place to its question: the place is free once that is answered or its time is up. So
//! no more questions wait than there are places, however fast somebody calls and hangs up.

use crate::Ticket;
use crate::answer::Origin;
use rustc_hash::FxHashMap;
use sip_transaction::{Account, Ledger, ServerId, Table};
use sip_transport::Time;
use std::collections::VecDeque;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct ParkedRequest {
    /// Where it came from, and its transaction.
    pub(crate) origin: Origin,
    /// As received.
    pub(crate) bytes: Box<[u8]>,
    /// Whom its place and its bytes are charged to.
    pub(crate) account: Account,
}

#[derive(Debug)]
enum Place {
    Free,
    Waiting(ParkedRequest),
    /// Cancelled; its question is still out, and its place charged to this account.
    GivenUp(Account),
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    place: Place,
}

/// All parked requests of one worker, bounded.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_server: FxHashMap<ServerId, Ticket>,
    /// In order of time.
    deadlines: VecDeque<(Time, Ticket)>,
}

impl Parked {
    /// Parks a request, which the ledger has a place for, until `deadline`. The top bit of its ticket is clear (those of the proxy have
    /// it set).
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
        // All wait equally long, so that the new one is the last, but where a reload has made the wait shorter.
        let earlier = self.deadlines.iter().rposition(|(at, _)| *at <= deadline);
        let place = earlier.map_or(0, |place| place + 1);
        self.deadlines.insert(place, (deadline, ticket));
        ticket
    }

    /// Takes a parked request out; `None` when it is gone already.
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

    /// Takes out the request of a server transaction (its CANCEL came). Its place stays taken until its question is over.
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

    /// The next request whose deadline has passed.
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

    /// When `pop_expired` has something to do at the earliest.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// Bytes of the requests that wait, counted one by one.
    pub(crate) fn count_bytes(&self) -> usize {
        let waiting = self.slots.iter().map(|slot| match &slot.place {
            Place::Waiting(request) => request.bytes.len(),
            Place::Free | Place::GivenUp(_) => 0,
        });
        waiting.sum()
    }

    /// How many places are taken.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
