//! The statement that reads a table.

use super::name::{ColumnName, TableName};
use std::fmt::Write;

/// A column to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'s> {
    /// `None`: the table has no such column, and its values are empty.
    pub(crate) column: Option<&'s ColumnName>,
    /// The maximum number of characters of a value.
    pub(crate) longest: u32,
}

/// What to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Select<'s> {
    pub(crate) table: &'s TableName,
    pub(crate) fields: &'s [Field<'s>],
    /// The maximum number of rows.
    pub(crate) most: u32,
}

/// What differs in the SQL of the databases.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dialect {
    Postgres,
    MySql,
    Sqlite,
}

impl Select<'_> {
    /// The statement. A value that is too long is cut behind its bound, and of rows that are too many, the first one too many is read: so both
    /// are noticed.
    pub(crate) fn statement(&self, dialect: Dialect) -> String {
        let mut fields = String::new();
        for (index, field) in self.fields.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            // Writing to a text cannot fail.
            let _ = write!(fields, "{comma}{}", dialect.text(field));
        }
        let table = self.table.parts().map(|part| dialect.quoted(part));
        let table = table.collect::<Vec<_>>().join(".");
        let most = u64::from(self.most) + 1;
        format!("SELECT {fields} FROM {table} LIMIT {most}")
    }
}

impl Dialect {
    /// An expression for the beginning of a value, as a text.
    fn text(self, field: &Field<'_>) -> String {
        let Some(column) = field.column else {
            return "''".to_owned();
        };
        let column = self.quoted(column.as_str());
        let length = u64::from(field.longest) + 1;
        match self {
            Self::Postgres => format!("LEFT(COALESCE(CAST({column} AS TEXT), ''), {length})"),
            Self::MySql => format!("LEFT(COALESCE(CAST({column} AS CHAR), ''), {length})"),
            Self::Sqlite => format!("substr(COALESCE(CAST({column} AS TEXT), ''), 1, {length})"),
        }
    }

    /// A name that is a key word, or contains any character. `SQLite` would take an unknown column in double quotes for a text.
    fn quoted(self, name: &str) -> String {
        let quote = match self {
            Self::Postgres => '"',
            Self::MySql | Self::Sqlite => '`',
        };
        let escaped = name.replace(quote, &format!("{quote}{quote}"));
        format!("{quote}{escaped}{quote}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_its_quotes() {
        let table = "a\"; DROP TABLE t; --.b`".parse().expect("a name");
        let select = Select {
            table: &table,
            fields: &[Field {
                column: None,
                longest: 1,
            }],
            most: 9,
        };
        for (dialect, expected) in [
            (
                Dialect::Postgres,
                "SELECT '' FROM \"a\"\"; DROP TABLE t; --\".\"b`\" LIMIT 10",
            ),
            (
                Dialect::MySql,
                "SELECT '' FROM `a\"; DROP TABLE t; --`.`b``` LIMIT 10",
            ),
        ] {
            assert_eq!(select.statement(dialect), expected);
        }
    }
}
