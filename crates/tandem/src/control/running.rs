//! The running server as the control plane sees it.
use super::counters::ControlCounters;
use arc_swap::ArcSwap;
use sip_elements::metrics::{TRANSACTION_COUNTS, WorkerMetrics};
use sip_elements::{ControlMessage, Shared};
use sip_routing::Policy;
use sip_runtime::tls::SharedTls;
use sip_runtime::{Handle, SharedPeerPolicy, WorkerStats};
use sip_transport::{Counter, Listener};
use std::sync::Arc;
use tandem_store::Store;

/// Everything that exists once the server runs.
#[derive(Debug)]
pub struct Running {
    /// The open database.
    pub store: Store,
    /// Certificates and TLS settings for new handshakes; `None`: the server does not use TLS.
    pub tls: Option<Arc<SharedTls>>,
    /// The peers that are trusted and the origins whose pages may open a WebSocket.
    pub peer_policy: Arc<SharedPeerPolicy>,
    /// State shared by the workers.
    pub shared: Arc<Shared>,
    /// SIP counters of each worker.
    pub metrics: Vec<Arc<WorkerMetrics>>,
    /// Socket and queue counters of each worker.
    pub stats: Arc<[Arc<WorkerStats>]>,
    /// Sends orders and answers to the workers.
    pub workers: Handle<ControlMessage>,
    /// The listeners as bound.
    pub listeners: Vec<Listener>,
    /// The routing policy in force.
    pub policy: ArcSwap<Policy>,
    /// Number of restored bindings.
    pub restored: u64,
}

/// Sums over all workers.
impl Running {
    /// The sum of a SIP counter.
    pub fn sip(&self, counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
        let workers = self.metrics.iter();
        workers.map(|worker| counter(worker).value()).sum()
    }

    /// The sum of the SIP counters at an index of an array.
    pub fn sip_at(&self, counters: impl Fn(&WorkerMetrics) -> &[Counter], index: usize) -> u64 {
        let at = |worker: &Arc<WorkerMetrics>| counters(worker).get(index).map(Counter::value);
        self.metrics.iter().filter_map(at).sum()
    }

    /// The sum of a socket or queue counter.
    pub fn io(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        let workers = self.stats.iter();
        workers.map(|worker| counter(worker).value()).sum()
    }

    /// The sum of the socket or queue counters at an index of an array.
    pub fn io_at(&self, counters: impl Fn(&WorkerStats) -> &[Counter], index: usize) -> u64 {
        let at = |worker: &Arc<WorkerStats>| counters(worker).get(index).map(Counter::value);
        self.stats.iter().filter_map(at).sum()
    }

    /// A counter of the transaction layer by its name in [`TRANSACTION_COUNTS`].
    pub fn transactions(&self, name: &str) -> u64 {
        let index = TRANSACTION_COUNTS.iter().position(|known| *known == name);
        index.map_or(0, |index| self.sip_at(|worker| &worker.transactions, index))
    }

    /// Addresses of record whose changes are not in the database: pending changes plus those being saved. They are read in this order
    /// because a change moves from the former to the latter.
    pub fn unsaved_addresses(&self, counters: &ControlCounters) -> u64 {
        let pending = self.shared.locations.pending_changes() as u64;
        pending + counters.unsaved.get()
    }

    /// Number of requests that wait for a final response, the control plane or a save, plus answered calls that wait for their ACK
    /// and bindings at gateways that are being removed.
    pub fn in_progress(&self) -> u64 {
        self.sip(|worker| &worker.response_contexts)
            + self.sip(|worker| &worker.parked)
            + self.sip(|worker| &worker.held_answers)
            + self.sip(|worker| &worker.unacknowledged)
            + self.sip(|worker| &worker.registrations_leaving)
    }
}
