//! Server transactions: their table, matching (RFC 3261 section 17.2.3), and what they send.

use crate::schedule::{Owner, Schedule};
use crate::server_invite::State as Invite;
use crate::server_non_invite::State as NonInvite;
use crate::slab::Slab;
use crate::step::{Class, Keep, Send, Step, Tell};
use crate::timer::{Timer, Timing};
use crate::{Event, Full, Kind, RequestMatch, Transactions};
use hashbrown::HashTable;
use sip_message::{Method, TransactionKey};
use sip_transport::{Flow, Output, Time};
use std::ops::Range;

/// Names a server transaction; stale ids are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// One server transaction. Hundreds of thousands linger for 64*T1: see `a_lingering_transaction_is_small`.
#[derive(Debug)]
pub(crate) struct Server {
    /// The key, in halves: a `u128` would be aligned to 16 bytes.
    key: [u64; 2],
    owner: u64,
    /// The last response, for retransmission.
    kept: Option<Box<[u8]>>,
    flow: Flow,
    generation: u32,
    schedule: Schedule,
    machine: Machine,
}

#[derive(Clone, Copy, Debug)]
enum Machine {
    Invite(Invite),
    NonInvite(NonInvite),
}

/// All server transactions, by place and by key.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    slab: Slab<Server>,
    /// Places by key. The keys themselves lie in the slab: an entry has 8 bytes, so the table stays in the cache longer, and growing
    /// it touches no transaction.
    by_key: HashTable<Entry>,
}

/// A bit of the key, which is a keyed hash already, and the place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u32,
    index: u32,
}

impl Entry {
    /// The table takes bits from both ends.
    const fn hash(self) -> u64 {
        (self.tag as u64) << 32 | self.tag as u64
    }
}

const fn halves(key: TransactionKey) -> [u64; 2] {
    [key.0 as u64, (key.0 >> 64) as u64]
}

impl Servers {
    /// A table that has been large and is nearly empty is made smaller, unless it is small anyway.
    const SHRINK_ABOVE: usize = 4096;

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    fn find(&self, key: TransactionKey) -> Option<u32> {
        let key = halves(key);
        let wanted = Entry {
            tag: key[0] as u32,
            index: 0,
        };
        let same = |entry: &Entry| {
            entry.tag == wanted.tag
                && self
                    .slab
                    .get(entry.index)
                    .is_some_and(|server| server.key == key)
        };
        self.by_key
            .find(wanted.hash(), same)
            .map(|entry| entry.index)
    }

    fn get(&self, id: ServerId) -> Option<&Server> {
        self.slab
            .get(id.index)
            .filter(|server| server.generation == id.generation)
    }

    fn get_mut(&mut self, id: ServerId) -> Option<&mut Server> {
        self.slab
            .get_mut(id.index)
            .filter(|server| server.generation == id.generation)
    }

    fn insert(&mut self, server: Server) -> u32 {
        let tag = server.key[0] as u32;
        let index = self.slab.insert(server);
        let entry = Entry { tag, index };
        self.by_key
            .insert_unique(entry.hash(), entry, |entry| entry.hash());
        index
    }

    fn remove(&mut self, index: u32) -> Option<Server> {
        let server = self.slab.remove(index)?;
        let entry = Entry {
            tag: server.key[0] as u32,
            index,
        };
        if let Ok(occupied) = self
            .by_key
            .find_entry(entry.hash(), |other| other.index == index)
        {
            occupied.remove();
        }
        let (len, capacity) = (self.by_key.len(), self.by_key.capacity());
        if capacity > Self::SHRINK_ABOVE && len < capacity / 8 {
            self.by_key.shrink_to(len * 2, |entry| entry.hash());
        }
        Some(server)
    }
}

impl Server {
    const fn id(&self, index: u32) -> ServerId {
        ServerId {
            index,
            generation: self.generation,
        }
    }

    /// Sends the response kept; `false` when there is none.
    fn send_again<Q>(&self, output: &mut Output<Q>) -> bool {
        let Some(kept) = self.kept.as_deref() else {
            return false;
        };
        output.send(self.flow, |into| into.extend_from_slice(kept));
        true
    }
}

impl Transactions {
    /// Matches a received request (section 17.2.3). `key` is that of `KeyHasher::server_transaction`.
    pub fn receive_request<Q>(
        &mut self,
        now: Time,
        key: TransactionKey,
        method: Method<'_>,
        output: &mut Output<Q>,
    ) -> RequestMatch {
        let Some(index) = self.servers.find(key) else {
            return RequestMatch::New;
        };
        let Some(server) = self.servers.slab.get(index) else {
            return RequestMatch::New;
        };
        let step = match (server.machine, method) {
            (Machine::Invite(state), Method::Ack) => state
                .ack(self.timing(server.schedule.reliable))
                .map(Machine::Invite),
            (Machine::Invite(state), _) => state.invite().map(Machine::Invite),
            (Machine::NonInvite(state), _) => state.request().map(Machine::NonInvite),
        };
        if step.send == Send::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        self.follow_server(now, index, step);
        if step.tell == Tell::Message {
            return RequestMatch::New;
        }
        self.stats.requests_absorbed += 1;
        RequestMatch::Absorbed
    }

    /// Begins a server transaction, for a request that `receive_request` called new. `reliable`: the transport delivers by itself
    /// (`Protocol::is_reliable`).
    pub fn create_server(
        &mut self,
        now: Time,
        key: TransactionKey,
        kind: Kind,
        flow: Flow,
        reliable: bool,
        owner: u64,
    ) -> Result<ServerId, Full> {
        let _ = now;
        if self.servers.len() >= self.limits.servers {
            self.stats.full += 1;
            return Err(Full);
        }
        let generation = self.next_generation();
        let machine = match kind {
            Kind::Invite => Machine::Invite(Invite::INITIAL),
            Kind::NonInvite => Machine::NonInvite(NonInvite::INITIAL),
        };
        let schedule = Schedule::new(reliable);
        let index = self.servers.insert(Server {
            key: halves(key),
            owner,
            kept: None,
            flow,
            generation,
            schedule,
            machine,
        });
        self.stats.servers_created += 1;
        Ok(ServerId { index, generation })
    }

    /// Sends a response through a server transaction and drives its machine. Writes nothing and returns `None` when the
    /// transaction is gone or has sent its final response already (a 2xx after a 2xx of an INVITE still passes: RFC 6026), or
    /// when the status code is none.
    pub fn respond<Q>(
        &mut self,
        now: Time,
        id: ServerId,
        status: u16,
        output: &mut Output<Q>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let class = Class::of(status)?;
        let server = self.servers.get(id)?;
        let timing = self.timing(server.schedule.reliable);
        let step = match (server.machine, class) {
            (Machine::Invite(state), Class::Provisional) => {
                state.provisional(timing).map(Machine::Invite)
            }
            (Machine::Invite(state), Class::Success) => state.success(timing).map(Machine::Invite),
            (Machine::Invite(state), Class::Failure) => state.failure(timing).map(Machine::Invite),
            (Machine::NonInvite(state), Class::Provisional) => {
                state.provisional(timing).map(Machine::NonInvite)
            }
            (Machine::NonInvite(state), _) => state.final_response(timing).map(Machine::NonInvite),
        };
        if step.send != Send::Given {
            return None;
        }
        let range = output.send(server.flow, write);
        if step.keep == Keep::Sent
            && let Some(server) = self.servers.slab.get_mut(id.index)
        {
            server.kept = Some(output.written(range.clone()).into());
        }
        self.follow_server(now, id.index, step);
        Some(range)
    }

    /// The server transaction with that key (CANCEL: `KeyHasher::cancelled_transaction`).
    pub fn find_server(&self, key: TransactionKey) -> Option<ServerId> {
        let index = self.servers.find(key)?;
        Some(self.servers.slab.get(index)?.id(index))
    }

    /// What the transaction user gave, while the transaction lives.
    pub fn server_owner(&self, id: ServerId) -> Option<u64> {
        Some(self.servers.get(id)?.owner)
    }

    /// Changes what belongs to it (a parked request goes on to be proxied).
    pub fn set_server_owner(&mut self, id: ServerId, owner: u64) {
        if let Some(server) = self.servers.get_mut(id) {
            server.owner = owner;
        }
    }

    /// Where its responses go.
    pub fn server_flow(&self, id: ServerId) -> Option<Flow> {
        Some(self.servers.get(id)?.flow)
    }

    /// Whether a final response has been sent (or the transaction is gone).
    pub fn server_is_final(&self, id: ServerId) -> bool {
        self.servers
            .get(id)
            .is_none_or(|server| match server.machine {
                Machine::Invite(state) => state != Invite::Proceeding,
                Machine::NonInvite(state) => state == NonInvite::Completed,
            })
    }

    /// Forgets a server transaction without a final response: what a proxy does with a non-INVITE that nobody answered in time (RFC
    /// 4320 section 4.2).
    pub fn abandon_server(&mut self, id: ServerId) {
        if self.servers.get(id).is_some() {
            self.end_server(id.index);
        }
    }

    /// A timer of a server transaction has fired.
    pub(crate) fn server_timer<Q>(
        &mut self,
        now: Time,
        index: u32,
        timer: Timer,
        output: &mut Output<Q>,
    ) -> Option<Event> {
        let server = self.servers.slab.get_mut(index)?;
        let timing = Timing {
            settings: self.settings,
            reliable: server.schedule.reliable,
        };
        let retransmissions = server.schedule.fired();
        let step = match (server.machine, timer) {
            (Machine::Invite(state), Timer::G) => {
                state.timer_g(timing, retransmissions).map(Machine::Invite)
            }
            (Machine::Invite(state), Timer::H) => state.timer_h().map(Machine::Invite),
            (Machine::Invite(state), Timer::I) => state.timer_i().map(Machine::Invite),
            (Machine::Invite(state), Timer::L) => state.timer_l().map(Machine::Invite),
            (Machine::NonInvite(state), Timer::J) => state.timer_j().map(Machine::NonInvite),
            _ => return None,
        };
        if step.send == Send::Kept && server.send_again(output) {
            self.stats.responses_retransmitted += 1;
        }
        let event = Event::ServerUnacknowledged {
            id: server.id(index),
            owner: server.owner,
        };
        self.follow_server(now, index, step);
        (step.tell == Tell::Timeout).then_some(event)
    }

    /// The new state of a server transaction, its timers and what it forgets.
    fn follow_server(&mut self, now: Time, index: u32, step: Step<Machine>) {
        let Some(machine) = step.next else {
            return self.end_server(index);
        };
        let Some(server) = self.servers.slab.get_mut(index) else {
            return;
        };
        server.machine = machine;
        if step.keep == Keep::Nothing {
            server.kept = None;
        }
        server
            .schedule
            .follow(step.timers, now, &mut self.wheel, Owner::Server(index));
    }

    fn end_server(&mut self, index: u32) {
        if let Some(mut server) = self.servers.remove(index) {
            server.schedule.stop(&mut self.wheel);
            self.stats.servers_ended += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, TimerSettings};
    use sip_transport::ListenerId;

    const NOW: Time = Time::from_unix_seconds(1_763_600_000);

    fn transactions() -> Transactions {
        let limits = Limits {
            servers: 100_000,
            clients: 0,
        };
        Transactions::new(NOW, TimerSettings::default(), limits, 0)
    }

    fn create(all: &mut Transactions, key: u128, kind: Kind) -> ServerId {
        let flow = Flow::datagram(ListenerId(0), ([192, 0, 2, 1], 5060).into());
        all.create_server(NOW, TransactionKey(key), kind, flow, false, 0)
            .expect("room")
    }

    #[test]
    fn a_lingering_transaction_is_small() {
        let size = size_of::<Option<Server>>();
        println!("server transaction: {size} bytes in its slab");
        assert!(size <= 104, "{size} bytes");
    }

    #[test]
    fn what_will_not_be_sent_again_is_forgotten() {
        let mut all = transactions();
        let mut output = Output::<()>::default();
        let mut respond = |all: &mut Transactions, id: ServerId, status| {
            all.respond(NOW, id, status, &mut output, |into| into.push(b'x'));
            all.servers
                .get(id)
                .is_some_and(|server| server.kept.is_some())
        };
        let (accepted, refused) = (
            create(&mut all, 1, Kind::Invite),
            create(&mut all, 2, Kind::Invite),
        );
        assert!(respond(&mut all, accepted, 180) && !respond(&mut all, accepted, 200));
        assert!(respond(&mut all, refused, 486));
        all.receive_request(
            NOW,
            TransactionKey(2),
            Method::Ack,
            &mut Output::<()>::default(),
        );
        assert!(
            all.servers
                .get(refused)
                .is_some_and(|server| server.kept.is_none())
        );
    }

    #[test]
    fn the_table_follows_the_slab_and_gives_memory_back() {
        let mut all = transactions();
        let ids: Vec<ServerId> = (0..50_000)
            .map(|n| create(&mut all, n, Kind::NonInvite))
            .collect();
        let grown = all.servers.by_key.capacity();
        for id in ids {
            all.abandon_server(id);
            assert_eq!(all.servers.by_key.len(), all.servers.len());
        }
        assert_eq!(all.stats().servers_live, 0);
        assert!(all.servers.by_key.capacity() < grown / 4);
    }

    #[test]
    fn keys_that_are_alike_are_told_apart() {
        let mut all = transactions();
        let keys: Vec<u128> = (0..20).map(|n| n << 32 | 7).collect();
        let ids: Vec<ServerId> = keys
            .iter()
            .map(|&key| create(&mut all, key, Kind::NonInvite))
            .collect();
        for (n, &id) in ids.iter().enumerate().rev() {
            all.abandon_server(id);
            let found: Vec<ServerId> = keys
                .iter()
                .filter_map(|&key| all.find_server(TransactionKey(key)))
                .collect();
            assert_eq!(found, ids[..n]);
        }
    }
}
