//! The highest rate that holds: up in steps until one does not, then between the two.

/// How rates are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Search {
    /// The first one.
    pub(super) from: f64,
    /// No higher one is tried.
    pub(super) to: f64,
    /// Each is so many times the one before, until one does not hold.
    pub(super) growth: f64,
    /// Ends when what holds and what does not lie so close (0.05: five per cent).
    pub(super) resolution: f64,
}

/// A rate that was tried, and whether it held.
pub(super) type Tried = (f64, bool);

impl Search {
    /// The rate to try next; `None`: the search has ended.
    pub(super) fn next(&self, tried: &[Tried]) -> Option<f64> {
        let worst = lowest_that_failed(tried);
        match (highest_that_held(tried), worst) {
            (None, None) => Some(self.from),
            (Some(held), None) if held >= self.to => None,
            (Some(held), None) => Some((held * self.growth).min(self.to)),
            // A hundred times down from where it began is no search any more.
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

/// The highest rate that held below all that did not.
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
