//! The rows of a table, as texts.

use super::select::Select;
use crate::network::{WHOLE_TABLE_TIMEOUT, within_time};
use crate::sql::Columns;
use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use sqlx::Error;

/// The maximum number of fields of a [`Select`].
pub(crate) const MAX_FIELDS: usize = 6;

/// A row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextRow<'r> {
    /// Its number, from 1, in the order of the database.
    pub(crate) number: u32,
    /// One for each field; empty if there is none.
    pub(crate) texts: [&'r str; MAX_FIELDS],
}

/// A callback for each row. Its error ends the stream.
pub(crate) type VisitRow<'v> = dyn FnMut(&TextRow<'_>) -> Result<(), RowError> + Send + 'v;

/// Why a table is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RowError {
    #[error("row {row} has more than {longest} characters in {column}")]
    TooLong {
        row: u32,
        column: String,
        longest: u32,
    },
    #[error("row {row} has bytes in {column} that are no text")]
    NoText { row: u32, column: String },
    #[error("row {row} has \"{value}\" in {column}, which is no whole number")]
    NoNumber {
        row: u32,
        column: String,
        value: String,
    },
    #[error("it has more than {most} rows")]
    TooMany { most: u32 },
}

/// Passes the rows to `visit`. Each must arrive in time. Returns their number.
pub(crate) async fn each_row<R: Columns>(
    mut rows: BoxStream<'_, Result<R, Error>>,
    select: &Select<'_>,
    visit: &mut VisitRow<'_>,
) -> Result<u64, Error> {
    let mut number = 0;
    while let Some(row) = within_time(WHOLE_TABLE_TIMEOUT, rows.try_next()).await? {
        number += 1;
        let most = select.most;
        if number > most {
            return Err(rejected(RowError::TooMany { most }));
        }
        let row = texts(&row, number, select);
        row.and_then(|row| visit(&row)).map_err(rejected)?;
    }
    Ok(number.into())
}

fn texts<'r>(
    row: &'r impl Columns,
    number: u32,
    select: &Select<'_>,
) -> Result<TextRow<'r>, RowError> {
    let mut texts = [""; MAX_FIELDS];
    for ((index, field), text) in select.fields.iter().enumerate().zip(&mut texts) {
        let column = || field.column.map_or_else(String::new, ToString::to_string);
        *text = row.text(index).map_err(|_| RowError::NoText {
            row: number,
            column: column(),
        })?;
        // Most values are short in bytes, and need not be counted.
        let longest = field.longest as usize;
        if text.len() > longest && text.chars().count() > longest {
            return Err(RowError::TooLong {
                row: number,
                column: column(),
                longest: field.longest,
            });
        }
    }
    Ok(TextRow { number, texts })
}

fn rejected(error: RowError) -> Error {
    Error::Decode(Box::new(error))
}
