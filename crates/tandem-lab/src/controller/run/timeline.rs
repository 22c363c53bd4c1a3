//! The timeline of a run, second by second.

use super::Totals;
use super::delays::{add, histogram, record};
use crate::controller::protocol::Distribution;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Maximum number of points: a little more than a day.
const MOST: usize = 100_000;

/// One second of a run, or the incomplete last one. Counts are those of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(in crate::controller) struct Point {
    /// End of the second, in seconds since the start.
    pub(in crate::controller) time: f64,
    pub(in crate::controller) commanded: u64,
    pub(in crate::controller) answered: u64,
    pub(in crate::controller) succeeded: u64,
    pub(in crate::controller) failed: u64,
    pub(in crate::controller) lost: u64,
    /// At the end of the second.
    pub(in crate::controller) in_progress: u64,
    /// Delay from a call's command to the first 1xx other than 100, or the 2xx, as reported in this second, in microseconds; `None`
    /// without samples.
    pub(in crate::controller) p50_us: Option<u64>,
    pub(in crate::controller) p99_us: Option<u64>,
    /// Lateness of the commands of this second, in microseconds.
    pub(in crate::controller) late_p99_us: Option<u64>,
    pub(in crate::controller) late_max_us: Option<u64>,
}

#[derive(Debug)]
pub(in crate::controller) struct Timeline {
    points: Vec<Point>,
    before: Totals,
    /// Complete seconds.
    seconds: u64,
    response: Histogram<u64>,
    lateness: Histogram<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            before: Totals::default(),
            seconds: 0,
            response: histogram(),
            lateness: histogram(),
        }
    }
}

impl Timeline {
    /// Records the lateness of a command.
    pub(super) fn late(&mut self, by: Duration) {
        record(&mut self.lateness, by);
    }

    /// Adds delays from commands to responses.
    pub(super) fn delays(&mut self, delays: &Distribution) {
        add(&mut self.response, delays);
    }

    /// Closes the second if `since_start` is past its end; always with `is_last`.
    pub(super) fn look(&mut self, since_start: Duration, totals: &Totals, is_last: bool) {
        if since_start.as_secs() <= self.seconds && !is_last {
            return;
        }
        self.seconds = since_start.as_secs();
        if !self.is_full() {
            let quantile = |histogram: &Histogram<u64>, quantile| {
                (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile))
            };
            let before = &self.before;
            self.points.push(Point {
                time: since_start.as_secs_f64(),
                commanded: totals.commanded.saturating_sub(before.commanded),
                answered: totals.answered.saturating_sub(before.answered),
                succeeded: totals.succeeded.saturating_sub(before.succeeded),
                failed: totals.failed.saturating_sub(before.failed),
                lost: totals.lost.saturating_sub(before.lost),
                in_progress: totals.in_progress,
                p50_us: quantile(&self.response, 0.5),
                p99_us: quantile(&self.response, 0.99),
                late_p99_us: quantile(&self.lateness, 0.99),
                late_max_us: quantile(&self.lateness, 1.0),
            });
        }
        self.before = totals.clone();
        self.response.reset();
        self.lateness.reset();
    }

    /// The points from this index on.
    pub(in crate::controller) fn points(&self, from: usize) -> &[Point] {
        self.points.get(from..).unwrap_or_default()
    }

    /// Whether the maximum number of points is reached.
    pub(super) fn is_full(&self) -> bool {
        self.points.len() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_holds_what_happened_in_its_second() {
        let mut timeline = Timeline::default();
        let totals = |commanded| Totals {
            commanded,
            ..Totals::default()
        };
        let milliseconds = Duration::from_millis;
        timeline.late(milliseconds(3));
        timeline.look(milliseconds(400), &totals(3), false);
        assert!(timeline.points(0).is_empty());
        timeline.look(milliseconds(1_010), &totals(10), false);
        timeline.look(milliseconds(2_000), &totals(15), false);
        timeline.look(milliseconds(2_100), &totals(16), true);
        let commanded: Vec<u64> = timeline
            .points(0)
            .iter()
            .map(|point| point.commanded)
            .collect();
        assert_eq!(commanded, [10, 5, 1]);
        assert_eq!(
            timeline.points(0)[0].late_max_us.map(|us| us / 1_000),
            Some(3)
        );
        assert_eq!(timeline.points(0)[1].late_max_us, None);
        assert_eq!(timeline.points(2).len(), 1);
        assert!(timeline.points(9).is_empty());
    }
}
