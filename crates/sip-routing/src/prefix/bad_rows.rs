//! What is wrong with rows. All rows are checked before a table is rejected, so that one correction is enough.

use super::builder::{MAX_ROWS, MAX_TABLE_NAME, MAX_TABLES};
use super::csv::{MAX_FIELDS, MAX_LINE};
use super::digits::MAX_DIGITS;
use super::lists::{MAX_GROUPS, MAX_LISTS};
use std::fmt::{self, Display, Formatter};
use thiserror::Error;

/// Characters of a value that an error message contains.
const EXCERPT: usize = 48;

/// The bad rows of a table, which is therefore rejected as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRows {
    first: Vec<BadRow>,
    count: u64,
}

/// A bad row.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct BadRow {
    /// Its line in the file, or its number, from 1.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong with a row. Values are quoted, and cut if they are long.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// No prefix.
    #[error("the prefix is empty; for the route of all other numbers, write default")]
    EmptyPrefix,
    /// A character that cannot be dialled.
    #[error(
        "the prefix {prefix} contains {character:?}; allowed are 0-9, *, #, A-D, one leading +, and the word default"
    )]
    NotADigit {
        /// The value.
        prefix: String,
        /// The first such character.
        character: char,
    },
    /// A prefix with more than 32 digits.
    #[error("the prefix {prefix} has {digits} digits; the maximum is {MAX_DIGITS}")]
    PrefixTooLong {
        /// The value.
        prefix: String,
        /// Its length.
        digits: usize,
    },
    /// Two rows of one prefix with different groups.
    #[error(
        "the prefix {prefix} of table {table} has other groups in line {first}; remove one of the rows"
    )]
    Contradiction {
        /// The table.
        table: String,
        /// The prefix, without a leading `+`.
        prefix: String,
        /// The line of the row before.
        first: u32,
    },
    /// A name of a table that cannot be one.
    #[error(
        "the table {name} has no valid name; allowed are 1 to {MAX_TABLE_NAME} of a-z, A-Z, 0-9, - and _"
    )]
    TableName {
        /// The value.
        name: String,
    },
    /// Too many tables.
    #[error("the table {name} is one too many; the maximum is {MAX_TABLES} tables")]
    TooManyTables {
        /// The name of the new one.
        name: String,
    },
    /// No gateway group.
    #[error("there is no gateway group; write one or several, separated by semicolons")]
    NoGroups,
    /// A list such as `a;;b`.
    #[error("the groups {groups} contain an empty name; write one semicolon between two names")]
    EmptyGroup {
        /// The value.
        groups: String,
    },
    /// A gateway group that does not exist.
    #[error("the gateway group {name} is not configured; configured: {configured}")]
    UnknownGroup {
        /// The value.
        name: String,
        /// The names of groups that exist, not all of them if they are many.
        configured: String,
    },
    /// A list such as `a;b;a`.
    #[error("the gateway group {name} is listed twice; a call tries each group once")]
    RepeatedGroup {
        /// The value.
        name: String,
    },
    /// Too many groups.
    #[error("the list has more than {MAX_GROUPS} gateway groups")]
    TooManyGroups,
    /// Too many distinct lists.
    #[error("there are more than {MAX_LISTS} different lists of gateway groups")]
    TooManyLists,
    /// Too many rows.
    #[error("there are more than {MAX_ROWS} rows; the rows from here on were not read")]
    TooManyRows,
    /// The first line of a file does not name the columns.
    #[error(
        "the first line is not a heading with the columns prefix and groups, and table if you need it, once each: {heading}"
    )]
    Heading {
        /// The value.
        heading: String,
    },
    /// A line ends before the columns that are needed.
    #[error("the line has {count} fields, and the column {column} is number {expected}")]
    MissingField {
        /// The fields of the line.
        count: usize,
        /// The name of the column.
        column: &'static str,
        /// Its number, from 1.
        expected: usize,
    },
    /// A quoted field that does not end.
    #[error("a quote is not closed; write a quote inside a quoted field twice")]
    OpenQuote,
    /// Too many fields.
    #[error("the line has more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// A line without end.
    #[error("the line is longer than {MAX_LINE} bytes")]
    LineTooLong,
    /// Bytes that are no text.
    #[error("the line is not UTF-8; save the file as UTF-8")]
    NotUtf8,
}

impl BadRows {
    /// The number of bad rows whose errors are kept.
    pub const MAX_KEPT: usize = 100;

    /// The bad rows with the lowest line numbers, at most 100.
    pub fn first(&self) -> &[BadRow] {
        &self.first
    }

    /// The number of all bad rows.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Adds a row. They may come in any order.
    pub(super) fn push(&mut self, line: u32, problem: Problem) {
        self.count += 1;
        self.first.push(BadRow { line, problem });
        if self.first.len() == 2 * Self::MAX_KEPT {
            self.sort();
        }
    }

    /// The rows in their order; `Ok` if there is none.
    pub(super) fn or_ok(mut self) -> Result<(), Self> {
        self.sort();
        if self.count == 0 { Ok(()) } else { Err(self) }
    }

    fn sort(&mut self) {
        self.first.sort_by_key(|row| row.line);
        self.first.truncate(Self::MAX_KEPT);
    }
}

impl std::error::Error for BadRows {}

impl Display for BadRows {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plural = if self.count == 1 { "" } else { "s" };
        write!(f, "{} bad row{plural}", self.count)?;
        for row in &self.first {
            write!(f, "\n{row}")?;
        }
        match self.count - self.first.len() as u64 {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// A value in quotes, without control characters, cut if it is long.
pub(super) fn excerpt(value: &str) -> String {
    match value.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{:?}…", value.get(..end).unwrap_or_default()),
        None => format!("{value:?}"),
    }
}
