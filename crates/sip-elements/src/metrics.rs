//! Counters of one worker: written by that worker alone, read by anybody. Never reset.
use sip_message::Method;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer: an addition is a load and a store, no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
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

/// Why something received went no further. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by the reason")]
#[repr(usize)]
pub enum Drop {
    NotSip,
    MalformedResponse,
    MalformedAck,
    StrayResponse,
    StrayAck,
    KeepAlive,
    TooManyHeaders,
    Foreign,
    NoTarget,
}
/// Their labels, in the order of [`Drop`].
pub const DROPS: [&str; 9] = [
    "not_sip",
    "malformed_response",
    "malformed_ack",
    "stray_response",
    "stray_ack",
    "keep_alive",
    "too_many_headers",
    "foreign",
    "no_target",
];

/// Upper bounds of the latency buckets, in microseconds; one more bucket holds the rest.
pub const LATENCY_BOUNDS: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000, 30_000_000,
];

/// A histogram of latencies.
#[derive(Debug, Default)]
pub struct Latency {
    /// One for each of [`LATENCY_BOUNDS`], and the rest.
    pub buckets: [Counter; LATENCY_BOUNDS.len() + 1],
    /// Sum in microseconds.
    pub sum: Counter,
}

impl Latency {
    /// Records one.
    pub fn record(&self, elapsed: std::time::Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let place = LATENCY_BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(place) {
            bucket.increment();
        }
        self.sum.add(micros);
    }
}

/// The labels of [`WorkerMetrics::transactions`].
pub const TRANSACTION_COUNTS: [&str; 12] = [
    "servers_created",
    "servers_ended",
    "servers_live",
    "clients_created",
    "clients_ended",
    "clients_live",
    "requests_retransmitted",
    "responses_retransmitted",
    "requests_absorbed",
    "responses_stray",
    "timeouts",
    "full",
];

/// All counters of one worker.
#[derive(Debug)]
pub struct WorkerMetrics {
    /// Requests received, by method.
    pub requests: [Counter; Method::LABELS.len()],
    /// Responses sent upstream or made by us, by status code minus 100.
    pub responses_sent: Box<[Counter]>,
    /// Responses received, by class (index 0 = 1xx).
    pub responses_received: [Counter; 6],
    /// Dropped, by reason.
    pub drops: [Counter; DROPS.len()],
    /// Time from a request to its final response, by method.
    pub latency: [Latency; Method::LABELS.len()],
    /// Gauges and counts of the transaction layer, copied at each expiry round.
    pub transactions: [Counter; 12],
    /// Live response contexts.
    pub response_contexts: Counter,
    /// Response contexts begun.
    pub response_contexts_created: Counter,
    /// Response contexts ended.
    pub response_contexts_ended: Counter,
    /// Calls that were answered while the node drains and wait for their ACK.
    pub unacknowledged: Counter,
    /// Parked requests.
    pub parked: Counter,
    /// Questions asked.
    pub questions: Counter,
    /// Questions whose deadline passed.
    pub questions_expired: Counter,
    /// Requests refused because a table was full.
    pub refused_full: Counter,
    /// Times the next candidate of a target was tried because one failed.
    pub failovers: Counter,
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            responses_sent: (0..600).map(|_| Counter::default()).collect(),
            responses_received: Default::default(),
            drops: Default::default(),
            latency: Default::default(),
            transactions: Default::default(),
            response_contexts: Counter::default(),
            response_contexts_created: Counter::default(),
            response_contexts_ended: Counter::default(),
            unacknowledged: Counter::default(),
            parked: Counter::default(),
            questions: Counter::default(),
            questions_expired: Counter::default(),
            refused_full: Counter::default(),
            failovers: Counter::default(),
        }
    }
}

impl WorkerMetrics {
    /// Copies the counts of the transaction layer, in the order of [`TRANSACTION_COUNTS`].
    pub fn publish_transactions(&self, stats: &sip_transaction::Stats) {
        let values = [
            stats.servers_created,
            stats.servers_ended,
            stats.servers_live,
            stats.clients_created,
            stats.clients_ended,
            stats.clients_live,
            stats.requests_retransmitted,
            stats.responses_retransmitted,
            stats.requests_absorbed,
            stats.responses_stray,
            stats.timeouts,
            stats.full,
        ];
        for (counter, value) in self.transactions.iter().zip(values) {
            counter.set(value);
        }
    }

    /// Counts a response sent.
    pub fn sent(&self, status: u16) {
        if let Some(counter) = self
            .responses_sent
            .get(usize::from(status.saturating_sub(100)))
        {
            counter.increment();
        }
    }

    /// Counts a drop.
    pub fn dropped(&self, reason: Drop) {
        if let Some(counter) = self.drops.get(reason as usize) {
            counter.increment();
        }
    }
}
