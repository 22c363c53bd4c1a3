//! Tables that others have made.

use super::fault;
use crate::backend::Fault;
use crate::network::Lease;
use crate::tables::{Dialect, Select, VisitRow, each_row, reading};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySqlPool};

/// Streams the rows of a table or view. Returns their number.
pub(crate) async fn read_rows(
    pool: &MySqlPool,
    select: &Select<'_>,
    visit: &mut VisitRow<'_>,
) -> Result<u64, Fault> {
    let mut lease = Lease::of(pool).await.map_err(fault)?;
    // Read seldom, so it needs no place among the prepared statements.
    let query = sqlx::query(AssertSqlSafe(select.statement(Dialect::MySql))).persistent(false);
    let read = each_row(query.fetch(&mut *lease), select, visit).await;
    let read = lease.end(read);
    read.map_err(|error| reading(error, is_about_names, fault))
}

/// An unknown database, table or column, or one that may not be read; a view of tables that are not there or may not be read.
fn is_about_names(said: &dyn DatabaseError) -> bool {
    let said = said.try_downcast_ref::<MySqlDatabaseError>();
    said.is_some_and(|said| {
        matches!(
            said.number(),
            1044 | 1049 | 1054 | 1142 | 1143 | 1146 | 1356
        )
    })
}
