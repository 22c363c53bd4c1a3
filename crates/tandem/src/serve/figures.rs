//! What the control plane counts. Many writers, so these are ordinary atomic additions; none is on the call path.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tandem_http::Counts;

/// A number with many writers.
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

    /// Reads it.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a lookup for the data plane ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// There is such a subscriber, or the name has addresses.
    Found,
    /// There is none.
    Missing,
    /// The database or the resolver failed.
    Failed,
    /// The deadline had passed.
    Late,
}

impl Ending {
    /// All of them with their labels.
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
    /// Counts one.
    pub fn ended(&self, ending: Ending) {
        self.of(ending).increment();
    }

    /// How many ended so.
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
    /// Credentials asked of the database for the data plane.
    pub credentials: Lookups,
    /// Names resolved for the data plane.
    pub names: Lookups,
    /// Addresses of record whose changed bindings are not saved yet.
    pub unsaved: Figure,
    /// Saves that succeeded.
    pub saves: Figure,
    /// Saves that failed and are tried again.
    pub save_failures: Figure,
    /// Times that changed subscribers could not be asked for.
    pub poll_failures: Figure,
    /// Reloads that took the file over.
    pub reloads: Figure,
    /// Reloads that changed nothing because something was wrong.
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
