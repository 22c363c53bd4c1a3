//! The search strategy: increase the rate until it fails, then bisect.

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Search {
    /// The first rate.
    pub(super) from: f64,
    /// The highest rate to try.
    pub(super) to: f64,
    /// Factor between rates until one fails.
    pub(super) growth: f64,
    /// Relative distance between the highest rate that holds and the lowest that fails at which the search ends (0.05 is 5 %).
    pub(super) resolution: f64,
}

/// A rate, and whether it held.
pub(super) type Tried = (f64, bool);

impl Search {
    /// The next rate to try; `None` ends the search.
    pub(super) fn next(&self, tried: &[Tried]) -> Option<f64> {
        let worst = lowest_that_failed(tried);
        match (highest_that_held(tried), worst) {
            (None, None) => Some(self.from),
            (Some(held), None) if held >= self.to => None,
            (Some(held), None) => Some((held * self.growth).min(self.to)),
            // Give up at a hundredth of the first rate.
            (None, Some(failed)) => {
                let next = failed / self.growth;
                (next > self.from / 100.0).then_some(next)
            }
            (Some(held), Some(failed)) => {
                let between = failed - held > held * self.resolution;
                between.then_some(held.midpoint(failed))
            }
        }
    }
}

/// The highest rate that held below all rates that failed.
pub(super) fn highest_that_held(tried: &[Tried]) -> Option<f64> {
    let failed = lowest_that_failed(tried).unwrap_or(f64::INFINITY);
    let held = tried
        .iter()
        .filter(|(rate, held)| *held && *rate < failed)
        .map(|(rate, _)| *rate);
    held.reduce(f64::max)
}

fn lowest_that_failed(tried: &[Tried]) -> Option<f64> {
    let failed = tried
        .iter()
        .filter(|(_, held)| !held)
        .map(|(rate, _)| *rate);
    failed.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search {
        from: 100.0,
        to: 10_000.0,
        growth: 1.5,
        resolution: 0.02,
    };

    fn find(holds: impl Fn(f64) -> bool) -> (Option<f64>, usize) {
        let mut tried = Vec::new();
        while let Some(rate) = SEARCH.next(&tried) {
            tried.push((rate, holds(rate)));
            assert!(tried.len() < 100, "{tried:?}");
        }
        (highest_that_held(&tried), tried.len())
    }

    #[test]
    fn what_a_server_carries_is_found_wherever_it_lies() {
        for capacity in [11.0, 99.0, 100.0, 101.0, 734.0, 5_000.0, 9_990.0] {
            let (found, trials) = find(|rate| rate <= capacity);
            let found = found.unwrap();
            assert!(
                found <= capacity && found * 1.03 > capacity,
                "{capacity}: {found}"
            );
            assert!(trials < 22, "{capacity}: {trials}");
        }
    }

    #[test]
    fn the_search_ends_where_it_may_go_no_further() {
        assert_eq!(find(|_| true).0, Some(10_000.0));
        assert_eq!(find(|_| false).0, None);
    }
}
