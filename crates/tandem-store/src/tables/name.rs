//! Names of tables and columns.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The longest name that a database has.
const MAX_NAME: usize = 64;

/// A table or a view, with its schema if it is not in that of the connection: `prefixes` or `routing.prefixes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName(Box<str>);

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName(Box<str>);

/// A text that is no name of a table or a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{name}\" is no name of a {what}; a name has 1 to {MAX_NAME} bytes without control characters, and the name of a table may follow that of \
     its schema and a dot"
)]
pub struct InvalidName {
    /// The text, escaped and cut.
    pub name: String,
    /// What it should name.
    pub what: &'static str,
}

impl InvalidName {
    fn new(text: &str, what: &'static str) -> Self {
        let name = text.escape_debug().take(MAX_NAME).collect();
        Self { name, what }
    }
}

impl TableName {
    /// The schema, if there is one, and the table.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }
}

impl ColumnName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that the program contains.
    pub(crate) fn known(name: &str) -> Self {
        Self(name.into())
    }
}

impl FromStr for TableName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let parts = text.split('.').count();
        if parts <= 2 && text.split('.').all(is_name) {
            return Ok(Self(text.into()));
        }
        Err(InvalidName::new(text, "table"))
    }
}

impl FromStr for ColumnName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if is_name(text) {
            return Ok(Self(text.into()));
        }
        Err(InvalidName::new(text, "column"))
    }
}

impl Display for TableName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Display for ColumnName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_have_a_schema_and_a_column_may_not() {
        let parts = |text: &str| -> Option<Vec<String>> {
            let name: TableName = text.parse().ok()?;
            Some(name.parts().map(str::to_owned).collect())
        };
        assert_eq!(parts("prefixes"), Some(vec!["prefixes".to_owned()]));
        let qualified = vec!["My Schema".to_owned(), "x\"y".to_owned()];
        assert_eq!(parts("My Schema.x\"y"), Some(qualified));
        let longest = "x".repeat(MAX_NAME);
        assert!(parts(&longest).is_some());
        assert!(longest.parse::<ColumnName>().is_ok());
        for bad in [
            "",
            ".",
            "a.",
            ".b",
            "a.b.c",
            "a\0",
            "a\nb",
            &*format!("{longest}x"),
        ] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
        for bad in ["", "a\0"] {
            assert!(bad.parse::<ColumnName>().is_err(), "{bad:?}");
        }
        let error = "a\nb".parse::<TableName>().expect_err("no name");
        assert!(
            error
                .to_string()
                .starts_with("\"a\\nb\" is no name of a table"),
            "{error}"
        );
    }
}
