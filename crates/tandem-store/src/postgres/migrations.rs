//! The tables, and how those of an older version are brought up to date.

use super::fault::fault;
use crate::backend::IfMissing;
use crate::error::StoreError;
use crate::migration::{NEWEST_STEP, OLDEST_STEP, Steps, migration_error, migrator};
use crate::network::{
    MATCH_VERSION, MIGRATION_TIMEOUT, TABLES, is_new, opening, run_migrations, within,
};
use sqlx::migrate::{Migrate, MigrateError};
use sqlx::{AssertSqlSafe, PgConnection};

/// All migrations, from version 1 on: description and SQL. Never change a released one.
const MIGRATIONS: [(&str, &str); 6] = [
    (
        "subscribers and locations",
        include_str!("../../migrations/postgres/0001_subscribers_and_locations.sql"),
    ),
    (
        "call records",
        include_str!("../../migrations/postgres/0002_call_records.sql"),
    ),
    (
        "dialogs",
        include_str!("../../migrations/postgres/0003_dialogs.sql"),
    ),
    (
        "node epochs",
        include_str!("../../migrations/postgres/0004_node_epochs.sql"),
    ),
    (
        "aliases and call forwarding",
        include_str!("../../migrations/postgres/0005_services.sql"),
    ),
    (
        "compatibility of the tables",
        include_str!("../../migrations/postgres/0006_schema_compatibility.sql"),
    ),
];

/// Creates or updates the tables. An advisory lock lets only one process do this at a time; it ends with the connection. Returns whether
/// there were no tables before.
pub(super) async fn migrate(
    url: &str,
    connection: &mut PgConnection,
    if_missing: IfMissing,
) -> Result<bool, StoreError> {
    if if_missing == IfMissing::FailAndLeave {
        return Ok(false);
    }
    let present = async {
        lock(connection).await?;
        present(connection).await
    };
    let present = within(present)
        .await
        .map_err(|error| opening(url, fault(error)))?;
    let is_new = is_new(url, &present, if_missing)?;
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

/// Waits for the lock that lets only one process create or update tables. After that, a statement of this connection may take as long as
/// a migration.
async fn lock(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection.lock().await.map_err(|error| match error {
        MigrateError::Execute(error) => error,
        other => sqlx::Error::Protocol(other.to_string()),
    })?;
    let longest = MIGRATION_TIMEOUT.as_millis();
    let setting = format!("SET statement_timeout = {longest}");
    sqlx::raw_sql(AssertSqlSafe(setting))
        .execute(connection)
        .await?;
    Ok(())
}

/// Those of the store's tables that exist.
async fn present(connection: &mut PgConnection) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT relname::text FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
         WHERE nspname = current_schema() AND relname = ANY ($1::text[]) ORDER BY relname",
    )
    .bind(TABLES.as_slice())
    .fetch_all(connection)
    .await
}

/// The steps that the tables have.
async fn steps(connection: &mut PgConnection) -> Result<Steps, sqlx::Error> {
    let newest = sqlx::query_scalar(NEWEST_STEP);
    let newest = newest.fetch_one(&mut *connection).await?;
    if !Steps::exceed(newest, &MIGRATIONS) {
        return Ok(Steps::of(newest, None));
    }
    let oldest = sqlx::query_scalar(OLDEST_STEP);
    Ok(Steps::of(newest, oldest.fetch_optional(connection).await?))
}
