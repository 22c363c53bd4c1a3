//! Reads a scenario file, one call at a time.

use super::mistake::{Column, Mistake, Problem};
use super::{Call, HEADER};
use std::io::{self, BufRead, Read};
use std::str::FromStr;

/// Maximum length of a line in bytes, so that a file without line ends cannot fill the memory.
const MAX_LINE: usize = 256;
/// Maximum number of characters of an invalid field in a message.
const MAX_SHOWN: usize = 80;
/// Maximum calls per second in a line.
const MAX_RATE: f64 = 10_000_000.0;

/// The calls of a scenario file. The iterator continues after a mistake, and ends after an input error.
pub fn read<R: BufRead>(input: R) -> Reader<R> {
    Reader {
        input,
        line: 0,
        buffer: Vec::with_capacity(MAX_LINE + 1),
        digits: None,
        ended: false,
    }
}

/// A line with a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// From 1, the header.
    pub number: u64,
    /// The call in the line.
    pub call: Call,
}

/// Why a line has no call.
#[derive(Debug)]
pub enum Unreadable {
    /// The line has a mistake.
    Wrong(Mistake),
    /// The input failed after this line.
    Failed(u64, io::Error),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(mistake) => mistake.fmt(f),
            Self::Failed(line, error) => write!(f, "{line}: reading stopped: {error}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Reads calls. Holds one line.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    buffer: Vec<u8>,
    /// Digits of the first phone number.
    digits: Option<usize>,
    ended: bool,
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Line, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.ended {
                return None;
            }
            self.line += 1;
            let found = match self.next_line() {
                Ok(found) => found,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(Unreadable::Failed(self.line, error)));
                }
            };
            let read = match found {
                Found::End => {
                    self.ended = true;
                    return (self.line == 1).then(|| Err(self.wrong(Problem::EmptyFile)));
                }
                Found::TooLong => Err(Problem::TooLong { most: MAX_LINE }),
                Found::Line if self.line == 1 => match header(&self.buffer) {
                    Ok(()) => continue,
                    Err(problem) => Err(problem),
                },
                Found::Line => parse(&self.buffer, &mut self.digits),
            };
            return Some(match read {
                Ok(call) => Ok(Line {
                    number: self.line,
                    call,
                }),
                Err(problem) => Err(self.wrong(problem)),
            });
        }
    }
}

enum Found {
    Line,
    TooLong,
    End,
}

impl<R: BufRead> Reader<R> {
    /// Number of the last line read, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    fn wrong(&self, problem: Problem) -> Unreadable {
        Unreadable::Wrong(Mistake {
            line: self.line,
            problem,
        })
    }

    /// Reads a line into the buffer, without the line end.
    fn next_line(&mut self) -> io::Result<Found> {
        self.buffer.clear();
        let mut limited = self.input.by_ref().take(MAX_LINE as u64 + 2);
        if limited.read_until(b'\n', &mut self.buffer)? == 0 {
            return Ok(Found::End);
        }
        let has_ended = self.buffer.pop_if(|last| *last == b'\n').is_some();
        self.buffer.pop_if(|last| *last == b'\r');
        if self.buffer.len() <= MAX_LINE {
            return Ok(Found::Line);
        }
        if !has_ended {
            self.input.skip_until(b'\n')?;
        }
        Ok(Found::TooLong)
    }
}

fn header(line: &[u8]) -> Result<(), Problem> {
    if line == HEADER.as_bytes() {
        return Ok(());
    }
    Err(Problem::Header { found: shown(line) })
}

fn parse(line: &[u8], digits: &mut Option<usize>) -> Result<Call, Problem> {
    if line.is_empty() {
        return Err(Problem::EmptyLine);
    }
    let mut fields: [&[u8]; 5] = [b""; 5];
    let mut found = 0;
    for field in line.split(|byte| *byte == b';') {
        if let Some(place) = fields.get_mut(found) {
            *place = field;
        }
        found += 1;
    }
    if found != fields.len() {
        return Err(Problem::Fields { found });
    }
    let columns = Column::ALL.into_iter().zip(fields);
    let mut values = [0; 4];
    for ((column, field), value) in columns.clone().zip(&mut values) {
        *value = whole(column, field)?;
    }
    for (column, field) in columns.take(2) {
        let digits = *digits.get_or_insert(field.len());
        if field.len() != digits {
            let found = shown(field);
            return Err(Problem::Padding {
                column,
                found,
                digits,
            });
        }
    }
    let [caller, callee, wait_ms, second] = values;
    let [.., field] = fields;
    let column = Column::ArrivalRateInS;
    let rate = number::<f64>(field)
        .filter(|rate| *rate > 0.0 && *rate <= MAX_RATE)
        .ok_or_else(|| value(column, field))?;
    Ok(Call {
        caller,
        callee,
        wait_ms,
        second,
        rate,
    })
}

/// Digits only: signs are not allowed.
fn whole(column: Column, field: &[u8]) -> Result<u32, Problem> {
    let digits = Some(field).filter(|field| field.iter().all(u8::is_ascii_digit));
    let number = digits.and_then(number::<u32>);
    number.ok_or_else(|| value(column, field))
}

fn number<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

fn value(column: Column, field: &[u8]) -> Problem {
    Problem::Value {
        column,
        found: shown(field),
    }
}

/// A printable version for messages.
pub(super) fn shown(bytes: &[u8]) -> String {
    let part = bytes.get(..MAX_SHOWN).unwrap_or(bytes);
    let mut text: String = String::from_utf8_lossy(part).escape_debug().collect();
    if part.len() < bytes.len() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &[u8]) -> Vec<(u64, Problem)> {
        let wrong = |item| match item {
            Ok(_) => None,
            Err(Unreadable::Wrong(Mistake { line, problem })) => Some((line, problem)),
            Err(Unreadable::Failed(..)) => unreachable!("memory does not fail"),
        };
        read(text).filter_map(wrong).collect()
    }

    fn after_header(lines: &str) -> Vec<(u64, Problem)> {
        problems(format!("{HEADER}\n0400;0500;1000;0;1\n{lines}").as_bytes())
    }

    #[test]
    fn calls_are_read_with_their_line() {
        let text = format!("{HEADER}\n4600;4700;1000;0;1\r\n0000;0100;83;1;12.5");
        let lines: Vec<Line> = read(text.as_bytes()).map(Result::unwrap).collect();
        let last = Call {
            caller: 0,
            callee: 100,
            wait_ms: 83,
            second: 1,
            rate: 12.5,
        };
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].number, lines[0].call.caller), (2, 4600));
        assert_eq!(
            lines[1],
            Line {
                number: 3,
                call: last
            }
        );
    }

    #[test]
    fn a_file_needs_its_header() {
        assert_eq!(problems(b""), [(1, Problem::EmptyFile)]);
        let found = String::from("caller,callee");
        assert_eq!(
            problems(b"caller,callee\n1;2;3;4;5\n"),
            [(1, Problem::Header { found })]
        );
    }

    #[test]
    fn every_wrong_field_is_named_with_its_line() {
        let value = |column, found: &str| Problem::Value {
            column,
            found: found.into(),
        };
        let padding = |column, found: &str| Problem::Padding {
            column,
            found: found.into(),
            digits: 4,
        };
        for (line, problem) in [
            ("", Problem::EmptyLine),
            ("0400;0500;1000;0", Problem::Fields { found: 4 }),
            ("0400;0500;1000;0;1;", Problem::Fields { found: 6 }),
            ("bob1;0500;1000;0;1", value(Column::Caller, "bob1")),
            (";0500;1000;0;1", value(Column::Caller, "")),
            ("0400;+500;1000;0;1", value(Column::Callee, "+500")),
            ("400;0500;1000;0;1", padding(Column::Caller, "400")),
            ("0400;00500;1000;0;1", padding(Column::Callee, "00500")),
            (
                "0400;0500;0.5;0;1",
                value(Column::WaitBeforeNextInMs, "0.5"),
            ),
            (
                "0400;0500;4294967296;0;1",
                value(Column::WaitBeforeNextInMs, "4294967296"),
            ),
            (
                "0400;0500;1000;-1;1",
                value(Column::SecondsSinceStart, "-1"),
            ),
            ("0400;0500;1000;0;0", value(Column::ArrivalRateInS, "0")),
            ("0400;0500;1000;0;NaN", value(Column::ArrivalRateInS, "NaN")),
            ("0400;0500;1000;0;inf", value(Column::ArrivalRateInS, "inf")),
            ("0400;0500;1000;0;1,5", value(Column::ArrivalRateInS, "1,5")),
        ] {
            // The reader continues after it.
            let found = after_header(&format!("{line}\n0400;0500;1000;1;1\n"));
            assert_eq!(found, [(3, problem)], "{line}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_without_being_held() {
        let text = format!("{HEADER}\n{}\n0400;0500;1000;0;x\n", "9".repeat(1_000_000));
        let mut reader = read(text.as_bytes());
        let longest = MAX_LINE;
        assert!(matches!(
            reader.next(),
            Some(Err(Unreadable::Wrong(Mistake { line: 2, problem: Problem::TooLong { most } }))) if most == longest
        ));
        assert!(reader.buffer.capacity() < 2 * MAX_LINE + 64);
        assert!(matches!(
            reader.next(),
            Some(Err(Unreadable::Wrong(Mistake { line: 3, .. })))
        ));
        assert!(reader.next().is_none());
    }

    #[test]
    fn octets_that_are_no_text_are_shown_as_far_as_they_can_be() {
        let text = [HEADER.as_bytes(), b"\n\xff\x00;0500;1000;0;1\n"].concat();
        let found = String::from("\u{fffd}\\0");
        let column = Column::Caller;
        assert_eq!(problems(&text), [(2, Problem::Value { column, found })]);
    }
}
