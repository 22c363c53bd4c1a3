//! Counters of the control plane. Unlike the workers' counters, they have many writers, and none of them is on the call path.
use super::policy::PrefixCounters;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// All counters of the control plane.
#[derive(Debug, Default)]
pub struct ControlCounters {
    /// Lookups of credentials for the data plane.
    pub credentials: LookupCounters,
    /// Lookups of names for the data plane.
    pub names: LookupCounters,
    /// Addresses of record whose changed bindings were taken for a save and are not saved yet.
    pub unsaved: Gauge<u64, AtomicU64>,
    /// Saves that succeeded.
    pub saves: Counter,
    /// Saves that failed and are retried.
    pub save_failures: Counter,
    /// Saves of dialogs.
    pub dialogs: Arc<DialogSaveCounters>,
    /// Lines about calls that the log did not take in time.
    pub call_lines_dropped: Counter,
    /// Failed polls for changed subscribers.
    pub poll_failures: Counter,
    /// Reloads that were applied.
    pub reloads: Counter,
    /// Reloads that were rejected.
    pub reload_failures: Counter,
    /// What happened to the prefix table.
    pub prefixes: PrefixCounters,
    /// Connections and refusals of the admin interface.
    pub admin: Arc<tandem_http::Counts>,
}

/// What is counted about the saves of dialogs.
#[derive(Debug, Default)]
pub struct DialogSaveCounters {
    /// Dialogs with changes that are not in the database yet.
    pub unsaved: Gauge<u64, AtomicU64>,
    /// When the oldest of these changes came, in microseconds since the Unix epoch; 0 if there are none.
    pub oldest: Gauge<u64, AtomicU64>,
    /// Batches that were saved.
    pub saves: Counter,
    /// Saves that failed and are retried.
    pub failures: Counter,
}

/// Result of a lookup for the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The subscriber exists, or the name has addresses.
    Found,
    /// No such subscriber, or no addresses.
    NotFound,
    /// The database or the resolver failed.
    Failed,
    /// The deadline passed.
    TimedOut,
}

impl LookupResult {
    /// All results.
    pub const ALL: [Self; 4] = [Self::Found, Self::NotFound, Self::Failed, Self::TimedOut];

    /// The result as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::NotFound => "not_found",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
        }
    }
}

/// Lookups by result.
#[derive(Debug, Default)]
pub struct LookupCounters {
    found: Counter,
    not_found: Counter,
    failed: Counter,
    timed_out: Counter,
}

impl LookupCounters {
    /// The counter of lookups with this result.
    pub const fn of(&self, result: LookupResult) -> &Counter {
        match result {
            LookupResult::Found => &self.found,
            LookupResult::NotFound => &self.not_found,
            LookupResult::Failed => &self.failed,
            LookupResult::TimedOut => &self.timed_out,
        }
    }
}
