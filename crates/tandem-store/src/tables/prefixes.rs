//! Prefixes from any table or view.

use super::name::{ColumnName, TableName};
use super::rows::TextRow;
use super::select::{Field, Select};
use crate::error::StoreError;
use crate::store::Store;

/// The maximum number of rows; that of a prefix table.
const MOST: u32 = 5_000_000;
/// The maximum number of characters of a prefix, and of the name of a table.
const LONGEST: u32 = 256;
/// The maximum number of characters of the groups: 16 names of 128 characters, and as many for what is between them.
const LONGEST_GROUPS: u32 = 4_096;

/// Where prefixes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixSource {
    /// The table or view.
    pub table: TableName,
    /// The column with the group of callers that a prefix is for; `None`: it is for all.
    pub callers: Option<ColumnName>,
    /// The column with the prefix.
    pub prefix: ColumnName,
    /// The column with the gateway groups, separated by semicolons.
    pub groups: ColumnName,
}

/// A row. An absent value is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixRow<'r> {
    /// Its number, from 1, in the order of the database.
    pub number: u32,
    /// The group of callers.
    pub callers: &'r str,
    /// The prefix.
    pub prefix: &'r str,
    /// The gateway groups; in a table of Kamailio, the value.
    pub groups: &'r str,
}

impl PrefixSource {
    /// A table with the columns `prefix` and `groups`, for all callers.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            callers: None,
            prefix: ColumnName::known("prefix"),
            groups: ColumnName::known("groups"),
        }
    }

    /// A tree of Kamailio's module `mtree`, with a table of its own (`mtree`).
    pub fn mtree(table: TableName) -> Self {
        Self {
            table,
            callers: None,
            prefix: ColumnName::known("tprefix"),
            groups: ColumnName::known("tvalue"),
        }
    }

    /// Several trees of Kamailio's module `mtree` in one table (`mtrees`).
    pub fn mtrees(table: TableName) -> Self {
        Self {
            callers: Some(ColumnName::known("tname")),
            ..Self::mtree(table)
        }
    }

    /// The table of Kamailio's module `pdt`.
    pub fn pdt(table: TableName) -> Self {
        Self {
            table,
            callers: Some(ColumnName::known("sdomain")),
            prefix: ColumnName::known("prefix"),
            groups: ColumnName::known("domain"),
        }
    }
}

impl Store {
    /// Passes the rows of a table or view of prefixes to `take`, in any order. Returns their number.
    ///
    /// The texts are those of the database, and `take` checks them, as [`sip_routing::prefix::Builder::row`] does.
    ///
    /// # Errors
    /// [`StoreError::Table`] if the table or a column does not exist or may not be read, or if it has more than 5,000,000 rows, a prefix of
    /// more than 256 characters, or groups of more than 4,096; or any error of the database. `take` may have seen some rows then.
    pub async fn read_prefixes(
        &self,
        source: &PrefixSource,
        mut take: impl FnMut(&PrefixRow<'_>) + Send,
    ) -> Result<u64, StoreError> {
        let field = |column, longest| Field { column, longest };
        let select = Select {
            table: &source.table,
            fields: &[
                field(source.callers.as_ref(), LONGEST),
                field(Some(&source.prefix), LONGEST),
                field(Some(&source.groups), LONGEST_GROUPS),
            ],
            most: MOST,
        };
        let mut visit = |row: &TextRow<'_>| {
            let [callers, prefix, groups, ..] = row.texts;
            take(&PrefixRow {
                number: row.number,
                callers,
                prefix,
                groups,
            });
            Ok(())
        };
        self.rows(&select, &mut visit).await
    }
}
