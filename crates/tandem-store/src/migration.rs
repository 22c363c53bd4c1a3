//! The migrations of a backend, and what it means if they fail.

use crate::backend::Fault;
use crate::error::StoreError;
use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

/// The migrations from version 1 on: description and SQL. Not `sqlx::migrate!`: it would build the database drivers a second time, for the
/// compiler.
pub(crate) fn migrator(migrations: &[(&'static str, &'static str)]) -> Migrator {
    let migration = |(&(description, sql), version): (&(&'static str, &'static str), i64)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    let migrations = migrations.iter().zip(1..).map(migration);
    Migrator::with_migrations(migrations.collect())
}

/// An error while tables are created or updated. Trouble with the database, which is the error, is no trouble with the tables. `remedy` says
/// what to do about tables that do not match.
pub(crate) fn migration_error(
    url: &str,
    error: MigrateError,
    remedy: &'static str,
    fault: fn(sqlx::Error) -> Fault,
) -> Result<StoreError, Fault> {
    let problem = match &error {
        MigrateError::VersionMissing(version) => format!(
            "a newer version of tandem created it (its tables have step {version}, which is unknown to this version)"
        ),
        MigrateError::VersionMismatch(version) => {
            format!("step {version} of its tables differs from that of this version")
        }
        _ => format!("its tables could not be created ({error})"),
    };
    let cause = match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Some(fault(error))
        }
        _ => None,
    };
    match cause {
        None | Some(Fault::Other { .. }) => Ok(StoreError::Schema {
            url: url.to_owned(),
            problem,
            remedy,
        }),
        Some(fault) => Err(fault),
    }
}
