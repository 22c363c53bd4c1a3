//! What is counted about the dialogs that a fleet shares.

use prometheus_client::metrics::counter::Counter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Why a dialog came to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A request of it arrived.
    Request,
    /// Its node is gone.
    Orphan,
    /// This node had it before it was restarted.
    Own,
}

impl Origin {
    /// All origins, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::Request, Self::Orphan, Self::Own];

    /// The origin as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Orphan => "orphan",
            Self::Own => "own",
        }
    }
}

/// What became of a search for a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// It was found.
    Found,
    /// The store does not have it.
    NotFound,
    /// The store did not answer in time.
    TimedOut,
    /// Too many searches waited.
    Dropped,
}

impl Search {
    /// All results, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Found, Self::NotFound, Self::TimedOut, Self::Dropped];

    /// The result as a label.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::NotFound => "not_found",
            Self::TimedOut => "timed_out",
            Self::Dropped => "dropped",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct FleetDialogCounters {
    claimed: [Counter; Origin::ALL.len()],
    searches: [Counter; Search::ALL.len()],
    /// Changes that the store has taken.
    pub written: Counter,
    /// Dialogs that other nodes have claimed.
    pub lost: Counter,
    /// Changes that did not fit into memory.
    pub overflows: Counter,
    /// Records of calls that were left to another node.
    pub withheld: Counter,
    /// Failed attempts to reach the store, and errors that it answered.
    pub store_errors: Counter,
    connected: AtomicBool,
    dialogs: AtomicUsize,
    bytes: AtomicUsize,
}

impl FleetDialogCounters {
    /// Dialogs that came to this node.
    pub fn claimed(&self, origin: Origin) -> u64 {
        self.claimed.get(origin as usize).map_or(0, Counter::get)
    }

    pub(super) fn note_claimed(&self, origin: Origin) {
        if let Some(counter) = self.claimed.get(origin as usize) {
            counter.inc();
        }
    }

    /// Searches with this result.
    pub fn searches(&self, result: Search) -> u64 {
        self.searches.get(result as usize).map_or(0, Counter::get)
    }

    pub(super) fn note_search(&self, result: Search) {
        if let Some(counter) = self.searches.get(result as usize) {
            counter.inc();
        }
    }

    /// Whether dialogs are exchanged at present.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    /// Dialogs of this node that are shared, and the memory of their states in bytes.
    pub fn shared(&self) -> (usize, usize) {
        let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
        (read(&self.dialogs), read(&self.bytes))
    }

    pub(super) fn set_shared(&self, dialogs: usize, bytes: usize) {
        self.dialogs.store(dialogs, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}
