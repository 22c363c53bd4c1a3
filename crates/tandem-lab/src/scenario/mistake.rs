//! What can be wrong with a scenario file, in words that say what to do about it.

use super::HEADER;
use std::fmt;

/// Something wrong with a line. Displayed as `17: what is wrong`, so that a file's name and a colon may stand before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// From 1, which is the header.
    pub line: u64,
    /// What is wrong.
    pub problem: Problem,
}

/// A column of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as the columns are")]
pub enum Column {
    Caller,
    Callee,
    WaitBeforeNextInMs,
    SecondsSinceStart,
    ArrivalRateInS,
}

impl Column {
    pub(super) const ALL: [Self; 5] = [
        Self::Caller,
        Self::Callee,
        Self::WaitBeforeNextInMs,
        Self::SecondsSinceStart,
        Self::ArrivalRateInS,
    ];

    const fn allowed(self) -> &'static str {
        match self {
            Self::Caller | Self::Callee => "digits only, up to 4294967295",
            Self::WaitBeforeNextInMs => "whole milliseconds, up to 4294967295",
            Self::SecondsSinceStart => "whole seconds, up to 4294967295",
            Self::ArrivalRateInS => "calls per second, above 0 and up to 10000000",
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "caller",
            Self::Callee => "callee",
            Self::WaitBeforeNextInMs => "wait_before_next_in_ms",
            Self::SecondsSinceStart => "seconds_since_start",
            Self::ArrivalRateInS => "arrival_rate_in_s",
        })
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The file has no line.
    EmptyFile,
    /// There is a header, and no call.
    NoCall,
    /// The first line is something else.
    Header {
        /// It.
        found: String,
    },
    /// A line without anything.
    EmptyLine,
    /// A line that no call needs.
    TooLong {
        /// Bytes that are allowed.
        most: usize,
    },
    /// Not five fields.
    Fields {
        /// How many.
        found: usize,
    },
    /// A field that is no number, or none that may stand there.
    Value {
        /// Whose.
        column: Column,
        /// The field.
        found: String,
    },
    /// A number of a phone with other leading zeros than those before.
    Padding {
        /// Whose.
        column: Column,
        /// The field.
        found: String,
        /// Digits of the first number of the file.
        digits: usize,
    },
    /// A phone that there is not.
    Unknown {
        /// Whose.
        column: Column,
        /// Its number.
        number: u32,
        /// The first that there is.
        first: u32,
        /// The last that there is.
        last: u32,
    },
    /// A phone that calls itself.
    Itself {
        /// It.
        number: u32,
    },
    /// A phone of a pod with an odd number calls.
    OddCaller {
        /// It.
        caller: u32,
        /// Number of its pod.
        pod: u32,
    },
    /// A phone calls another one than the convention says.
    Convention {
        /// It.
        caller: u32,
        /// Whom it calls.
        callee: u32,
        /// Whom it ought to call.
        expected: u32,
    },
    /// The first call is not at the start.
    Start {
        /// Its second.
        second: u32,
    },
    /// Earlier than the line before.
    Order {
        /// This line's.
        second: u32,
        /// The one of the line before.
        before: u32,
    },
    /// The waits before the line lead to another second.
    Elapsed {
        /// What the line says.
        second: u32,
        /// What the waits make.
        elapsed_ms: u64,
    },
    /// A wait that is not the rate's.
    Wait {
        /// The line's.
        wait_ms: u32,
        /// The line's.
        rate: f64,
    },
    /// Waits of many lines that do not make their rates.
    Waits {
        /// The first of them; the line of the mistake is the last.
        from: u64,
        /// Calls per second that the lines say.
        said: f64,
        /// Calls per second that their waits make.
        made: f64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyFile => write!(f, "the file is empty; its first line must be `{HEADER}`"),
            Self::NoCall => f.write_str("no call comes after the header"),
            Self::Header { found } => {
                write!(f, "`{found}` is not the header; it must be `{HEADER}`")
            }
            Self::EmptyLine => f.write_str("the line is empty: each line is a call"),
            Self::TooLong { most } => write!(f, "the line is longer than {most} bytes"),
            Self::Fields { found } => {
                write!(f, "{found} fields where 5 are needed: {HEADER}")
            }
            Self::Value { column, found } => {
                write!(f, "{column} `{found}`: {} are allowed", column.allowed())
            }
            Self::Padding {
                column,
                found,
                digits,
            } => write!(
                f,
                "{column} `{found}` has {} digits where those before have {digits}: all are written with as many, with zeros in front",
                found.len()
            ),
            Self::Unknown {
                column,
                number,
                first,
                last,
            } => write!(
                f,
                "{column} {number} is no phone: they are {first} to {last}"
            ),
            Self::Itself { number } => write!(f, "phone {number} calls itself"),
            Self::OddCaller { caller, pod } => write!(
                f,
                "caller {caller} is of pod {pod}: pods with odd numbers are only called"
            ),
            Self::Convention {
                caller,
                callee,
                expected,
            } => write!(
                f,
                "{caller} calls {callee}: a phone of an even pod calls its like of the next pod, {expected}"
            ),
            Self::Start { second } => write!(
                f,
                "the first call is in second {second}: time begins with it, in second 0"
            ),
            Self::Order { second, before } => write!(
                f,
                "second {second} after second {before}: calls must be in the order of time"
            ),
            Self::Elapsed { second, elapsed_ms } => write!(
                f,
                "second {second}, but the waits up to here make {}.{:03} s: lines are missing, or a wait is wrong",
                elapsed_ms / 1000,
                elapsed_ms % 1000
            ),
            Self::Wait { wait_ms, rate } => write!(
                f,
                "a wait of {wait_ms} ms, but {rate} calls per second are {:.1} ms apart (where they come at random: --spacing poisson)",
                1e3 / rate
            ),
            Self::Waits { from, said, made } => write!(
                f,
                "the waits from line {from} to here make {made:.4} calls per second, but the lines say {said:.4}"
            ),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

/// The first mistakes of a file, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mistakes {
    /// In the order in which they were found.
    pub first: Vec<Mistake>,
    /// Those that were only counted.
    pub more: u64,
}

impl Mistakes {
    /// How many are kept.
    pub const MOST: usize = 20;

    /// Notes one.
    pub fn push(&mut self, line: u64, problem: Problem) {
        if self.first.len() < Self::MOST {
            self.first.push(Mistake { line, problem });
        } else {
            self.more += 1;
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}
