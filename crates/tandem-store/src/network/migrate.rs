//! Runs migrations within bounded time: a connection may fall silent, and a table may be large.

use super::MIGRATION_RECORD;
use super::lease::{WHOLE_TABLE_TIMEOUT, within, within_time};
use sqlx::Error;
use sqlx::migrate::{Migrate, MigrateError, Migrator};
use std::time::Duration;

/// How long migrations of tables that have rows may take: they may rewrite tables.
pub(crate) const MIGRATION_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Runs the migrations that the tables do not have yet. After its time, the result is an I/O error. The server may still complete the
/// statement that it runs; until then, the next attempt does not get the lock of the tables.
pub(crate) async fn run_migrations<C: Migrate + Send>(
    migrations: &Migrator,
    connection: &mut C,
    is_new: bool,
) -> Result<(), MigrateError> {
    let run = if is_new {
        within_time(WHOLE_TABLE_TIMEOUT, direct(migrations, connection)).await
    } else if are_pending(migrations, connection).await? {
        within_time(MIGRATION_TIMEOUT, direct(migrations, connection)).await
    } else {
        // This only compares the tables with this version.
        within(direct(migrations, connection)).await
    };
    run?
}

/// Whether the tables lack a migration.
async fn are_pending<C: Migrate + Send>(
    migrations: &Migrator,
    connection: &mut C,
) -> Result<bool, MigrateError> {
    let applied = async { Ok(connection.list_applied_migrations(MIGRATION_RECORD).await) };
    let applied = within(applied).await??;
    Ok(migrations
        .iter()
        .any(|migration| applied.iter().all(|it| it.version != migration.version)))
}

async fn direct<C: Migrate + Send>(
    migrations: &Migrator,
    connection: &mut C,
) -> Result<Result<(), MigrateError>, Error> {
    Ok(migrations.run_direct(None, connection, false).await)
}
