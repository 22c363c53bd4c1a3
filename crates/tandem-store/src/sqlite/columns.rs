//! How the columns of a row are read.

use crate::sql::{Columns, unfit};
use sqlx::sqlite::SqliteRow;
use sqlx::{Error, Row};

impl Columns for SqliteRow {
    fn bytes(&self, column: usize) -> Result<&[u8], Error> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> Result<&str, Error> {
        self.try_get(column)
    }

    fn number(&self, column: usize) -> Result<u32, Error> {
        let number: i64 = self.try_get(column)?;
        number.try_into().map_err(|error| unfit(column, error))
    }
}
