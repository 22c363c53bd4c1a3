//! Counters of the control plane. They have many writers and are not on the call path, so they use ordinary atomic additions.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_http::Counts;

/// A counter or gauge with many writers.
#[derive(Debug, Default)]
pub struct Figure(AtomicU64);

impl Figure {
    /// Adds one.
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets a gauge.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads the value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a lookup for the data plane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The subscriber exists, or the name has addresses.
    Found,
    /// No such subscriber, or no addresses.
    Missing,
    /// The database or the resolver failed.
    Failed,
    /// The deadline passed.
    Late,
}

impl Ending {
    /// All endings with their labels.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Found, "found"),
        (Self::Missing, "missing"),
        (Self::Failed, "failed"),
        (Self::Late, "late"),
    ];
}

/// Counts of lookups by ending.
#[derive(Debug, Default)]
pub struct Lookups([Figure; Ending::ALL.len()]);

impl Lookups {
    /// Counts a lookup.
    pub fn ended(&self, ending: Ending) {
        self.of(ending).increment();
    }

    /// Number of lookups with this ending.
    pub fn value(&self, ending: Ending) -> u64 {
        self.of(ending).value()
    }

    fn of(&self, ending: Ending) -> &Figure {
        let [found, missing, failed, late] = &self.0;
        match ending {
            Ending::Found => found,
            Ending::Missing => missing,
            Ending::Failed => failed,
            Ending::Late => late,
        }
    }
}

/// All counters of the control plane.
#[derive(Debug, Default)]
pub struct Figures {
    /// Lookups of credentials for the data plane.
    pub credentials: Lookups,
    /// Lookups of names for the data plane.
    pub names: Lookups,
    /// Addresses of record whose changed bindings are not saved yet.
    pub unsaved: Figure,
    /// Saves that succeeded.
    pub saves: Figure,
    /// Saves that failed and are retried.
    pub save_failures: Figure,
    /// Failed polls for changed subscribers.
    pub poll_failures: Figure,
    /// Reloads that were applied.
    pub reloads: Figure,
    /// Reloads that were rejected.
    pub reload_failures: Figure,
    /// Connections and refusals of the admin interface.
    pub admin: Arc<Counts>,
}

impl Figures {
    /// Counts a reload.
    pub fn reloaded(&self, taken_over: bool) {
        let figure = if taken_over {
            &self.reloads
        } else {
            &self.reload_failures
        };
        figure.increment();
    }
}
