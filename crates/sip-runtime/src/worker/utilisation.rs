//! Measures a worker's utilisation and decides whether it is high enough to let messages collect.
//!
//! Utilisation is the share of time in which the worker neither waits nor pauses. Pauses lower it, because they make the same
//! messages cheaper. So while a worker pauses, its utilisation does not show how busy it would be without pauses. The worker
//! measures that in a short trial, once a second.

use sip_transport::Time;
use std::time::Duration;

/// Utilisation is measured over at least this long.
const WINDOW: Duration = Duration::from_millis(20);

/// Pauses begin above this percentage. With pauses, a message costs about two thirds of what it costs without. So this is about
/// half of the worker's capacity.
const BUSY: u128 = 70;

/// If the percentage without pauses is below this, pauses end.
const QUIET: u128 = 60;

/// If the percentage with pauses is below this, it would be below `QUIET` without them: pauses halve the cost of a message at best.
const QUIET_WITH_PAUSES: u128 = QUIET / 2;

/// Busy windows in a row before pauses begin. A worker that lost its CPU for a few milliseconds must not look busy.
const BUSY_WINDOWS: u8 = 3;

/// How long pauses last before a trial without them.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
enum Mode {
    /// Messages are handled as they arrive. This many windows in a row were busy.
    Direct { busy_windows: u8 },
    /// Messages collect during pauses.
    Gathering { since: Time },
    /// Messages are handled as they arrive for one window, to measure the utilisation without pauses.
    Trial,
}

/// Measures the utilisation and decides whether to pause.
#[derive(Debug)]
pub(super) struct Utilisation {
    mode: Mode,
    /// When the window began.
    begun: Time,
    /// How long the worker has waited or paused in this window.
    idle: Duration,
}

impl Utilisation {
    pub(super) const fn new(now: Time) -> Self {
        Self {
            mode: Mode::Direct { busy_windows: 0 },
            begun: now,
            idle: Duration::ZERO,
        }
    }

    /// Whether the worker is busy enough to let messages collect.
    pub(super) const fn is_high(&self) -> bool {
        matches!(self.mode, Mode::Gathering { .. })
    }

    /// Records that the worker waited or paused from `begun` to `ended`.
    pub(super) fn idled(&mut self, begun: Time, ended: Time) {
        self.idle += ended - begun;
        let window = ended - self.begun;
        if window < WINDOW {
            return;
        }
        let busy = window.saturating_sub(self.idle);
        let percent = busy.as_micros() * 100 / window.as_micros();
        self.decide(ended, percent);
        (self.begun, self.idle) = (ended, Duration::ZERO);
    }

    /// Decides after a window in which the worker was busy for `percent` of the time.
    fn decide(&mut self, now: Time, percent: u128) {
        self.mode = match self.mode {
            Mode::Direct { busy_windows } if percent > BUSY => {
                let busy_windows = busy_windows + 1;
                if busy_windows < BUSY_WINDOWS {
                    Mode::Direct { busy_windows }
                } else {
                    Mode::Gathering { since: now }
                }
            }
            Mode::Gathering { since } if percent >= QUIET_WITH_PAUSES => {
                if percent < QUIET && now - since >= TRIAL_INTERVAL {
                    Mode::Trial
                } else {
                    Mode::Gathering { since }
                }
            }
            Mode::Trial if percent >= QUIET => Mode::Gathering { since: now },
            _ => Mode::Direct { busy_windows: 0 },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_unix_seconds(1_800_000_000);

    /// Runs windows in which the worker is busy for these percentages. Returns whether messages collect after each of them.
    fn check(percents: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let mut utilisation = Utilisation::new(START);
        let mut now = START;
        let percents = percents.into_iter();
        percents
            .map(|percent| {
                let begun = now + WINDOW * percent / 100;
                now = now + WINDOW;
                utilisation.idled(begun, now);
                utilisation.is_high()
            })
            .collect()
    }

    #[test]
    fn three_busy_windows_in_a_row_begin_it() {
        assert_eq!(
            check([80, 80, 30, 80, 80, 80]),
            [false, false, false, false, false, true]
        );
        assert!(!check([70; 100]).contains(&true));
    }

    #[test]
    fn it_ends_at_once_where_pauses_could_not_have_spared_so_much() {
        assert_eq!(
            check([80, 80, 80, 30, 29, 50]),
            [false, false, true, true, false, false]
        );
    }

    #[test]
    fn between_the_thresholds_a_trial_decides() {
        let windows_between_trials = 50;
        for (without_pauses, stays) in [(59, false), (60, true)] {
            let gathering = [80, 80, 80].into_iter().chain([40; 50]);
            let states = check(gathering.chain([without_pauses, 40]));
            let (before, trial) = states.split_at(2 + windows_between_trials);
            assert!(before[2..].iter().all(|gathers| *gathers));
            assert_eq!(trial, [false, stays, stays], "{without_pauses}");
        }
    }

    #[test]
    fn there_is_no_trial_while_pauses_spare_too_little_for_it_to_succeed() {
        let states = check([80; 3].into_iter().chain([60; 200]));
        assert!(states[2..].iter().all(|gathers| *gathers));
    }

    #[test]
    fn a_long_wait_counts_whole() {
        let mut utilisation = Utilisation::new(START);
        let busy_until = START + Duration::from_secs(1);
        utilisation.idled(busy_until, busy_until + Duration::from_secs(10));
        assert!(!utilisation.is_high());
    }
}
