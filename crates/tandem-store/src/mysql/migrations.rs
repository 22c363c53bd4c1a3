//! The tables, and how those of an older version are brought up to date.

use super::fault::fault;
use crate::backend::{Fault, IfMissing};
use crate::error::StoreError;
use crate::migration::{NEWEST_STEP, OLDEST_STEP, Steps, migration_error, migrator};
use crate::network::{MATCH_VERSION, TABLES, is_new, opening, run_migrations, within};
use sqlx::{MySql, MySqlConnection, QueryBuilder};

/// All migrations, from version 1 on: description and SQL. Never change a released one.
const MIGRATIONS: [(&str, &str); 6] = [
    (
        "subscribers and locations",
        include_str!("../../migrations/mysql/0001_subscribers_and_locations.sql"),
    ),
    (
        "call records",
        include_str!("../../migrations/mysql/0002_call_records.sql"),
    ),
    (
        "dialogs",
        include_str!("../../migrations/mysql/0003_dialogs.sql"),
    ),
    (
        "node epochs",
        include_str!("../../migrations/mysql/0004_node_epochs.sql"),
    ),
    (
        "aliases and call forwarding",
        include_str!("../../migrations/mysql/0005_services.sql"),
    ),
    (
        "compatibility of the tables",
        include_str!("../../migrations/mysql/0006_schema_compatibility.sql"),
    ),
];

/// Creates or updates the tables. A named lock lets only one process do this at a time; it ends with the connection. Returns whether
/// there were no tables before.
pub(super) async fn migrate(
    url: &str,
    connection: &mut MySqlConnection,
    if_missing: IfMissing,
) -> Result<bool, StoreError> {
    if if_missing == IfMissing::FailAndLeave {
        return Ok(false);
    }
    let locked = within(lock(connection)).await;
    if !locked.map_err(|error| opening(url, fault(error)))? {
        return Err(opening(url, Fault::Busy));
    }
    let present = within(present(connection)).await;
    let present = present.map_err(|error| opening(url, fault(error)))?;
    let is_new = is_new(url, &present, if_missing)?;
    if !is_new {
        let forgotten = within(forget_interrupted(connection)).await;
        forgotten.map_err(|error| opening(url, fault(error)))?;
    }
    let mut migrations = migrator(&MIGRATIONS);
    if !is_new {
        let steps = within(steps(connection)).await;
        let steps = steps.map_err(|error| opening(url, fault(error)))?;
        migrations.set_ignore_missing(steps.are_newer(url, &MIGRATIONS, MATCH_VERSION)?);
    }
    migrations.set_locking(false);
    let migrated = run_migrations(&migrations, connection, is_new).await;
    migrated.map_err(|error| {
        migration_error(url, error, MATCH_VERSION, fault).unwrap_or_else(|it| opening(url, it))
    })?;
    Ok(is_new)
}

/// Waits for the lock that lets only one process create or update tables. Returns whether it was granted.
///
/// Not the lock of sqlx: it asks to wait forever, which MariaDB refuses, and ignores the answer.
async fn lock(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let granted: Option<i64> =
        sqlx::query_scalar("SELECT GET_LOCK(CONCAT('tandem tables ', SHA1(DATABASE())), 10)")
            .fetch_one(connection)
            .await?;
    Ok(granted == Some(1))
}

/// Forgets a migration that was interrupted, so that it runs again: each is repeatable, because the server commits its statements one by
/// one.
async fn forget_interrupted(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("DELETE FROM _sqlx_migrations WHERE success = FALSE")
        .execute(connection)
        .await?;
    Ok(())
}

/// Those of the store's tables that exist.
async fn present(connection: &mut MySqlConnection) -> Result<Vec<String>, sqlx::Error> {
    let mut select = QueryBuilder::<MySql>::new(
        "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN (",
    );
    let mut names = select.separated(", ");
    for table in TABLES {
        names.push_bind(table);
    }
    select.push(") ORDER BY 1");
    select.build_query_scalar().fetch_all(connection).await
}

/// The steps that the tables have.
async fn steps(connection: &mut MySqlConnection) -> Result<Steps, sqlx::Error> {
    let newest = sqlx::query_scalar(NEWEST_STEP);
    let newest = newest.fetch_one(&mut *connection).await?;
    if !Steps::exceed(newest, &MIGRATIONS) {
        return Ok(Steps::of(newest, None));
    }
    let oldest = sqlx::query_scalar(OLDEST_STEP);
    Ok(Steps::of(newest, oldest.fetch_optional(connection).await?))
}
