//! What is counted about the exchange of bindings.
use prometheus_client::metrics::counter::Counter;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Why a record of another node was not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// This node knows a newer one, or the same.
    Older,
    /// A worker has changed the binding at the same time. That change gets a newer version.
    Overtaken,
    /// It is not a record of a binding that this version can read.
    Unreadable,
    /// Its time is too far ahead of this node's clock.
    Ahead,
    /// The table of bindings is full, or its versions are.
    NoRoom,
}

impl Ignored {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Older,
        Self::Overtaken,
        Self::Unreadable,
        Self::Ahead,
        Self::NoRoom,
    ];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Older => "older",
            Self::Overtaken => "overtaken",
            Self::Unreadable => "unreadable",
            Self::Ahead => "ahead",
            Self::NoRoom => "no_room",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub struct FleetCounters {
    /// Records that the store confirmed.
    pub sent: Counter,
    /// Records of this node for which the store had a newer one.
    pub refused: Counter,
    /// Records that were taken over.
    pub received: Counter,
    ignored: [Counter; Ignored::ALL.len()],
    /// Complete comparisons with the store.
    pub resynchronisations: Counter,
    /// Entries that another process with the same instance has written.
    pub same_instance: Counter,
    /// Failed attempts to reach the store, and errors that it answered.
    pub store_errors: Counter,
    /// Times the queue was full.
    pub overflows: Counter,
    /// Records that were deleted from the store because they are of no use any more.
    pub deleted: Counter,
    /// How long changes took to come back from the store.
    pub round_trip: RoundTrip,
    /// Uses of nonces that other nodes have told.
    pub nonce_uses: Counter,
    /// Failures of the exchange of these uses.
    pub nonce_errors: Counter,
    connected: AtomicBool,
    waiting: AtomicUsize,
    waiting_bytes: AtomicUsize,
    versions: AtomicUsize,
    version_bytes: AtomicUsize,
}

impl FleetCounters {
    /// Records that were not taken over, by reason.
    pub fn ignored(&self, why: Ignored) -> u64 {
        self.ignored.get(why as usize).map_or(0, Counter::get)
    }

    pub(super) fn note_ignored(&self, why: Ignored) {
        if let Some(counter) = self.ignored.get(why as usize) {
            counter.inc();
        }
    }

    /// Whether changes are exchanged at present.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    pub(super) fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Ordering::Relaxed);
    }

    /// Records that wait to be sent, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
        (read(&self.waiting), read(&self.waiting_bytes))
    }

    pub(super) fn set_waiting(&self, records: usize, bytes: usize) {
        self.waiting.store(records, Ordering::Relaxed);
        self.waiting_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Versions of bindings in memory, and about how many bytes they take.
    pub fn versions(&self) -> (usize, usize) {
        let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
        (read(&self.versions), read(&self.version_bytes))
    }

    pub(super) fn set_versions(&self, entries: usize, bytes: usize) {
        self.versions.store(entries, Ordering::Relaxed);
        self.version_bytes.store(bytes, Ordering::Relaxed);
    }
}

/// Upper bounds of the buckets of the histogram in milliseconds.
const BOUNDS: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// A histogram of durations.
#[derive(Debug, Default)]
pub struct RoundTrip {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    micros: AtomicU64,
}

impl RoundTrip {
    pub(super) fn record(&self, took: Duration) {
        let millis = took.as_millis();
        let place = BOUNDS.iter().position(|bound| millis < u128::from(*bound));
        if let Some(bucket) = self.buckets.get(place.unwrap_or(BOUNDS.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The buckets, each with its upper bound in seconds and its count.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().map(|millis| f64::from(*millis) / 1_000.0);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self.buckets.iter();
        bounds
            .zip(counts.map(|count| count.load(Ordering::Relaxed)))
            .collect()
    }

    /// The sum of all durations in seconds.
    pub fn sum(&self) -> f64 {
        Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64()
    }
}
