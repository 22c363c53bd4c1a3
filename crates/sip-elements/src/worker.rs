//! What the phases of a message can access while it is handled.

use crate::named_servers::NamedServers;
use crate::parked::Parked;
use crate::probes::Probes;
use crate::proxy::Proxy;
use crate::registered::Registered;
use crate::registrar::held::HeldAnswers;
use crate::registrations::Registrations;
use crate::{Owner, WorkerParts};
use sip_message::{Message, worker_hash};
use sip_transaction::Event;

/// The parts of an exchange while it handles one input. They are borrowed separately, so that phases can use several at once.
pub(crate) struct Worker<'r, 'o> {
    /// The index of the worker.
    pub(crate) index: u16,
    /// The number of workers.
    pub(crate) workers: u16,
    /// The context of every phase.
    pub(crate) parts: WorkerParts<'r>,
    /// The response contexts.
    pub(crate) proxy: &'r mut Proxy,
    /// Requests that wait for the control plane.
    pub(crate) parked: &'r mut Parked,
    /// The addresses of record that registered over each connection.
    pub(crate) registered: &'r mut Registered,
    /// Answers that wait for their bindings to be saved.
    pub(crate) held: &'r mut HeldAnswers,
    /// The probes of gateways.
    pub(crate) probes: &'r mut Probes,
    /// Where the servers of stateless rules are.
    pub(crate) servers: &'r mut NamedServers,
    /// The registrations of this server at gateways.
    pub(crate) registrations: &'r mut Registrations,
    /// Whether new calls are rejected.
    pub(crate) draining: &'r mut bool,
    /// Whether the message is dropped because of its sender. It is not traced either, so that a flood does not displace the messages of others.
    pub(crate) is_ignored: bool,
    /// Events of expired timers. The buffer is reused.
    pub(crate) events: &'o mut Vec<Event<Owner>>,
    /// A buffer for responses whose status is known only after they are written. It is reused.
    pub(crate) scratch: &'o mut Vec<u8>,
}

impl Worker<'_, '_> {
    /// Restores a dialog whose home is this worker.
    pub(crate) fn restore(&mut self, state: &[u8]) -> bool {
        let (index, workers) = (self.index, self.workers);
        let is_home = |call_id: &[u8]| home_of(call_id, workers) == index;
        self.proxy.restore(&mut self.parts, state, is_home)
    }

    /// Adopts a dialog whose home is this worker.
    pub(crate) fn adopt(&mut self, state: &[u8]) -> bool {
        let (index, workers) = (self.index, self.workers);
        let is_home = |call_id: &[u8]| home_of(call_id, workers) == index;
        self.proxy.adopt(&mut self.parts, state, is_home)
    }

    /// The home of a message's call, if that is another worker.
    pub(crate) fn home_elsewhere(&self, message: &Message<'_>) -> Option<u16> {
        if self.workers < 2 {
            return None;
        }
        let home = home_of(message.call_id().unwrap_or_default(), self.workers);
        (home != self.index).then_some(home)
    }
}

/// The worker that is the home of the call with this Call-ID.
pub fn home_of(call_id: &[u8], workers: u16) -> u16 {
    (worker_hash(call_id) % u32::from(workers.max(1))) as u16
}
