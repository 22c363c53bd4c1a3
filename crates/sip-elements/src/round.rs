//! What every phase gets in hand: the time, the way out, and the worker's own tables.
use crate::metrics::{Stage, WorkerMetrics};
use crate::{Question, Settings, Shared};
use rand_chacha::ChaCha8Rng;
use sip_transaction::Transactions;
use sip_transport::{Output, Time};

/// One round of the worker: borrowed apart, so that phases can use several at once.
#[derive(Debug)]
pub struct Round<'r> {
    /// Now.
    pub now: Time,
    /// When the message in hand reached the machine: what it waited before its turn came lies between this and now.
    pub arrived: Time,
    /// The way out.
    pub output: &'r mut Output<Question>,
    /// The worker's transactions.
    pub transactions: &'r mut Transactions,
    /// What the operator decided.
    pub settings: &'r Settings,
    /// What the workers share.
    pub shared: &'r Shared,
    /// This worker's counters.
    pub metrics: &'r WorkerMetrics,
    /// Randomness, seeded from outside.
    pub random: &'r mut ChaCha8Rng,
}

impl Round<'_> {
    /// Records how long the message in hand took, from its arrival until now.
    pub(crate) fn record(&self, stage: Stage) {
        if let Some(latency) = self.metrics.stages.get(stage as usize) {
            latency.record(self.now - self.arrived);
        }
    }
}
