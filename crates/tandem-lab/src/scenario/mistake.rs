//! Mistakes in a scenario file, with messages that say how to correct them.

use super::HEADER;
use std::fmt;

/// A mistake in a line. Displays as `17: what is wrong`, to follow a file name and a colon.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// From 1, the header.
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
    /// The file is empty.
    EmptyFile,
    /// The file has a header, but no calls.
    NoCall,
    /// The first line is not the header.
    Header {
        /// The line found.
        found: String,
    },
    /// An empty line.
    EmptyLine,
    /// A line that is longer than any call needs.
    TooLong {
        /// Maximum number of bytes.
        most: usize,
    },
    /// The number of fields is not five.
    Fields {
        /// Number of fields.
        found: usize,
    },
    /// A field that is not a number, or out of range.
    Value {
        /// The column.
        column: Column,
        /// The field.
        found: String,
    },
    /// A phone number whose length differs because of leading zeros.
    Padding {
        /// The column.
        column: Column,
        /// The field.
        found: String,
        /// Digits of the first number in the file.
        digits: usize,
    },
    /// A phone that does not exist.
    Unknown {
        /// The column.
        column: Column,
        /// Its number.
        number: u32,
        /// The first existing number.
        first: u32,
        /// The last existing number.
        last: u32,
    },
    /// A phone that calls itself.
    Itself {
        /// Number of the phone.
        number: u32,
    },
    /// A phone of an odd pod calls.
    OddCaller {
        /// Number of the calling phone.
        caller: u32,
        /// Number of its pod.
        pod: u32,
    },
    /// A callee that the convention does not allow.
    Convention {
        /// Number of the caller.
        caller: u32,
        /// Number of the callee.
        callee: u32,
        /// The callee that the convention requires.
        expected: u32,
    },
    /// The first call is not at second 0.
    Start {
        /// The second of the first call.
        second: u32,
    },
    /// A line with an earlier time than the line before.
    Order {
        /// The second of this line.
        second: u32,
        /// The second of the line before.
        before: u32,
    },
    /// The waits before the line add up to a different time.
    Elapsed {
        /// The second in the line.
        second: u32,
        /// The sum of the waits.
        elapsed_ms: u64,
    },
    /// A wait that does not match the rate.
    Wait {
        /// The wait in the line.
        wait_ms: u32,
        /// The rate in the line.
        rate: f64,
    },
    /// Waits of many lines that do not match their rates together.
    Waits {
        /// The first of these lines; the mistake's line is the last one.
        from: u64,
        /// Calls per second according to the rates.
        said: f64,
        /// Calls per second according to the waits.
        made: f64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyFile => write!(f, "the file is empty; its first line must be `{HEADER}`"),
            Self::NoCall => f.write_str("no calls follow the header"),
            Self::Header { found } => {
                write!(f, "`{found}` is not the header; it must be `{HEADER}`")
            }
            Self::EmptyLine => f.write_str("the line is empty: each line must be a call"),
            Self::TooLong { most } => write!(f, "the line is longer than {most} bytes"),
            Self::Fields { found } => {
                write!(f, "{found} fields instead of 5: {HEADER}")
            }
            Self::Value { column, found } => {
                write!(f, "{column} `{found}`: must be {}", column.allowed())
            }
            Self::Padding {
                column,
                found,
                digits,
            } => write!(
                f,
                "{column} `{found}` has {} digits, but earlier numbers have {digits}: pad all numbers with zeros to the same length",
                found.len()
            ),
            Self::Unknown {
                column,
                number,
                first,
                last,
            } => write!(
                f,
                "{column} {number} is not a phone: phones are {first} to {last}"
            ),
            Self::Itself { number } => write!(f, "phone {number} calls itself"),
            Self::OddCaller { caller, pod } => write!(
                f,
                "caller {caller} is in pod {pod}: phones of odd pods only receive calls"
            ),
            Self::Convention {
                caller,
                callee,
                expected,
            } => write!(
                f,
                "{caller} calls {callee}: a phone of an even pod calls its counterpart in the next pod, {expected}"
            ),
            Self::Start { second } => write!(
                f,
                "the first call is at second {second}: it must be at second 0"
            ),
            Self::Order { second, before } => write!(
                f,
                "second {second} follows second {before}: calls must be in order of time"
            ),
            Self::Elapsed { second, elapsed_ms } => write!(
                f,
                "second {second}, but the waits up to here add up to {}.{:03} s: a line is missing, or a wait is wrong",
                elapsed_ms / 1000,
                elapsed_ms % 1000
            ),
            Self::Wait { wait_ms, rate } => write!(
                f,
                "a wait of {wait_ms} ms, but {rate} calls per second are {:.1} ms apart (for random arrivals, use --spacing poisson)",
                1e3 / rate
            ),
            Self::Waits { from, said, made } => write!(
                f,
                "the waits from line {from} to here mean {made:.4} calls per second, but the rates say {said:.4}"
            ),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.problem)
    }
}

/// The first mistakes of a file, and the number of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mistakes {
    /// In the order of the file.
    pub first: Vec<Mistake>,
    /// Mistakes that were only counted.
    pub more: u64,
}

impl Mistakes {
    /// Maximum number of mistakes in `first`.
    pub const MOST: usize = 20;

    /// Adds a mistake.
    pub fn push(&mut self, line: u64, problem: Problem) {
        if self.first.len() < Self::MOST {
            self.first.push(Mistake { line, problem });
        } else {
            self.more += 1;
        }
    }

    /// Whether there is no mistake.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }
}
