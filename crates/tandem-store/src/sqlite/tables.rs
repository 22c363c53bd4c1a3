//! Tables that others have made.

use super::fault;
use crate::backend::Fault;
use crate::tables::{Dialect, Select, VisitRow, each_row, reading};
use sqlx::error::DatabaseError;
use sqlx::{AssertSqlSafe, SqlitePool};

/// Streams the rows of a table or view. Returns their number.
pub(super) async fn read_rows(
    pool: &SqlitePool,
    select: &Select<'_>,
    visit: &mut VisitRow<'_>,
) -> Result<u64, Fault> {
    // Read seldom, so it needs no place among the prepared statements.
    let query = sqlx::query(AssertSqlSafe(select.statement(Dialect::Sqlite))).persistent(false);
    let read = each_row(query.fetch(pool), select, visit).await;
    read.map_err(|error| reading(error, is_about_names, fault))
}

/// The code of every statement that does not fit the tables. Only names can be wrong in this one.
fn is_about_names(said: &dyn DatabaseError) -> bool {
    said.code().as_deref() == Some("1")
}
