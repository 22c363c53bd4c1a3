//! Delays of a run, in microseconds.

use crate::controller::protocol::Distribution;
use hdrhistogram::Histogram;
use std::time::Duration;

/// Upper bound of the histograms, in microseconds: two minutes.
const LONGEST: u64 = 120_000_000;

/// Delays of the whole run, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    /// From the due time of a command until it was written to its agent's connection.
    pub(super) lateness: Histogram<u64>,
    pub(super) lateness_table: LatenessTable,
    /// From the due time of a command until its agent's confirmation arrived.
    pub(super) confirmed: Histogram<u64>,
    /// From when an agent had read a command until it sent the INVITE.
    pub(super) in_agent: Histogram<u64>,
    pub(super) session_request: Histogram<u64>,
    /// From when an agent had read a command to the first 1xx other than 100, or the 2xx.
    pub(super) response: Histogram<u64>,
    pub(super) answer: Histogram<u64>,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            lateness: histogram(),
            lateness_table: LatenessTable::default(),
            confirmed: histogram(),
            in_agent: histogram(),
            session_request: histogram(),
            response: histogram(),
            answer: histogram(),
        }
    }
}

/// Commands by lateness. The exact lateness selects the row, because a histogram bucket may span a bound.
#[derive(Clone, Debug, Default)]
pub(super) struct LatenessTable([u64; LatenessTable::BOUNDS.len()]);

impl LatenessTable {
    /// Lower bounds of the rows, in microseconds. A lateness equal to a bound belongs to the row below it.
    const BOUNDS: [u64; 7] = [0, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000];

    /// Counts a command.
    pub(super) fn record(&mut self, late: Duration) {
        let above = |bound: &u64| late > Duration::from_micros(*bound);
        let row = Self::BOUNDS
            .iter()
            .skip(1)
            .filter(|bound| above(bound))
            .count();
        if let Some(count) = self.0.get_mut(row) {
            *count += 1;
        }
    }

    /// The lower bound of each row in milliseconds, and its count.
    pub(super) fn rows(&self) -> Vec<(f64, u64)> {
        let rows = Self::BOUNDS.into_iter().zip(self.0);
        rows.map(|(from, count)| (from as f64 / 1e3, count))
            .collect()
    }
}

/// An empty histogram for delays in microseconds.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3)
        .unwrap_or_else(|_| unreachable!("the bounds are sound"))
}

pub(super) fn record(histogram: &mut Histogram<u64>, delay: Duration) {
    histogram.saturating_record(delay.as_micros() as u64);
}

/// Adds delays that an agent has reported.
pub(super) fn add(histogram: &mut Histogram<u64>, delays: &Distribution) {
    for (value, count) in delays {
        histogram.saturating_record_n(*value, *count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_late_by_exactly_a_bound_is_in_one_row_of_the_table() {
        let mut table = LatenessTable::default();
        for bound in LatenessTable::BOUNDS {
            for microseconds in [bound.saturating_sub(1), bound, bound + 1] {
                table.record(Duration::from_micros(microseconds));
            }
        }
        let counts: Vec<u64> = table.rows().into_iter().map(|(_, count)| count).collect();
        // Around 0 are 0, 0 and 1; the first row also has 999 and 1000.
        assert_eq!(counts, [5, 3, 3, 3, 3, 3, 1]);
        assert_eq!(counts.iter().sum::<u64>(), 21);
    }

    #[test]
    fn a_lateness_just_above_a_bound_is_above_it() {
        let mut table = LatenessTable::default();
        table.record(Duration::from_nanos(5_000_001));
        table.record(Duration::from_secs(3_600));
        let counts: Vec<u64> = table.rows().into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [0, 0, 0, 1, 0, 0, 1]);
    }
}
