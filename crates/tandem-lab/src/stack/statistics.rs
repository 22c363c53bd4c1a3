//! Mean and standard deviation of several runs.

use serde::Serialize;

/// Statistics of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for one figure.
    pub deviation: f64,
}

impl Statistics {
    /// Of at least one figure; of an empty sample all is 0.
    pub fn of(figures: impl Iterator<Item = f64> + Clone) -> Self {
        let count = figures.clone().count();
        if count == 0 {
            return Self {
                mean: 0.0,
                deviation: 0.0,
            };
        }
        let mean = figures.clone().sum::<f64>() / count as f64;
        let squares: f64 = figures.map(|figure| (figure - mean).powi(2)).sum();
        let deviation = (squares / count.saturating_sub(1).max(1) as f64).sqrt();
        Self { mean, deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let check = |figures: &[f64], mean, deviation| {
            assert_eq!(
                Statistics::of(figures.iter().copied()),
                Statistics { mean, deviation }
            );
        };
        check(&[2.0, 4.0, 6.0], 4.0, 2.0);
        check(&[7.0], 7.0, 0.0);
        check(&[], 0.0, 0.0);
    }
}
