//! All transactions of one worker, and what their two sides share. The sides are in `servers.rs` and `clients.rs`.

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
/// The transaction user passes every request to [`Transactions::receive_request`] and every response to [`Transactions::receive_response`].
/// It calls [`Transactions::expire`] at [`Transactions::next_deadline`].
#[derive(Debug)]
pub struct Transactions<O> {
    pub(crate) servers: Servers<O>,
    pub(crate) clients: Clients<O>,
    pub(crate) wheel: TimerWheel<Due>,
    pub(crate) settings: TimerSettings,
    pub(crate) limits: Limits,
    pub(crate) stats: Stats,
    /// What is held for each source, here and by the transaction user.
    pub(crate) ledger: Ledger,
    /// Seals branches.
    pub(crate) hasher: KeyHasher,
}

impl<O: Copy> Transactions<O> {
    /// Creates an empty set. `hasher` seals branches. `epoch` (random) is the first generation, so that branches from an earlier run of the
    /// program do not match.
    pub fn new(
        now: Time,
        timers: TimerSettings,
        limits: Limits,
        hasher: KeyHasher,
        epoch: u32,
    ) -> Self {
        Self {
            servers: Servers::new(epoch),
            clients: Clients::new(epoch),
            wheel: TimerWheel::new(now),
            settings: timers.bounded(),
            limits,
            stats: Stats::default(),
            ledger: Ledger::new(hasher, limits.bytes),
            hasher,
        }
    }

    /// The branch for the request of a client transaction in the call `call_id`. `suffix` belongs to the caller.
    pub fn branch(&self, id: ClientId, call_id: &[u8], suffix: u64) -> Branch {
        let key = self.clients.get(id).and_then(|client| client.key);
        match key {
            Some(key) => Branch::keyed(&self.hasher, key, call_id, suffix),
            None => Branch::new(&self.hasher, id, call_id, suffix),
        }
    }

    /// Changes timers and limits. Running timers keep their time, and transactions beyond a lower limit stay.
    pub fn reconfigure(&mut self, timers: TimerSettings, limits: Limits) {
        self.settings = timers.bounded();
        self.limits = limits;
        self.ledger.set_most_bytes(limits.bytes);
    }

    /// Handles all timers that are due: sends retransmissions and ends transactions. It appends what the user must know to `events`.
    pub fn expire<Q, R>(
        &mut self,
        now: Time,
        output: &mut Output<Q, R>,
        events: &mut Vec<Event<O>>,
    ) {
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

    /// The time at which to call [`Transactions::expire`] next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.wheel.next_deadline()
    }

    /// The ledger, in which the transaction user also enters what it holds.
    pub const fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Counters of the ledger.
    pub fn ledger_stats(&self) -> LedgerStats {
        self.ledger.stats()
    }

    /// Bytes of messages that transactions hold, counted one by one. Together with those of the user, they must equal the count of the
    /// ledger.
    pub fn count_bytes(&self) -> usize {
        let servers = self.servers.slab.iter().map(|server| &server.kept);
        let clients = self.clients.slab.iter().map(|client| &client.kept);
        let kept = servers.chain(clients).flatten();
        kept.map(|bytes| bytes.len()).sum()
    }

    /// The current counters.
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
}
