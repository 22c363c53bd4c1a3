//! Which tables and columns a database has, as far as its user may read them.

use super::reader::GRANT;
use crate::error::StoreError;

/// A column of `subscriber` or `location`.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: String,
}

impl Column {
    pub(super) fn is(&self, table: &str, name: &str) -> bool {
        self.table == table && self.name == name
    }
}

/// Checks that the tables of Kamailio are there.
pub(super) fn check_tables(url: &str, columns: &[Column]) -> Result<(), StoreError> {
    for (table, name) in [("subscriber", "ha1"), ("location", "contact")] {
        if !columns.iter().any(|column| column.is(table, name)) {
            return Err(StoreError::Schema {
                url: url.to_owned(),
                problem: format!(
                    "database.schema is \"kamailio\", but it has no table {table} of Kamailio that its user may read"
                ),
                remedy: GRANT,
            });
        }
    }
    Ok(())
}

/// Expressions for the times of `location`, in seconds since the Unix epoch.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) expires: String,
    pub(super) last_modified: String,
}

impl Times {
    /// `in_zone` converts a column with a date. With `expires_type = 1`, `usrloc` writes seconds, and `whole` is the type to which a
    /// column of any width is cast.
    pub(super) fn new(columns: &[Column], whole: &str, in_zone: impl Fn(&str) -> String) -> Self {
        let expression = |name: &str| {
            let mut found = columns.iter().filter(|column| column.is("location", name));
            let is_number = found.any(|column| column.kind.contains("int"));
            if is_number {
                format!("CAST({name} AS {whole})")
            } else {
                in_zone(name)
            }
        };
        Self {
            expires: expression("expires"),
            last_modified: expression("last_modified"),
        }
    }
}
