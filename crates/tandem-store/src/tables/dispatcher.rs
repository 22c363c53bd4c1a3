//! Destinations from the table of Kamailio's module `dispatcher`.

use super::name::{ColumnName, TableName};
use super::rows::{RowError, TextRow};
use super::select::{Field, Select};
use crate::error::StoreError;
use crate::store::Store;

/// The maximum number of rows: a gateway may be in several sets.
const MOST: u32 = 65_536;
/// The maximum number of characters of a text. Kamailio's own columns have at most 192, and it reads at most 1,024 of attributes.
const LONGEST: u32 = 1_024;
/// The maximum number of characters of a number.
const LONGEST_NUMBER: u32 = 32;

/// Where destinations are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherSource {
    /// The table or view: `table_name` of the module.
    pub table: TableName,
    /// `setid_col`.
    pub set: ColumnName,
    /// `destination_col`.
    pub destination: ColumnName,
    /// `flags_col`. `None`, as for the other columns: the table is of an old version, without it.
    pub flags: Option<ColumnName>,
    /// `priority_col`.
    pub priority: Option<ColumnName>,
    /// `attrs_col`.
    pub attributes: Option<ColumnName>,
}

/// A row. An absent text is empty, and an absent number 0, except that of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatcherRow<'r> {
    /// Its number, from 1, in the order of the database.
    pub number: u32,
    /// The set; negative if it is absent.
    pub set: i64,
    /// The SIP URI of the destination.
    pub destination: &'r str,
    /// Bits that say how the destination begins.
    pub flags: i64,
    /// Higher numbers first.
    pub priority: i64,
    /// `name=value;name=value`.
    pub attributes: &'r str,
}

impl DispatcherSource {
    /// A table with the default names of columns.
    pub fn new(table: TableName) -> Self {
        let known = ColumnName::known;
        Self {
            table,
            set: known("setid"),
            destination: known("destination"),
            flags: Some(known("flags")),
            priority: Some(known("priority")),
            attributes: Some(known("attrs")),
        }
    }
}

impl Store {
    /// Passes the rows of a table or view of destinations to `take`, in the order of the database. Returns their number.
    ///
    /// # Errors
    /// [`StoreError::Table`] if the table or a column does not exist or may not be read, or if it has more than 65,536 rows, a text of more
    /// than 1,024 characters, or a text instead of a number; or any error of the database. `take` may have seen some rows then.
    pub async fn read_dispatcher(
        &self,
        source: &DispatcherSource,
        mut take: impl FnMut(&DispatcherRow<'_>) + Send,
    ) -> Result<u64, StoreError> {
        let field = |column, longest| Field { column, longest };
        let (flags, priority) = (source.flags.as_ref(), source.priority.as_ref());
        let select = Select {
            table: &source.table,
            fields: &[
                field(Some(&source.set), LONGEST_NUMBER),
                field(Some(&source.destination), LONGEST),
                field(flags, LONGEST_NUMBER),
                field(priority, LONGEST_NUMBER),
                field(source.attributes.as_ref(), LONGEST),
            ],
            most: MOST,
        };
        let mut visit = |row: &TextRow<'_>| {
            let [set, destination, its_flags, its_priority, attributes, ..] = row.texts;
            let number = |column, text| number(row.number, column, text);
            take(&DispatcherRow {
                number: row.number,
                set: number(Some(&source.set), set)?.unwrap_or(-1),
                destination: destination.trim(),
                flags: number(flags, its_flags)?.unwrap_or(0),
                priority: number(priority, its_priority)?.unwrap_or(0),
                attributes,
            });
            Ok(())
        };
        self.rows(&select, &mut visit).await
    }
}

fn number(row: u32, column: Option<&ColumnName>, text: &str) -> Result<Option<i64>, RowError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.trim()
        .parse()
        .map(Some)
        .map_err(|_| RowError::NoNumber {
            row,
            column: column.map_or_else(String::new, ToString::to_string),
            value: text.escape_debug().to_string(),
        })
}
