//! How soon a server recovers once the offered rate is below its capacity again.

use crate::run::Cohort;

/// Number of consecutive cohorts (tenths of a second) that are judged together.
const WINDOW: usize = 10;
/// Share of new units that must succeed.
const SHARE: f64 = 0.95;

/// Seconds from the cohort `since` until 95 % of the units due in any second succeed, for the rest of the run. `None` if the cohorts end
/// before that.
pub(super) fn seconds(cohorts: &[Cohort], since: usize) -> Option<f64> {
    let after = cohorts.get(since..).unwrap_or_default();
    if after.len() < WINDOW {
        return None;
    }
    let last_bad = after.windows(WINDOW).rposition(|window| !is_good(window));
    match last_bad {
        None => Some(0.0),
        // The last window is bad, so the recovery is not confirmed.
        Some(place) if place + WINDOW == after.len() => None,
        Some(place) => Some((place + 1) as f64 / 10.0),
    }
}

fn is_good(window: &[Cohort]) -> bool {
    let sum = |value: fn(&Cohort) -> u64| window.iter().map(value).sum::<u64>() as f64;
    sum(|cohort| cohort.succeeded) >= sum(|cohort| cohort.attempted) * SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cohorts(tenths: usize, succeeded: impl Fn(usize) -> u64) -> Vec<Cohort> {
        let cohort = |tenth| Cohort {
            attempted: 100,
            succeeded: succeeded(tenth),
        };
        (0..tenths).map(cohort).collect()
    }

    #[test]
    fn a_server_has_recovered_when_new_calls_succeed_from_then_on() {
        let at_once = cohorts(200, |tenth| if tenth < 100 { 10 } else { 100 });
        assert_eq!(seconds(&at_once, 100), Some(0.0));
        let later = cohorts(200, |tenth| if tenth < 123 { 10 } else { 100 });
        assert_eq!(seconds(&later, 100), Some(2.3));
        let relapsing = cohorts(
            200,
            |tenth| if tenth < 110 || tenth == 150 { 0 } else { 100 },
        );
        assert_eq!(seconds(&relapsing, 100), Some(5.1));
        let never = cohorts(200, |_| 90);
        assert_eq!(seconds(&never, 100), None);
        assert_eq!(seconds(&at_once, 195), None, "too little was seen");
    }

    #[test]
    fn a_few_failures_are_no_relapse() {
        let nearly = cohorts(200, |tenth| if tenth < 100 { 0 } else { 96 });
        assert_eq!(seconds(&nearly, 100), Some(0.0));
    }
}
