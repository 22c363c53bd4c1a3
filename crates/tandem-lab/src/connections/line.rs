//! Linear regression through measured points.

/// The fitted line: `value = base + each * count`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) each: f64,
    pub(super) base: f64,
    /// Coefficient of determination: 1 is a perfect line.
    pub(super) r_squared: f64,
}

impl Line {
    /// Fits by least squares. `None` with fewer than two different counts.
    pub(super) fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in points {
            let (dx, dy) = (x - mean_x, y - mean_y);
            xx += dx * dx;
            xy += dx * dy;
            yy += dy * dy;
        }
        (xx > 0.0).then(|| Self {
            each: xy / xx,
            base: mean_y - xy / xx * mean_x,
            r_squared: if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line() {
        let line = Line::through(&[(0.0, 7.0), (1_000.0, 2_007.0), (5_000.0, 10_007.0)]);
        let line = line.expect("three points");
        assert!((line.each - 2.0).abs() < 1e-9 && (line.base - 7.0).abs() < 1e-6);
        assert!((line.r_squared - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_count_makes_no_line() {
        assert_eq!(Line::through(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Line::through(&[]), None);
    }
}
