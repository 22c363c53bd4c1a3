//! Requests that wait for an answer of the control plane.
//!
//! A parked request keeps its server transaction, so that retransmissions are absorbed. It leaves when its answer arrives
//! or its deadline passes, whichever is first.
//!
//! A cancelled request leaves at once, but its slot stays in use until its question is answered or times out. So there
//! are never more open questions than slots, however fast a caller calls and hangs up.

use crate::own_response::Origin;
use crate::phase::ResumeAt;
use crate::{ParkedId, description};
use rustc_hash::FxHashMap;
use sip_message::Message;
use sip_transaction::{Account, Ledger, ServerId, Table};
use sip_transport::{Slab, Tenant, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// A request that waits for an answer.
#[derive(Debug)]
pub(crate) struct ParkedRequest {
    /// Where it came from, and its server transaction.
    pub(crate) origin: Origin,
    /// The message as received.
    pub(crate) bytes: Arc<[u8]>,
    /// The account that its slot and its bytes are charged to.
    pub(crate) account: Account,
    /// The stage that parked it. It resumes there.
    pub(crate) resume_at: ResumeAt,
}

impl ParkedRequest {
    /// Replaces the body. Everything that is forwarded from now on has the new one. Returns whether that is possible.
    pub(crate) fn replace_body(&mut self, body: &[u8]) -> bool {
        let request = Message::parse(&self.bytes).ok();
        let replaced = request.and_then(|request| description::with_body(&request, body));
        let is_replaced = replaced.is_some();
        self.bytes = replaced.unwrap_or_else(|| Arc::clone(&self.bytes));
        is_replaced
    }

    /// Bytes that stay in memory after the request was cancelled, because its open question shares them.
    fn shared_bytes(&self) -> usize {
        match self.resume_at {
            ResumeAt::Forward(..) => self.bytes.len(),
            ResumeAt::Authenticate | ResumeAt::Route(_) => 0,
        }
    }
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are waiting")]
enum State {
    Waiting(ParkedRequest),
    /// Cancelled. Its question is still open. The slot, and the bytes that the question holds, are charged to this account.
    GivenUp(Account, usize),
}

impl Tenant for Slot {
    fn generation(&self) -> u32 {
        self.generation
    }
}

/// The parked requests of one worker, bounded.
#[derive(Debug)]
pub(crate) struct Parked {
    slots: Slab<Slot>,
    by_server: FxHashMap<ServerId, ParkedId>,
    /// The earliest deadline first.
    deadlines: VecDeque<(Time, ParkedId)>,
}

impl Parked {
    /// Creates an empty table.
    pub(crate) fn new() -> Self {
        Self {
            slots: Slab::new(0),
            by_server: FxHashMap::default(),
            deadlines: VecDeque::new(),
        }
    }

    /// Parks a request until `deadline`. The caller has reserved a slot in the ledger.
    pub(crate) fn park(
        &mut self,
        request: ParkedRequest,
        deadline: Time,
        ledger: &mut Ledger,
    ) -> ParkedId {
        ledger.hold(request.account, 0, request.bytes.len());
        let server = request.origin.server;
        let id = ParkedId(self.slots.insert(|id| Slot {
            generation: id.generation,
            state: State::Waiting(request),
        }));
        if let Some(server) = server {
            self.by_server.insert(server, id);
        }
        // All requests wait equally long, so the new one normally goes last. After a reload with a shorter wait it goes
        // further ahead.
        let earlier = self.deadlines.iter().rposition(|(at, _)| *at <= deadline);
        let place = earlier.map_or(0, |earlier| earlier + 1);
        self.deadlines.insert(place, (deadline, id));
        id
    }

    /// Takes a parked request out. `None` if it is no longer there.
    pub(crate) fn take(&mut self, id: ParkedId, ledger: &mut Ledger) -> Option<ParkedRequest> {
        match self.slots.remove(id.0)?.state {
            State::GivenUp(account, bytes) => {
                ledger.hold(account, bytes, 0);
                ledger.leave(Table::Parked, account);
                None
            }
            State::Waiting(request) => {
                ledger.hold(request.account, request.bytes.len(), 0);
                ledger.leave(Table::Parked, request.account);
                if let Some(server) = request.origin.server {
                    self.by_server.remove(&server);
                }
                Some(request)
            }
        }
    }

    /// Takes out the request of a cancelled server transaction. Its slot stays in use until its question is answered or
    /// times out.
    pub(crate) fn give_up(
        &mut self,
        server: ServerId,
        ledger: &mut Ledger,
    ) -> Option<ParkedRequest> {
        let id = self.by_server.remove(&server)?;
        let slot = self.slots.get_mut(id.0)?;
        let State::Waiting(request) = &slot.state else {
            return None;
        };
        let (account, left) = (request.account, request.shared_bytes());
        ledger.hold(account, request.bytes.len(), left);
        match std::mem::replace(&mut slot.state, State::GivenUp(account, left)) {
            State::Waiting(request) => Some(request),
            State::GivenUp(..) => None,
        }
    }

    /// Takes out the next request whose deadline has passed.
    pub(crate) fn pop_expired(&mut self, now: Time, ledger: &mut Ledger) -> Option<ParkedRequest> {
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            if deadline > now {
                return None;
            }
            self.deadlines.pop_front();
            if let Some(request) = self.take(id, ledger) {
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
        let waiting = self.slots.iter().map(|slot| match &slot.state {
            State::Waiting(request) => request.bytes.len(),
            State::GivenUp(_, bytes) => *bytes,
        });
        waiting.sum()
    }

    /// The calls among the waiting requests that hold places in limits.
    pub(crate) fn count_calls_with_places(&self) -> usize {
        let holds = |slot: &&Slot| match &slot.state {
            State::Waiting(request) => request.resume_at.holds_places(),
            State::GivenUp(..) => false,
        };
        self.slots.iter().filter(holds).count()
    }

    /// The number of slots in use.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len()
    }
}
