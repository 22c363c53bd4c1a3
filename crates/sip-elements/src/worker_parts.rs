//! The context of every phase: the time, the output, and the tables of the worker.
use crate::metrics::{Stage, WorkerMetrics};
use crate::{Owner, Question, Record, Settings, Shared, View};
use rand_chacha::ChaCha8Rng;
use sip_transaction::Transactions;
use sip_transport::{Output, Time};

/// The parts of a worker while it handles one input. They are borrowed separately, so that phases can use several at once.
#[derive(Debug)]
pub struct WorkerParts<'r> {
    /// The current time.
    pub now: Time,
    /// When the current message reached the machine. The time it waited in queues lies between this and `now`.
    pub arrived: Time,
    /// Collects what to send, to ask and to record.
    pub output: &'r mut Output<Question, Record>,
    /// The transactions of this worker.
    pub transactions: &'r mut Transactions<Owner>,
    /// The operator's configuration.
    pub settings: &'r Settings,
    /// The state that all workers share.
    pub shared: &'r Shared,
    /// The counters of this worker.
    pub metrics: &'r WorkerMetrics,
    /// Random numbers, from a seed that the caller provides.
    pub random: &'r mut ChaCha8Rng,
}

impl<'r> WorkerParts<'r> {
    /// What decisions read.
    pub const fn view(&self) -> View<'r> {
        View {
            now: self.now,
            settings: self.settings,
            shared: self.shared,
        }
    }

    /// Records how long the current message took, from its arrival until now.
    pub(crate) fn record(&self, stage: Stage) {
        if let Some(latency) = self.metrics.stages.get(stage as usize) {
            latency.record(self.now - self.arrived);
        }
    }
}
