//! What is counted about records, for each destination.
use crate::calls::queue::Level;
use prometheus_client::metrics::counter::Counter;
use sip_transport::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// Where records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file of JSON lines.
    File,
    /// A table of the database.
    Database,
}

impl Destination {
    /// All destinations.
    pub const ALL: [Self; 2] = [Self::File, Self::Database];

    /// The label in metrics and in the log.
    pub const fn label(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Database => "database",
        }
    }
}

/// Why a record was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Too many waited to be written.
    QueueFull,
    /// The server stopped before it could be written.
    Stopping,
}

impl Loss {
    /// All reasons.
    pub const ALL: [Self; 2] = [Self::QueueFull, Self::Stopping];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Stopping => "stopping",
        }
    }
}

/// The counters of all destinations.
#[derive(Debug, Default)]
pub struct RecordCounters {
    file: DestinationCounters,
    database: DestinationCounters,
}

impl RecordCounters {
    /// The counters of one destination.
    pub const fn of(&self, destination: Destination) -> &DestinationCounters {
        match destination {
            Destination::File => &self.file,
            Destination::Database => &self.database,
        }
    }

    /// Makes all writers close their files and open them again, and try again at once if writing failed.
    pub fn reopen(&self) {
        for destination in Destination::ALL {
            self.of(destination).reopen.notify_one();
        }
    }

    /// What does not work now, for people.
    pub fn problems(&self) -> Vec<String> {
        let failing = |destination: &Destination| self.of(*destination).is_failing();
        let failing = Destination::ALL.into_iter().filter(failing);
        let problem = |destination: Destination| {
            format!(
                "call records cannot be written to the {}: see the log",
                destination.label()
            )
        };
        failing.map(problem).collect()
    }
}

/// The counters of one destination.
#[derive(Debug, Default)]
pub struct DestinationCounters {
    level: Arc<Level>,
    written: Counter,
    queue_full: Counter,
    stopping: Counter,
    failing: AtomicBool,
    /// Records are being lost; the log says so once.
    gap: AtomicBool,
    /// When the call of the oldest record in the writer's hands ended, in microseconds since the Unix epoch; 0 without one.
    oldest: AtomicU64,
    pub(super) reopen: Notify,
}

impl DestinationCounters {
    /// What waits to be written.
    pub(crate) const fn level(&self) -> &Arc<Level> {
        &self.level
    }

    /// Records that were written.
    pub const fn written(&self) -> &Counter {
        &self.written
    }

    /// Records that were lost.
    pub const fn lost(&self, loss: Loss) -> &Counter {
        match loss {
            Loss::QueueFull => &self.queue_full,
            Loss::Stopping => &self.stopping,
        }
    }

    /// Whether the last attempt to write failed.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// How long the oldest record has waited.
    pub fn lag(&self, now: Time) -> Duration {
        match self.oldest.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            oldest => now.saturating_since(Time::from_micros(oldest)),
        }
    }

    pub(super) fn hold(&self, oldest: Option<Time>) {
        let oldest = oldest.map_or(0, Time::as_micros);
        self.oldest.store(oldest, Ordering::Relaxed);
    }

    /// Notes whether writing works. Returns whether this has changed.
    pub(super) fn set_failing(&self, failing: bool) -> bool {
        self.failing.swap(failing, Ordering::Relaxed) != failing
    }

    /// A record is lost. Returns whether it is the first one since the last [`DestinationCounters::end_gap`].
    pub(crate) fn begin_gap(&self) -> bool {
        !self.gap.swap(true, Ordering::Relaxed)
    }

    /// There is room again. Returns whether records were lost before.
    pub(super) fn end_gap(&self) -> bool {
        self.gap.swap(false, Ordering::Relaxed)
    }
}
