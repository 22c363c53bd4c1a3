//! Builds a prefix table from rows in any order, or names all bad ones.

use super::bad_rows::{BadRows, Problem, excerpt};
use super::digits::{Digits, MAX_KEY_DIGITS};
use super::lists::{Interner, ListId};
use super::long::{Long, LongRow};
use super::short::{Short, ShortRow};
use super::{DEFAULT, PrefixTable, Table};
use std::collections::HashMap;

/// The maximum number of rows.
pub(super) const MAX_ROWS: u32 = 5_000_000;
/// The maximum number of tables.
pub(super) const MAX_TABLES: usize = 1_024;
/// The maximum length of the name of a table.
pub(super) const MAX_TABLE_NAME: usize = 64;

/// Collects rows. It belongs on the control plane: a million rows take a second.
#[derive(Debug)]
pub struct Builder {
    lists: Interner,
    tables: Vec<Rows>,
    by_name: HashMap<Box<str>, usize>,
    rows: u32,
    bad: BadRows,
}

/// The rows of one table.
#[derive(Debug)]
struct Rows {
    name: Box<str>,
    default: Option<(ListId, u32)>,
    short: Vec<ShortRow>,
    long: Vec<LongRow>,
}

impl Builder {
    /// Begins a table whose rows may contain these gateway groups.
    pub fn new<'g>(groups: impl IntoIterator<Item = &'g str>) -> Self {
        Self {
            lists: Interner::new(groups),
            tables: Vec::new(),
            by_name: HashMap::new(),
            rows: 0,
            bad: BadRows::default(),
        }
    }

    /// Adds a row. `line` is its line in the file, or its number, and is used in errors. `table` may be empty, which is `default`; `groups`
    /// are separated by semicolons. Spaces around values do not count.
    ///
    /// A second row of one prefix must have the same groups in the same order.
    pub fn row(&mut self, line: u32, table: &str, prefix: &str, groups: &str) {
        if self.rows == MAX_ROWS {
            self.bad.push(line, Problem::TooManyRows);
            self.rows += 1;
        } else if self.rows < MAX_ROWS {
            self.rows += 1;
            if let Err(problem) = self.add(line, table, prefix, groups) {
                self.bad.push(line, problem);
            }
        }
    }

    /// Adds a row that could not be read.
    pub(super) fn bad_row(&mut self, line: u32, problem: Problem) {
        self.bad.push(line, problem);
    }

    /// The table of all rows. If one of them is bad, there is no table.
    pub fn build(self) -> Result<PrefixTable, BadRows> {
        let mut bad = self.bad;
        let tables = self
            .tables
            .into_iter()
            .map(|rows| rows.build(&mut bad))
            .collect();
        bad.or_ok()?;
        Ok(PrefixTable::new(tables, self.lists.into_lists()))
    }

    fn add(&mut self, line: u32, table: &str, prefix: &str, groups: &str) -> Result<(), Problem> {
        let prefix = Digits::of_prefix(prefix)?;
        let list = self.lists.intern(groups)?;
        let rows = self.table(table.trim())?;
        match prefix.len() {
            0 => return rows.set_default(line, list),
            length @ 1..=MAX_KEY_DIGITS => rows.short.push(ShortRow {
                key: prefix.key(length),
                list,
                line,
            }),
            _ => rows.long.push(LongRow { prefix, list, line }),
        }
        Ok(())
    }

    fn table(&mut self, name: &str) -> Result<&mut Rows, Problem> {
        let name = if name.is_empty() { DEFAULT } else { name };
        let index = match self.by_name.get(name) {
            Some(index) => *index,
            None => self.new_table(name)?,
        };
        let unknown = || Problem::TableName {
            name: excerpt(name),
        };
        self.tables.get_mut(index).ok_or_else(unknown)
    }

    fn new_table(&mut self, name: &str) -> Result<usize, Problem> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.len() > MAX_TABLE_NAME || !name.bytes().all(allowed) {
            let name = excerpt(name);
            return Err(Problem::TableName { name });
        }
        if self.tables.len() == MAX_TABLES {
            let name = excerpt(name);
            return Err(Problem::TooManyTables { name });
        }
        self.by_name.insert(name.into(), self.tables.len());
        self.tables.push(Rows {
            name: name.into(),
            default: None,
            short: Vec::new(),
            long: Vec::new(),
        });
        Ok(self.tables.len() - 1)
    }
}

impl Rows {
    fn set_default(&mut self, line: u32, list: ListId) -> Result<(), Problem> {
        let (first, at) = *self.default.get_or_insert((list, line));
        if first == list {
            return Ok(());
        }
        Err(Problem::Contradiction {
            table: self.name.to_string(),
            prefix: DEFAULT.to_owned(),
            first: at,
        })
    }

    fn build(self, bad: &mut BadRows) -> Table {
        let contradiction = |prefix: Digits, first: u32| Problem::Contradiction {
            table: self.name.to_string(),
            prefix: prefix.to_string(),
            first,
        };
        let short = Short::build(&self.short, |first, next| {
            if first.list != next.list {
                let prefix = Digits::of_key(next.key);
                bad.push(next.line, contradiction(prefix, first.line));
            }
        });
        drop(self.short);
        let long = Long::build(self.long, |first, next| {
            if first.list != next.list {
                bad.push(next.line, contradiction(next.prefix, first.line));
            }
        });
        Table {
            name: self.name,
            default: self.default.map(|(list, _)| list),
            short,
            long,
        }
    }
}
