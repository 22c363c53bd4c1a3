//! How the columns of a row are read.

use crate::sql::{Columns, unfit};
use sqlx::mysql::MySqlRow;
use sqlx::{Error, Row};

impl Columns for MySqlRow {
    fn bytes(&self, column: usize) -> Result<&[u8], Error> {
        self.try_get(column)
    }

    /// Text is stored as bytes.
    fn text(&self, column: usize) -> Result<&str, Error> {
        let bytes = self.bytes(column)?;
        std::str::from_utf8(bytes).map_err(|error| unfit(column, error))
    }

    fn number(&self, column: usize) -> Result<u32, Error> {
        self.try_get(column)
    }
}

/// Reads username and domain, the first two columns.
pub(super) fn read_name(row: &MySqlRow) -> Result<(String, String), Error> {
    Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned()))
}
