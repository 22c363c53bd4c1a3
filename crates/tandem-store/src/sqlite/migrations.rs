//! The tables, and how those of an older version are brought up to date.

use super::BUSY_TIMEOUT;
use super::fault::{MATCH_VERSION, fault, migrating, opening};
use crate::error::StoreError;
use crate::migration::{NEWEST_STEP, OLDEST_STEP, Steps, migrator};
use sqlx::{SqliteConnection, SqlitePool};
use std::time::{Duration, Instant};

/// All migrations, from version 1 on: description and SQL. Never change a released one.
const MIGRATIONS: [(&str, &str); 7] = [
    (
        "subscribers and locations",
        include_str!("../../migrations/sqlite/0001_subscribers_and_locations.sql"),
    ),
    (
        "ended registrations",
        include_str!("../../migrations/sqlite/0002_ended_registrations.sql"),
    ),
    (
        "the nodes of locations",
        include_str!("../../migrations/sqlite/0003_location_nodes.sql"),
    ),
    (
        "call records",
        include_str!("../../migrations/sqlite/0004_call_records.sql"),
    ),
    (
        "dialogs",
        include_str!("../../migrations/sqlite/0005_dialogs.sql"),
    ),
    (
        "aliases and call forwarding",
        include_str!("../../migrations/sqlite/0006_services.sql"),
    ),
    (
        "compatibility of the tables",
        include_str!("../../migrations/sqlite/0007_schema_compatibility.sql"),
    ),
];

/// Creates or updates the tables in one transaction. Only one process does this at a time.
pub(super) async fn migrate(url: &str, pool: &SqlitePool) -> Result<(), StoreError> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match try_migrate(url, pool).await {
            // `SQLite` does not wait for every lock while it sets up the log of a new file.
            Err(StoreError::Busy { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            result => return result,
        }
    }
}

async fn try_migrate(url: &str, pool: &SqlitePool) -> Result<(), StoreError> {
    let opening = |error| opening(url, fault(error));
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(opening)?;
    let mut migrations = migrator(&MIGRATIONS);
    let steps = steps(&mut transaction).await.map_err(opening)?;
    migrations.set_ignore_missing(steps.are_newer(url, &MIGRATIONS, MATCH_VERSION)?);
    // `run` does the same, but makes this future `!Send`.
    migrations
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(|error| migrating(url, error))?;
    transaction.commit().await.map_err(opening)
}

/// The steps that the tables have.
async fn steps(connection: &mut SqliteConnection) -> Result<Steps, sqlx::Error> {
    let tables: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'",
    )
    .fetch_one(&mut *connection)
    .await?;
    if tables == 0 {
        return Ok(Steps::of(None, None));
    }
    let newest = sqlx::query_scalar(NEWEST_STEP);
    let newest = newest.fetch_one(&mut *connection).await?;
    if !Steps::exceed(newest, &MIGRATIONS) {
        return Ok(Steps::of(newest, None));
    }
    let oldest = sqlx::query_scalar(OLDEST_STEP);
    Ok(Steps::of(newest, oldest.fetch_optional(connection).await?))
}
