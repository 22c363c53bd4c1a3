//! Open-loop arrivals: the time of each unit is fixed before the run begins, however slow the server is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Duration;

/// Units per second, over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A constant rate.
    Constant(f64),
    /// Starts at `from`, and grows by `step` after each `every`.
    Steps {
        /// Initial rate per second.
        from: f64,
        /// Increase per step, per second.
        step: f64,
        /// Duration of a step.
        every: Duration,
    },
}

impl Rate {
    /// The rate per second, this many seconds after the start.
    pub fn at(self, since_start: f64) -> f64 {
        match self {
            Self::Constant(rate) => rate,
            Self::Steps { from, step, every } => {
                let steps = (since_start / every.as_secs_f64().max(1e-3)).floor();
                from + step * steps
            }
        }
    }

    /// Seconds to the next unit at this time; if the rate is 0, to the next change of the rate.
    fn interval(self, since_start: f64) -> f64 {
        let rate = self.at(since_start);
        match self {
            _ if rate > 0.0 => rate.recip(),
            Self::Constant(_) => f64::INFINITY,
            Self::Steps { every, .. } => every.as_secs_f64().max(1e-3),
        }
    }

    /// The share of one of `workers` workers.
    pub(super) fn share(self, workers: usize) -> Self {
        let part = |rate: f64| rate / workers as f64;
        match self {
            Self::Constant(rate) => Self::Constant(part(rate)),
            Self::Steps { from, step, every } => Self::Steps {
                from: part(from),
                step: part(step),
                every,
            },
        }
    }
}

/// Spacing of arrivals within a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Spacing {
    /// Evenly spaced.
    #[default]
    Regular,
    /// At random, as independent callers do (a Poisson process).
    Poisson,
}

/// The start times of units, an endless sequence.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    rate: Rate,
    spacing: Spacing,
    /// Seconds since the start.
    next: f64,
    random: ChaCha8Rng,
}

impl Arrivals {
    pub(crate) fn new(rate: Rate, spacing: Spacing, seed: u64) -> Self {
        let mut arrivals = Self {
            rate,
            spacing,
            next: 0.0,
            random: ChaCha8Rng::seed_from_u64(seed),
        };
        // Several sequences of one rate must not start together: each starts at a random point of its first interval.
        arrivals.next = arrivals.uniform() * rate.interval(0.0);
        arrivals
    }

    /// Time of the next unit since the start; `None` if none is due within a year.
    pub(crate) fn peek(&self) -> Option<Duration> {
        const YEAR: f64 = 365.0 * 86_400.0;
        (self.next < YEAR).then(|| Duration::from_secs_f64(self.next))
    }

    /// Moves to the next unit.
    pub(crate) fn advance(&mut self) {
        let interval = self.rate.interval(self.next);
        self.next += match self.spacing {
            Spacing::Regular => interval,
            Spacing::Poisson => interval * -(1.0 - self.uniform()).ln(),
        };
    }

    /// A number in [0, 1).
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(rate: Rate, spacing: Spacing, until: f64) -> Vec<f64> {
        let mut arrivals = Arrivals::new(rate, spacing, 7);
        let mut times = Vec::new();
        while let Some(next) = arrivals.peek().filter(|next| next.as_secs_f64() < until) {
            times.push(next.as_secs_f64());
            arrivals.advance();
        }
        times
    }

    #[test]
    fn regular_arrivals_do_not_drift() {
        let times = times(Rate::Constant(300.0), Spacing::Regular, 1_000.0);
        assert!(times.len().abs_diff(300_000) <= 1, "{}", times.len());
        let (first, last) = (times[0], times[299_999]);
        assert!((last - first - 299_999.0 / 300.0).abs() < 1e-6);
    }

    #[test]
    fn random_arrivals_keep_the_rate_and_have_its_variance() {
        let times = times(Rate::Constant(50.0), Spacing::Poisson, 2_000.0);
        assert!((98_500..101_500).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // In an exponential distribution the deviation equals the mean.
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "{variance} {mean}"
        );
    }

    #[test]
    fn steps_rise_when_their_time_has_come() {
        let rate = Rate::Steps {
            from: 12.0,
            step: 6.0,
            every: Duration::from_secs(300),
        };
        let times = times(rate, Spacing::Regular, 900.0);
        let within = |from: f64, until: f64| {
            times
                .iter()
                .filter(|time| (from..until).contains(*time))
                .count()
        };
        assert!(within(0.0, 300.0).abs_diff(3_600) <= 1);
        assert!(within(300.0, 600.0).abs_diff(5_400) <= 1);
        assert!(within(600.0, 900.0).abs_diff(7_200) <= 1);
    }

    #[test]
    fn no_rate_means_no_arrival() {
        assert_eq!(times(Rate::Constant(0.0), Spacing::Regular, 1e6), [0.0; 0]);
    }
}
