//! All transactions of one worker: what they share. Their two sides are in `servers.rs` and `clients.rs`.

use crate::client_table::Clients;
use crate::schedule::{Due, Side};
use crate::server_table::Servers;
use crate::timer::Timing;
use crate::{
    Branch, ClientId, Event, Ledger, LedgerStats, Limits, Stats, TimerSettings, TimerWheel,
};
use sip_message::KeyHasher;
use sip_transport::{Output, Time};

/// All transactions of one worker.
///
/// The transaction user gives every request to [`Transactions::receive_request`] and every response to
/// [`Transactions::receive_response`], and calls [`Transactions::expire`] when [`Transactions::next_deadline`] has come.
#[derive(Debug)]
pub struct Transactions {
    pub(crate) servers: Servers,
    pub(crate) clients: Clients,
    pub(crate) wheel: TimerWheel<Due>,
    pub(crate) settings: TimerSettings,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    /// What is held for whom, here and by the transaction user.
    pub(crate) ledger: Ledger,
    /// Seals branches.
    pub(crate) hasher: KeyHasher,
    generation: u32,
}

impl Transactions {
    /// None yet. `hasher` seals branches. `epoch` (random) is where the generations begin, so that branches of an earlier life are not
    /// taken for ours.
    pub fn new(
        now: Time,
        timers: TimerSettings,
        limits: Limits,
        hasher: KeyHasher,
        epoch: u32,
    ) -> Self {
        Self {
            servers: Servers::default(),
            clients: Clients::default(),
            wheel: TimerWheel::new(now),
            settings: timers.bounded(),
            limits,
            stats: Stats::default(),
            ledger: Ledger::new(hasher, limits.bytes),
            hasher,
            generation: epoch,
        }
    }

    /// The branch for the request of a client transaction in the call `call_id`, with 64 bits of the caller's.
    pub fn branch(&self, id: ClientId, call_id: &[u8], suffix: u64) -> Branch {
        Branch::new(&self.hasher, id, call_id, suffix)
    }

    /// Changes timers and limits. Timers that run already keep their time, and transactions beyond a lower limit live on.
    pub fn reconfigure(&mut self, timers: TimerSettings, limits: Limits) {
        self.settings = timers.bounded();
        self.limits = limits;
        self.ledger.set_most_bytes(limits.bytes);
    }

    /// Everything that is due: retransmissions go out, transactions end; what the user must know is appended to `events`.
    pub fn expire<Q>(&mut self, now: Time, output: &mut Output<Q>, events: &mut Vec<Event>) {
        while let Some(due) = self.wheel.pop_due(now) {
            let event = match due.side {
                Side::Server => self.server_timer(now, due.index, due.timer, output),
                Side::Client => self.client_timer(now, due.index, due.timer, output),
            };
            if let Some(event) = event {
                self.stats.timeouts += 1;
                events.push(event);
            }
        }
    }

    /// When to call `expire` next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    /// What is held for whom. The transaction user enters what it holds itself.
    pub const fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Counts of what is held.
    pub fn ledger_stats(&self) -> LedgerStats {
        self.ledger.stats()
    }

    /// Bytes of messages that transactions hold, counted one by one: what the ledger says must be this and what the user holds.
    pub fn count_bytes(&self) -> usize {
        let servers = self.servers.slab.iter().map(|server| &server.kept);
        let clients = self.clients.slab.iter().map(|client| &client.kept);
        let kept = servers.chain(clients).flatten();
        kept.map(|bytes| bytes.len()).sum()
    }

    /// Counts.
    pub fn stats(&self) -> Stats {
        Stats {
            servers_live: self.servers.len() as u64,
            clients_live: self.clients.len() as u64,
            full: self.stats.full + self.ledger.refused(),
            ..self.stats
        }
    }

    pub(crate) const fn timing(&self, reliable: bool) -> Timing {
        Timing {
            settings: self.settings,
            reliable,
        }
    }

    /// Generations never repeat within 2^32 transactions, so an id that names a place also says which of its tenants is meant.
    pub(crate) const fn next_generation(&mut self) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        self.generation
    }
}
