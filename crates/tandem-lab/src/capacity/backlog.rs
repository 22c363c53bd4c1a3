//! Detects trials whose backlog grows. A growing number of units in progress means that the rate is above the server's capacity, however
//! short the delays still are.

use crate::run::Second;

/// Share of the trial's units by which the backlog may grow.
const SHARE: f64 = 0.005;
/// Growth below this number of units proves nothing.
const FEW: f64 = 20.0;
/// Tolerated standard deviations of the units in progress (for a Poisson process, the square root of their mean).
const DEVIATIONS: f64 = 4.0;

/// Change of the units in progress over a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Backlog {
    /// Growth from start to end, by a linear fit over all seconds.
    pub(super) growth: f64,
    /// Growth that chance explains.
    pub(super) tolerance: f64,
}

impl Backlog {
    /// From the seconds up to `until`. `begun` units started in them.
    pub(super) fn of(seconds: &[Second], until: f64, begun: u64) -> Self {
        // The last second may be incomplete, but the units in progress at its end are known.
        let points = seconds.iter().filter(|second| second.time <= until + 0.5);
        let points: Vec<(f64, f64)> = points
            .map(|second| (second.time, second.in_progress as f64))
            .collect();
        let count = points.len() as f64;
        if points.len() < 3 {
            return Self::default();
        }
        let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
        let (time, level) = (mean(|point| point.0), mean(|point| point.1));
        let sums = points.iter().fold((0.0, 0.0), |sums, point| {
            let apart = point.0 - time;
            (sums.0 + apart * (point.1 - level), sums.1 + apart * apart)
        });
        Self {
            growth: sums.0 / sums.1.max(1e-9) * until,
            tolerance: (begun as f64 * SHARE)
                .max(level.max(0.0).sqrt() * DEVIATIONS)
                .max(FEW),
        }
    }

    /// Whether it grew by more than chance explains.
    pub(super) fn grows(&self) -> bool {
        self.growth > self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(in_progress: impl Fn(u32) -> u64) -> Vec<Second> {
        let second = |at: u32| Second {
            time: f64::from(at),
            attempted: 300,
            succeeded: 300,
            failed: 0,
            in_progress: in_progress(at),
            p50_us: None,
            p99_us: None,
            lateness_us: None,
        };
        (1..=60).map(second).collect()
    }

    #[test]
    fn a_rate_two_per_cent_above_what_is_carried_leaves_a_backlog_that_grows() {
        let backlog = Backlog::of(&seconds(|at| 10 + u64::from(at) * 6), 60.0, 18_000);
        assert!((backlog.growth - 360.0).abs() < 1.0, "{backlog:?}");
        assert!(backlog.grows());
    }

    #[test]
    fn what_goes_up_and_down_or_came_and_went_is_no_backlog() {
        let swings = Backlog::of(&seconds(|at| 40 + u64::from(at % 7) * 5), 60.0, 18_000);
        assert!(!swings.grows(), "{swings:?}");
        let burst = Backlog::of(&seconds(|at| if at == 30 { 900 } else { 10 }), 60.0, 18_000);
        assert!(!burst.grows(), "{burst:?}");
        let falls = Backlog::of(&seconds(|at| 1_000 - u64::from(at) * 10), 60.0, 18_000);
        assert!(!falls.grows(), "{falls:?}");
        assert!(!Backlog::of(&seconds(|_| 10)[..2], 2.0, 600).grows());
    }
}
