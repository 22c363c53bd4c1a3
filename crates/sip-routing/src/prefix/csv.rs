//! Rows from a CSV file (RFC 4180, but one record per line), in pieces of any size.
//!
//! A line has a bound, and an open quote is an error of its line: a quote that is never closed does not make a field of the rest of the file.

use super::bad_rows::{Problem, excerpt};
use super::builder::Builder;
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use std::mem;

/// The maximum bytes of a line, with its end.
pub(super) const MAX_LINE: usize = 4096;
/// The maximum number of fields. Rate sheets have columns that routing does not need.
pub(super) const MAX_FIELDS: usize = 64;

/// Reads rows for a [`Builder`] from the text of a file.
///
/// The first line that is not empty names the columns: `prefix`, `groups` and, if the file has rows of several groups of callers, `table`. They
/// may be in any order, and others are ignored. Groups are separated by semicolons.
#[derive(Debug)]
pub struct CsvReader {
    heading: Heading,
    parser: Reader,
    fields: Vec<u8>,
    /// The begin of a line whose end is not read.
    partial: Vec<u8>,
    /// Whether that line is too long already, and therefore not kept.
    too_long: bool,
    /// Lines read.
    line: u32,
}

#[derive(Clone, Copy, Debug)]
enum Heading {
    Awaited,
    Read(Columns),
    /// No line can be read.
    Bad,
}

/// The index of each column.
#[derive(Clone, Copy, Debug)]
struct Columns {
    table: Option<usize>,
    prefix: usize,
    groups: usize,
}

impl Default for CsvReader {
    fn default() -> Self {
        Self::new()
    }
}

impl CsvReader {
    /// Begins a file.
    pub fn new() -> Self {
        Self {
            heading: Heading::Awaited,
            // A carriage return before the line end is a space around a value.
            parser: ReaderBuilder::new()
                .terminator(Terminator::Any(b'\n'))
                .build(),
            fields: vec![0; MAX_LINE],
            partial: Vec::new(),
            too_long: false,
            line: 0,
        }
    }

    /// Adds the rows of the next bytes of the file.
    pub fn read(&mut self, chunk: &[u8], builder: &mut Builder) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            if self.partial.is_empty() && !self.too_long {
                self.line(line, builder);
            } else {
                self.keep(line);
                self.kept_line(builder);
            }
        }
        self.keep(rest);
    }

    /// Adds the row of a last line without end.
    pub fn finish(mut self, builder: &mut Builder) {
        if self.too_long || !self.partial.is_empty() {
            self.keep(b"\n");
            self.kept_line(builder);
        }
        if matches!(self.heading, Heading::Awaited) {
            let heading = excerpt("");
            builder.bad_row(1, Problem::Heading { heading });
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > MAX_LINE {
            self.too_long = true;
            self.partial.clear();
        }
        if !self.too_long {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn kept_line(&mut self, builder: &mut Builder) {
        let mut line = mem::take(&mut self.partial);
        self.line(&line, builder);
        line.clear();
        self.partial = line;
    }

    /// Reads a line with its end.
    fn line(&mut self, line: &[u8], builder: &mut Builder) {
        self.line = self.line.saturating_add(1);
        let line = match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(text) if self.line == 1 => text,
            _ => line,
        };
        let too_long = mem::take(&mut self.too_long) || line.len() > MAX_LINE;
        let read = if too_long {
            Err(Problem::LineTooLong)
        } else if line.trim_ascii().is_empty() {
            Ok(())
        } else {
            self.record(line, builder)
        };
        if let Err(problem) = read {
            self.parser.reset();
            if matches!(self.heading, Heading::Awaited) {
                self.heading = Heading::Bad;
            }
            builder.bad_row(self.line, problem);
        }
    }

    fn record(&mut self, line: &[u8], builder: &mut Builder) -> Result<(), Problem> {
        let mut ends = [0; MAX_FIELDS];
        let columns = match self.heading {
            Heading::Bad => return Ok(()),
            Heading::Awaited => None,
            Heading::Read(columns) => Some(columns),
        };
        let record = split(&mut self.parser, line, &mut self.fields, &mut ends)?;
        let Some(columns) = columns else {
            let columns = Columns::of(&record).ok_or_else(|| Problem::Heading {
                heading: excerpt(String::from_utf8_lossy(line).trim()),
            })?;
            self.heading = Heading::Read(columns);
            return Ok(());
        };
        let table = match columns.table {
            Some(index) => record.field(index, "table")?,
            None => "",
        };
        let prefix = record.field(columns.prefix, "prefix")?;
        let groups = record.field(columns.groups, "groups")?;
        builder.row(self.line, table, prefix, groups);
        Ok(())
    }
}

impl Columns {
    fn of(heading: &Record<'_>) -> Option<Self> {
        Some(Self {
            table: heading.column("table").ok()?,
            prefix: heading.column("prefix").ok()??,
            groups: heading.column("groups").ok()??,
        })
    }
}

/// A line without its quotes and commas.
struct Record<'r> {
    text: &'r [u8],
    /// Where each field ends.
    ends: &'r [usize],
}

/// A column that occurs twice.
struct Ambiguous;

impl<'r> Record<'r> {
    fn field(&self, index: usize, column: &'static str) -> Result<&'r str, Problem> {
        let field = self.bytes(index).ok_or(Problem::MissingField {
            count: self.ends.len(),
            column,
            expected: index + 1,
        })?;
        std::str::from_utf8(field).map_err(|_| Problem::NotUtf8)
    }

    fn bytes(&self, index: usize) -> Option<&'r [u8]> {
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.get(start..*self.ends.get(index)?)
    }

    /// The index of the column with this name.
    fn column(&self, name: &str) -> Result<Option<usize>, Ambiguous> {
        let is_name = |index: &usize| {
            let field = self.bytes(*index).unwrap_or_default();
            field.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
        };
        let mut columns = (0..self.ends.len()).filter(is_name);
        let first = columns.next();
        columns.next().map_or(Ok(first), |_| Err(Ambiguous))
    }
}

fn split<'r>(
    parser: &mut Reader,
    line: &[u8],
    into: &'r mut [u8],
    ends: &'r mut [usize],
) -> Result<Record<'r>, Problem> {
    let (result, _, length, count) = parser.read_record(line, into, ends);
    match result {
        ReadRecordResult::Record => Ok(Record {
            text: into.get(..length).unwrap_or_default(),
            ends: ends.get(..count).unwrap_or_default(),
        }),
        ReadRecordResult::OutputEndsFull => Err(Problem::TooManyFields),
        // The quoted field swallowed the line end.
        _ => Err(Problem::OpenQuote),
    }
}
