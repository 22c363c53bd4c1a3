//! Rows of the tables as values of the store.

use crate::backend::VisitBinding;
use crate::binding::{BindingRow, Loaded};
use crate::subscriber::StoredCredentials;
use sqlx::Error;
use std::borrow::Cow;

/// The columns of a row as the driver of a database reads them. They are counted from 0.
pub(crate) trait Columns {
    fn bytes(&self, column: usize) -> Result<&[u8], Error>;
    fn text(&self, column: usize) -> Result<&str, Error>;
    fn number(&self, column: usize) -> Result<u32, Error>;
}

/// The columns that [`restore_binding`] reads, in their order.
pub(crate) const BINDING: &str =
    "address, contact, q, expires_at, call_id, cseq, path, instance, user_agent, source, listener";

/// Passes an address of record and a binding to `restore`, or counts the row as unreadable.
pub(crate) fn restore_binding(
    row: &impl Columns,
    restore: &mut VisitBinding<'_>,
    loaded: &mut Loaded,
) {
    match binding(row) {
        Ok((address, binding)) => {
            restore(address, &binding);
            loaded.bindings += 1;
        }
        Err(_) => loaded.unreadable += 1,
    }
}

fn binding(row: &impl Columns) -> Result<(&[u8], BindingRow<'_>), Error> {
    let bytes = |column| row.bytes(column).map(Cow::Borrowed);
    let q = row.number(2)?;
    let source = row.text(9)?;
    let binding = BindingRow {
        contact: bytes(1)?,
        q: q.try_into().map_err(|error| unfit(2, error))?,
        expires_at: row.number(3)?,
        call_id: bytes(4)?,
        cseq: row.number(5)?,
        path: bytes(6)?,
        instance: bytes(7)?,
        user_agent: bytes(8)?,
        source: source.parse().map_err(|error| unfit(9, error))?,
        listener: Cow::Borrowed(row.text(10)?),
    };
    Ok((row.bytes(0)?, binding))
}

/// Reads the two hashes of a subscriber, beginning at `column`.
pub(crate) fn credentials(row: &impl Columns, column: usize) -> Result<StoredCredentials, Error> {
    Ok(StoredCredentials {
        ha1_md5: hash(row, column)?,
        ha1_sha256: hash(row, column + 1)?,
    })
}

fn hash<const N: usize>(row: &impl Columns, column: usize) -> Result<[u8; N], Error> {
    let bytes = row.bytes(column)?;
    bytes.try_into().map_err(|error| unfit(column, error))
}

/// The error about a value that a column should not have.
pub(crate) fn unfit(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::ColumnDecode {
        index: column.to_string(),
        source: Box::new(error),
    }
}
