//! What is counted about published events.
use crate::calls::queue::Level;
use prometheus_client::metrics::counter::Counter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why an event was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishLoss {
    /// Too many waited.
    QueueFull,
    /// The server refused it, or did not confirm it.
    Failed,
    /// Tandem stopped before it was published.
    Stopping,
}

impl PublishLoss {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::QueueFull, Self::Failed, Self::Stopping];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Stopping => "stopping",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct PublishCounters {
    level: Arc<Level>,
    published: Counter,
    queue_full: Counter,
    failed: Counter,
    stopping: Counter,
    connected: AtomicBool,
}

impl PublishCounters {
    /// What waits to be published.
    pub(crate) const fn level(&self) -> &Arc<Level> {
        &self.level
    }

    /// Events that the server confirmed.
    pub const fn published(&self) -> &Counter {
        &self.published
    }

    /// Events that were not published, or not confirmed.
    pub const fn lost(&self, loss: PublishLoss) -> &Counter {
        match loss {
            PublishLoss::QueueFull => &self.queue_full,
            PublishLoss::Failed => &self.failed,
            PublishLoss::Stopping => &self.stopping,
        }
    }

    /// Events that were lost for any reason.
    pub(super) fn all_lost(&self) -> u64 {
        let lost = PublishLoss::ALL.map(|loss| self.lost(loss).get());
        lost.iter().sum()
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }
}
