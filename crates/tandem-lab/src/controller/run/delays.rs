//! Delays of a run, in microseconds.

use crate::controller::protocol::Distribution;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Longest delay that is told apart, in microseconds: two minutes.
const LONGEST: u64 = 120_000_000;

/// Delays of the whole run, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    /// From when a command was due until it had been written to its agent's connection.
    pub(super) lateness: Histogram<u64>,
    /// From when it was due until its agent's confirmation had come back.
    pub(super) confirmed: Histogram<u64>,
    /// From when an agent had read a command until its INVITE left.
    pub(super) in_agent: Histogram<u64>,
    pub(super) session_request: Histogram<u64>,
    pub(super) answer: Histogram<u64>,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            lateness: histogram(),
            confirmed: histogram(),
            in_agent: histogram(),
            session_request: histogram(),
            answer: histogram(),
        }
    }
}

/// An empty one for delays in microseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are sound"))
}

/// Records a delay.
pub(super) fn record(histogram: &mut Histogram<u64>, delay: Duration) {
    histogram.saturating_record(delay.as_micros() as u64);
}

/// Records delays that an agent has told.
pub(super) fn add(histogram: &mut Histogram<u64>, delays: &Distribution) {
    for (value, count) in delays {
        histogram.saturating_record_n(*value, *count);
    }
}
