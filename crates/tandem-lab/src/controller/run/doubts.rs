//! Reasons why a run cannot be trusted.

use crate::run::DelaySummary;
use serde::Serialize;
use std::time::Duration;

/// Maximum number of doubts to list; the rest are only counted.
const MOST: usize = 20;

/// Lateness of commands, in microseconds. Above it at the 99th percentile, calls did not begin when the scenario says.
pub(super) const LATE: u64 = 5_000;

/// The same for the round trip to the agent.
pub(super) const LATE_AT_AGENT: u64 = 50_000;

/// Difference between the wall clock and the monotonic clock that counts as a jump.
const JUMP: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Doubts {
    words: Vec<String>,
    more: usize,
}

impl Doubts {
    pub(super) fn add(&mut self, doubt: String) {
        if self.words.len() < MOST {
            self.words.push(doubt);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn words(&self) -> Vec<String> {
        let mut words = self.words.clone();
        if self.more > 0 {
            words.push(format!("{} more of this kind", self.more));
        }
        words
    }
}

/// Doubts that follow from the lateness of commands.
pub(super) fn of_lateness(
    sent: &DelaySummary,
    at_agent: &DelaySummary,
    in_agent: &DelaySummary,
) -> Vec<String> {
    let ms = |us: u64| format!("{:.1} ms", us as f64 / 1e3);
    let mut doubts = Vec::new();
    if sent.p99 > LATE {
        doubts.push(format!(
            "one command in a hundred left more than {} late: the controller's machine was busy",
            ms(sent.p99)
        ));
    }
    if at_agent.p99 > LATE_AT_AGENT {
        doubts.push(format!(
            "one command in a hundred was confirmed more than {} after it was due: agents were busy, or the network path to them is slow",
            ms(at_agent.p99)
        ));
    }
    if in_agent.p99 > LATE {
        doubts.push(format!(
            "one INVITE in a hundred left its agent more than {} after its command: agents were busy; start more agents",
            ms(in_agent.p99)
        ));
    }
    doubts
}

/// A doubt if the wall clock deviates from the monotonic clock by a jump.
pub(super) fn jump(steady: Duration, wall: Result<Duration, Duration>) -> Option<String> {
    let (by, direction) = match wall {
        Ok(wall) if wall > steady => (wall.saturating_sub(steady), "ahead"),
        Ok(wall) => (steady.saturating_sub(wall), "back"),
        Err(before_start) => (steady + before_start, "back"),
    };
    (by > JUMP).then(|| {
        format!(
            "the clock of the controller's machine jumped {direction} by {:.1} s: it was set, or the machine was suspended",
            by.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_is_noticed_in_both_directions() {
        let second = Duration::from_secs(1);
        assert_eq!(jump(second, Ok(second + JUMP / 2)), None);
        assert!(
            jump(second, Ok(second * 3))
                .unwrap()
                .contains("ahead by 2.0 s")
        );
        assert!(
            jump(second * 3, Ok(second))
                .unwrap()
                .contains("back by 2.0 s")
        );
        assert!(
            jump(second, Err(second * 9))
                .unwrap()
                .contains("back by 10.0 s")
        );
    }

    #[test]
    fn late_commands_are_doubts() {
        let on_time = DelaySummary {
            p99: LATE,
            ..DelaySummary::default()
        };
        let late = DelaySummary {
            p99: LATE_AT_AGENT + 1,
            ..DelaySummary::default()
        };
        assert!(of_lateness(&on_time, &on_time, &on_time).is_empty());
        assert_eq!(of_lateness(&late, &late, &late).len(), 3);
    }

    #[test]
    fn doubts_are_bounded() {
        let mut doubts = Doubts::default();
        for number in 0..MOST + 5 {
            doubts.add(number.to_string());
        }
        assert_eq!(doubts.words().len(), MOST + 1);
        assert_eq!(
            doubts.words().last().map(String::as_str),
            Some("5 more of this kind")
        );
    }
}
