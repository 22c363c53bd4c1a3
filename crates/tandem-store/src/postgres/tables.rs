//! Tables that others have made.

use super::{begin_stream, fault};
use crate::backend::Fault;
use crate::network::{Lease, within};
use crate::tables::{Dialect, Select, VisitRow, each_row, reading};
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};

/// Streams the rows of a table or view. Returns their number.
pub(crate) async fn read_rows(
    pool: &PgPool,
    select: &Select<'_>,
    visit: &mut VisitRow<'_>,
) -> Result<u64, Fault> {
    let mut lease = Lease::of(pool).await.map_err(fault)?;
    let read = stream(&mut lease, select, visit).await;
    let read = lease.end(read);
    read.map_err(|error| reading(error, is_about_names, fault))
}

async fn stream(
    connection: &mut PgConnection,
    select: &Select<'_>,
    visit: &mut VisitRow<'_>,
) -> Result<u64, sqlx::Error> {
    let mut transaction = begin_stream(connection).await?;
    // Read seldom, so it needs no place among the prepared statements.
    let query = sqlx::query(AssertSqlSafe(select.statement(Dialect::Postgres))).persistent(false);
    let read = each_row(query.fetch(&mut *transaction), select, visit).await?;
    within(transaction.commit()).await?;
    Ok(read)
}

/// An unknown table, column or schema, or one that may not be read; a name that is no table.
fn is_about_names(said: &dyn DatabaseError) -> bool {
    let code = said.code();
    matches!(
        code.as_deref(),
        Some("42P01" | "42703" | "3F000" | "42501" | "42809")
    )
}
