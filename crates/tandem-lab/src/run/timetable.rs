//! The calls of a scenario file, with due time, caller and callee.

use super::arrivals::Arrivals;
use super::subscribers::Subscribers;
use crate::scenario::{self, Column, Line, Phones, Problem};
use anyhow::anyhow;
use std::fs::File;
use std::io::BufReader;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of calls from a file; each takes twelve bytes.
const MOST: usize = 100_000_000;

/// A call of the file.
#[derive(Clone, Copy, Debug)]
struct Planned {
    /// Milliseconds since the start.
    due_ms: u32,
    caller: u32,
    callee: u32,
}

/// All calls of a scenario, sorted by due time. The workers share it.
#[derive(Clone, Debug)]
pub(super) struct Timetable(Arc<[Planned]>);

impl Timetable {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// The file cannot be read, has an invalid line, or names a phone that the run does not have. The message has the first such line.
    pub(super) fn load(path: &Path, subscribers: &Subscribers) -> anyhow::Result<Self> {
        let name = path.display();
        let wrong = |line: u64, what: &dyn std::fmt::Display| {
            anyhow!(
                "{name}:{line}: {what}\nto list all mistakes: tandem lab scenario validate {name}"
            )
        };
        let phones = Phones {
            first: subscribers.first,
            count: subscribers.count,
        };
        let file = File::open(path).map_err(|error| anyhow!("{name} cannot be read: {error}"))?;
        let mut calls = Vec::new();
        let mut due_ms = 0_u32;
        let mut is_over = false;
        for line in scenario::read(BufReader::with_capacity(1 << 16, file)) {
            let Line { number, call } =
                line.map_err(|unreadable| anyhow!("{name}:{unreadable}"))?;
            for (column, number_of) in
                [(Column::Caller, call.caller), (Column::Callee, call.callee)]
            {
                if !phones.contain(number_of) {
                    let problem = Problem::Unknown {
                        column,
                        number: number_of,
                        first: phones.first,
                        last: phones.last(),
                    };
                    return Err(wrong(
                        number,
                        &format_args!("{problem} (--phones, --first)"),
                    ));
                }
            }
            if call.caller == call.callee {
                let problem = Problem::Itself {
                    number: call.caller,
                };
                return Err(wrong(number, &problem));
            }
            if is_over {
                return Err(wrong(number, &"the waits add up to more than 49 days"));
            }
            if calls.len() == MOST {
                return Err(wrong(number, &format_args!("more than {MOST} calls")));
            }
            calls.push(Planned {
                due_ms,
                caller: call.caller,
                callee: call.callee,
            });
            match due_ms.checked_add(call.wait_ms) {
                Some(due) => due_ms = due,
                None => is_over = true,
            }
        }
        if calls.is_empty() {
            return Err(wrong(1, &Problem::NoCall));
        }
        Ok(Self(calls.into()))
    }

    /// From the first call to the last one.
    pub(super) fn duration(&self) -> Duration {
        let last = self.0.last().map_or(0, |call| call.due_ms);
        Duration::from_millis(last.into())
    }
}

/// The calls of some of the callers, in order.
#[derive(Clone, Debug)]
pub(super) struct Share {
    timetable: Timetable,
    callers: Range<u32>,
    /// Index of the next call, or the end.
    place: usize,
}

impl Share {
    pub(super) fn new(timetable: Timetable, callers: Range<u32>) -> Self {
        let mut share = Self {
            timetable,
            callers,
            place: 0,
        };
        share.skip_others();
        share
    }

    fn skip_others(&mut self) {
        let rest = self.timetable.0.get(self.place..).unwrap_or_default();
        let own = |call: &Planned| self.callers.contains(&call.caller);
        self.place += rest.iter().position(own).unwrap_or(rest.len());
    }

    fn next(&self) -> Option<&Planned> {
        self.timetable.0.get(self.place)
    }

    fn advance(&mut self) {
        self.place += 1;
        self.skip_others();
    }

    /// Skips to the end. Returns the number of calls skipped.
    pub(super) fn skip_rest(&mut self) -> u64 {
        let mut skipped = 0;
        while self.next().is_some() {
            self.advance();
            skipped += 1;
        }
        skipped
    }
}

/// The due times of units.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// At a rate, without end, between phones in turn.
    Paced(Box<Arrivals>),
    /// From a scenario.
    Planned(Share),
    /// As soon as fewer units than this are in progress (closed loop), between phones in turn.
    Window(usize),
}

impl Due {
    /// Due time of the next unit, since the start; `None` if it depends on other units.
    pub(super) fn peek(&self) -> Option<Duration> {
        match self {
            Self::Window(_) => None,
            Self::Paced(arrivals) => arrivals.peek(),
            Self::Planned(share) => share
                .next()
                .map(|call| Duration::from_millis(call.due_ms.into())),
        }
    }

    /// Moves to the next unit. Returns caller and callee, if the scenario defines them.
    pub(super) fn advance(&mut self) -> Option<(u32, u32)> {
        match self {
            Self::Window(_) => None,
            Self::Paced(arrivals) => {
                arrivals.advance();
                None
            }
            Self::Planned(share) => {
                let parties = share.next().map(|call| (call.caller, call.callee));
                share.advance();
                parties
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::HEADER;
    use std::io::Write;

    fn subscribers() -> Subscribers {
        Subscribers {
            first: 0,
            count: 1_000,
            user: "user{}".parse().unwrap(),
            password: "password{}".parse().unwrap(),
            domain: "tandem.localhost".into(),
        }
    }

    fn load(lines: &str) -> Result<Timetable, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "{HEADER}\n{lines}").unwrap();
        let path = file.path().display().to_string();
        Timetable::load(file.path(), &subscribers())
            .map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn each_worker_has_the_calls_of_its_callers_when_their_waits_are_over() {
        let lines = "0400;0900;100;0;10\n0600;0500;0;0;10\n0499;0500;50;0;10\n0000;0001;100;0;10\n";
        let timetable = load(lines).unwrap();
        assert_eq!(timetable.duration(), Duration::from_millis(150));
        let calls_of = |callers| {
            let mut due = Due::Planned(Share::new(timetable.clone(), callers));
            std::iter::from_fn(|| Some((due.peek()?.as_millis(), due.advance()?)))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            calls_of(0..500),
            [(0, (400, 900)), (100, (499, 500)), (150, (0, 1))]
        );
        assert_eq!(calls_of(500..1_000), [(100, (600, 500))]);
    }

    #[test]
    fn a_scenario_that_cannot_be_played_is_refused_with_its_line() {
        for (lines, problem) in [
            ("", "FILE:1: no call"),
            (
                "0400;0500;1;0;1\n0400;1000;1;0;1",
                "FILE:3: callee 1000 is not a phone: phones are 0 to 999",
            ),
            ("0400;0400;1;0;1", "FILE:2: phone 400 calls itself"),
            ("0400;0500;x;0;1", "FILE:2: wait_before_next_in_ms `x`"),
            (
                "0400;0500;4294967295;0;1\n0400;0500;1;0;1\n0400;0500;1;0;1",
                "FILE:4: the waits add up to more than 49 days",
            ),
        ] {
            let refused = load(lines).unwrap_err();
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
