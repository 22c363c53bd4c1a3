//! The record of changed subscribers: which version touched which name.

use crate::import_plan::Name;
use crate::sql::REMEMBERED_CHANGES;
use crate::subscriber::Registrations;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, Transaction};

/// Names recorded per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 250;

pub(super) async fn version(pool: &SqlitePool) -> Result<u64, sqlx::Error> {
    let version: i64 = sqlx::query_scalar("SELECT version FROM subscriber_version WHERE id = 1")
        .fetch_one(pool)
        .await?;
    Ok(version.cast_unsigned())
}

/// The names of the changes after one version, up to and including another.
pub(super) const CHANGES: &str = "SELECT username, domain FROM subscriber_change WHERE version > $1 AND version <= $2 ORDER BY version";
/// Those of the changes that ended registrations.
pub(super) const REGISTRATIONS_ENDED: &str = "SELECT username, domain FROM subscriber_change \
     WHERE version > $1 AND version <= $2 AND ends_registrations ORDER BY version";

pub(super) async fn names(
    pool: &SqlitePool,
    statement: &'static str,
    after: u64,
    last: u64,
) -> Result<Vec<(String, String)>, sqlx::Error> {
    sqlx::query_as(statement)
        .bind(after.cast_signed())
        .bind(last.cast_signed())
        .fetch_all(pool)
        .await
}

/// Records the change of one subscriber and commits, if `transaction` has changed `rows`. Returns whether it has.
pub(super) async fn record_one_and_commit(
    transaction: Transaction<'static, Sqlite>,
    rows: u64,
    name: Name<'_>,
    registrations: Registrations,
) -> Result<bool, sqlx::Error> {
    if rows == 0 {
        return Ok(false);
    }
    record_and_commit(transaction, &[name], registrations).await?;
    Ok(true)
}

/// Records the changes that `transaction` makes, and commits it.
pub(super) async fn record_and_commit(
    mut transaction: Transaction<'static, Sqlite>,
    changed: &[Name<'_>],
    registrations: Registrations,
) -> Result<(), sqlx::Error> {
    let count = i64::try_from(changed.len()).unwrap_or(i64::MAX);
    // This update locks the row, so versions become visible in the order of their numbers.
    let last: i64 = sqlx::query_scalar(
        "UPDATE subscriber_version SET version = version + $1 WHERE id = 1 RETURNING version",
    )
    .bind(count)
    .fetch_one(&mut *transaction)
    .await?;
    let mut version = last - count;
    for names in changed.chunks(ROWS_PER_STATEMENT) {
        let mut insert = QueryBuilder::<Sqlite>::new(
            "INSERT INTO subscriber_change (version, username, domain, ends_registrations) ",
        );
        insert.push_values(names, |mut row, (username, domain)| {
            version += 1;
            row.push_bind(version)
                .push_bind(*username)
                .push_bind(*domain)
                .push_bind(registrations == Registrations::End);
        });
        insert.build().execute(&mut *transaction).await?;
    }
    // All writers share the record and its bound. A reader that misses a version knows that it is too far behind.
    sqlx::query("DELETE FROM subscriber_change WHERE version <= $1")
        .bind(last - REMEMBERED_CHANGES)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}
