//! Validates a scenario file.

use super::elapsed::Elapsed;
use super::mistake::{Column, Mistakes, Problem};
use super::pairs::{Pairing, Phones};
use super::read::{Line, Reader, Unreadable};
use super::waits::Waits;
use crate::run::Spacing;
use std::fmt;
use std::io::{self, BufRead};

/// The rules for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The existing phones; `None` accepts all.
    pub phones: Option<Phones>,
    /// Convention for caller and callee.
    pub pairing: Pairing,
    /// Spacing of arrivals within a second.
    pub spacing: Spacing,
}

/// The summary of a file, and its mistakes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Number of calls.
    pub calls: u64,
    /// From the first call to the end of the last wait.
    pub milliseconds: u64,
    /// The lowest phone number.
    pub first_phone: u32,
    /// The highest phone number.
    pub last_phone: u32,
    /// The lowest rate in calls per second.
    pub lowest_rate: f64,
    /// The highest rate in calls per second.
    pub highest_rate: f64,
    /// The mistakes found.
    pub mistakes: Mistakes,
}

/// Reads a scenario to its end and collects its mistakes. Holds one line and the first mistakes.
///
/// # Errors
/// The input failed.
pub fn validate<R: BufRead>(mut reader: Reader<R>, rules: &Rules) -> io::Result<Verdict> {
    let mut look = Look::new(rules);
    for item in reader.by_ref() {
        match item {
            Ok(line) => look.at(&line),
            Err(Unreadable::Wrong(mistake)) => look.unreadable(mistake.line, mistake.problem),
            Err(Unreadable::Failed(line, error)) => {
                let text = format!("reading stopped at line {line}: {error}");
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok(look.end(reader.line()))
}

struct Look<'r> {
    rules: &'r Rules,
    verdict: Verdict,
    waits: Waits,
    /// The second of the line before.
    second: Option<u32>,
    elapsed: Elapsed,
}

impl<'r> Look<'r> {
    fn new(rules: &'r Rules) -> Self {
        Self {
            rules,
            verdict: Verdict {
                first_phone: u32::MAX,
                lowest_rate: f64::INFINITY,
                ..Verdict::default()
            },
            waits: Waits::new(rules.spacing),
            second: None,
            elapsed: Elapsed::default(),
        }
    }

    fn unreadable(&mut self, line: u64, problem: Problem) {
        // A missing header does not affect the time.
        if line > 1 {
            self.elapsed.lose();
        }
        self.verdict.mistakes.push(line, problem);
    }

    fn at(&mut self, line: &Line) {
        let Line { number, call } = *line;
        self.phones(number, call.caller, call.callee);
        self.time(number, call.second);
        if let Some(problem) = self.waits.look(number, &call) {
            self.verdict.mistakes.push(number, problem);
        }
        self.elapsed.wait(&call);
        let verdict = &mut self.verdict;
        verdict.calls += 1;
        verdict.milliseconds += u64::from(call.wait_ms);
        verdict.first_phone = verdict.first_phone.min(call.caller).min(call.callee);
        verdict.last_phone = verdict.last_phone.max(call.caller).max(call.callee);
        verdict.lowest_rate = verdict.lowest_rate.min(call.rate);
        verdict.highest_rate = verdict.highest_rate.max(call.rate);
    }

    fn phones(&mut self, line: u64, caller: u32, callee: u32) {
        let mistakes = &mut self.verdict.mistakes;
        if let Some(phones) = self.rules.phones {
            for (column, number) in [(Column::Caller, caller), (Column::Callee, callee)] {
                if !phones.contain(number) {
                    let (first, last) = (phones.first, phones.last());
                    let problem = Problem::Unknown {
                        column,
                        number,
                        first,
                        last,
                    };
                    mistakes.push(line, problem);
                }
            }
        }
        match self.rules.pairing.callee(caller) {
            Err(pod) => mistakes.push(line, Problem::OddCaller { caller, pod }),
            Ok(Some(expected)) if callee != expected => {
                let problem = Problem::Convention {
                    caller,
                    callee,
                    expected,
                };
                mistakes.push(line, problem);
            }
            Ok(_) if callee == caller => mistakes.push(line, Problem::Itself { number: caller }),
            Ok(_) => {}
        }
    }

    fn time(&mut self, line: u64, second: u32) {
        let waits = self.elapsed.at_second(second);
        let problem = match (self.second.replace(second), waits) {
            (None, Err(_)) => Some(Problem::Start { second }),
            (Some(before), _) if second < before => Some(Problem::Order { second, before }),
            (_, Err(elapsed_ms)) => Some(Problem::Elapsed { second, elapsed_ms }),
            (_, Ok(())) => None,
        };
        if let Some(problem) = problem {
            self.verdict.mistakes.push(line, problem);
        }
    }

    fn end(self, last_line: u64) -> Verdict {
        let Self {
            mut verdict, waits, ..
        } = self;
        // The reader has tried to read one more line.
        let last_line = last_line - 1;
        if let Some(problem) = waits.end() {
            verdict.mistakes.push(last_line, problem);
        }
        if verdict.calls == 0 {
            verdict.first_phone = 0;
            verdict.lowest_rate = 0.0;
            if verdict.mistakes.is_empty() {
                verdict.mistakes.push(last_line, Problem::NoCall);
            }
        }
        verdict
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            milliseconds,
            first_phone,
            last_phone,
            lowest_rate,
            highest_rate,
            mistakes,
        } = self;
        let seconds = *milliseconds as f64 / 1e3;
        write!(
            f,
            "{calls} calls in {seconds:.1} s, {lowest_rate} to {highest_rate} per second, phones {first_phone} to {last_phone}: "
        )?;
        match mistakes.first.len() as u64 + mistakes.more {
            0 => f.write_str("no mistakes"),
            1 => f.write_str("1 mistake"),
            count => write!(f, "{count} mistakes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HEADER, Mistake, read};
    use super::*;
    use std::fmt::Write;

    const RULES: Rules = Rules {
        phones: Some(Phones {
            first: 0,
            count: 1_000,
        }),
        pairing: Pairing::EvenPodCallsOdd { pod: 100 },
        spacing: Spacing::Regular,
    };

    fn verdict_of(lines: &str, rules: &Rules) -> Verdict {
        let text = format!("{HEADER}\n{lines}");
        validate(read(text.as_bytes()), rules).unwrap()
    }

    fn mistakes(lines: &str, rules: &Rules) -> Vec<(u64, Problem)> {
        let verdict = verdict_of(lines, rules);
        let first = verdict.mistakes.first.into_iter();
        first
            .map(|Mistake { line, problem }| (line, problem))
            .collect()
    }

    #[test]
    fn a_scenario_as_it_should_be_has_no_mistake() {
        let lines = "0400;0500;1000;0;1\n0600;0700;1000;1;1\n0007;0107;1000;2;1\n";
        let verdict = verdict_of(lines, &RULES);
        assert!(verdict.mistakes.is_empty(), "{:?}", verdict.mistakes);
        assert_eq!(
            verdict.to_string(),
            "3 calls in 3.0 s, 1 to 1 per second, phones 7 to 700: no mistakes"
        );
    }

    #[test]
    fn every_mistake_has_its_line() {
        let unknown = |column, number| Problem::Unknown {
            column,
            number,
            first: 0,
            last: 999,
        };
        let elapsed = |second, elapsed_ms| Problem::Elapsed { second, elapsed_ms };
        for (lines, expected) in [
            // Phones.
            (
                "0400;0500;1000;0;1\n1000;1100;1000;1;1",
                vec![
                    (3, unknown(Column::Caller, 1_000)),
                    (3, unknown(Column::Callee, 1_100)),
                ],
            ),
            (
                "0500;0600;1000;0;1",
                vec![(
                    2,
                    Problem::OddCaller {
                        caller: 500,
                        pod: 5,
                    },
                )],
            ),
            (
                "0400;0501;1000;0;1",
                vec![(
                    2,
                    Problem::Convention {
                        caller: 400,
                        callee: 501,
                        expected: 500,
                    },
                )],
            ),
            // Order and time.
            (
                "0400;0500;1000;1;1",
                vec![(2, Problem::Start { second: 1 })],
            ),
            (
                "0400;0500;1000;0;1\n0400;0500;1000;1;1\n0400;0500;1000;0;1",
                vec![(
                    4,
                    Problem::Order {
                        second: 0,
                        before: 1,
                    },
                )],
            ),
            // Lines 3 to 12 are missing.
            (
                "0400;0500;1000;0;1\n0400;0500;1000;11;1\n0400;0500;1000;12;1",
                vec![(3, elapsed(11, 1_000))],
            ),
            (
                "0400;0500;5000;0;0.2\n0400;0500;1000;1;1",
                vec![(3, elapsed(1, 5_000))],
            ),
            // Waits.
            (
                "0400;0500;100;0;1\n0400;0500;1000;0;1",
                vec![(
                    2,
                    Problem::Wait {
                        wait_ms: 100,
                        rate: 1.0,
                    },
                )],
            ),
            (
                "0400;0500;1002;0;1\n0400;0500;1000;1;1",
                vec![(
                    2,
                    Problem::Wait {
                        wait_ms: 1_002,
                        rate: 1.0,
                    },
                )],
            ),
            // An unreadable line also hides its wait: the time continues with the next line.
            (
                "0400;0500;1000;0;1\n\n0400;0500;1000;2;1",
                vec![(3, Problem::EmptyLine)],
            ),
            ("", vec![(1, Problem::NoCall)]),
        ] {
            assert_eq!(mistakes(lines, &RULES), expected, "{lines}");
        }
        let free = Rules {
            pairing: Pairing::Any,
            ..RULES
        };
        assert_eq!(
            mistakes("0500;0500;1000;0;1", &free),
            [(2, Problem::Itself { number: 500 })]
        );
    }

    #[test]
    fn waits_that_add_up_to_another_rate_are_reported() {
        // 5,000 calls per second, one each millisecond: no single wait is wrong.
        let mut lines = String::new();
        for time in 0..2_000 {
            let _ = writeln!(lines, "0400;0500;1;{};5000", time / 1_000);
        }
        let problem = |from| Problem::Waits {
            from,
            said: 5_000.0,
            made: 1_000.0,
        };
        assert_eq!(
            mistakes(&lines, &RULES),
            [(1_001, problem(2)), (2_001, problem(1_002))]
        );
    }

    #[test]
    fn random_waits_are_no_mistake_where_they_are_asked_for_and_a_wrong_rate_is() {
        let poisson = Rules {
            spacing: Spacing::Poisson,
            ..RULES
        };
        let mut lines = [String::new(), String::new()];
        let mut time = 0_u32;
        for call in 0..1_000_u32 {
            // Deterministic, but as unequal as random waits.
            let wait = 200 * (call % 10) + 100;
            for (lines, rate) in lines.iter_mut().zip([1, 2]) {
                let _ = writeln!(lines, "0400;0500;{wait};{};{rate}", time / 1_000);
            }
            time += wait;
        }
        assert_eq!(mistakes(&lines[0], &poisson), []);
        let Mistakes { first, more } = verdict_of(&lines[0], &RULES).mistakes;
        assert_eq!(
            (first.len(), more),
            (Mistakes::MOST, 1_000 - 20),
            "all but those of 1,000 ms"
        );
        let wrong = Problem::Waits {
            from: 2,
            said: 2.0,
            made: 1.0,
        };
        assert_eq!(mistakes(&lines[1], &poisson), [(1_001, wrong)]);
    }

    #[test]
    fn mistakes_beyond_the_first_are_counted() {
        let lines = "0400;0501;1000;0;1000000\n".repeat(5_000);
        let Mistakes { first, more } = verdict_of(
            &lines,
            &Rules {
                spacing: Spacing::Poisson,
                ..RULES
            },
        )
        .mistakes;
        assert_eq!(first.len(), Mistakes::MOST);
        assert!(more >= 5_000 - 20);
    }
}
