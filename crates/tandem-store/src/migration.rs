//! The migrations of a backend, and what it means if they fail.

use crate::backend::Fault;
use crate::error::StoreError;
use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use tracing::info;

/// Description and SQL of each step, from step 1 on.
pub(crate) type Migrations = [(&'static str, &'static str)];

/// The newest step that the tables have.
pub(crate) const NEWEST_STEP: &str = "SELECT MAX(version) FROM _sqlx_migrations";
/// The oldest step that a program must know to work with the tables.
pub(crate) const OLDEST_STEP: &str = "SELECT oldest_step FROM schema_compatibility WHERE id = 1";

/// The migrations from version 1 on: description and SQL. Not `sqlx::migrate!`: it would build the database drivers a second time, for the
/// compiler.
pub(crate) fn migrator(migrations: &Migrations) -> Migrator {
    let migration = |(&(description, sql), version): (&(&'static str, &'static str), i64)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    let migrations = migrations.iter().zip(1..).map(migration);
    Migrator::with_migrations(migrations.collect())
}

/// What the tables say about their steps.
///
/// During a rolling upgrade, servers of two versions work on the same tables. Most steps only add, and the version before them works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    newest: i64,
    /// `None`: not known.
    oldest: Option<i64>,
}

impl Steps {
    pub(crate) fn of(newest: Option<i64>, oldest: Option<i64>) -> Self {
        Self {
            newest: newest.unwrap_or(0),
            oldest,
        }
    }

    /// Whether tables with this newest step are newer than these migrations, so that the oldest step matters.
    pub(crate) fn exceed(newest: Option<i64>, migrations: &Migrations) -> bool {
        newest.unwrap_or(0) > known(migrations)
    }

    /// Whether the tables are newer than these migrations, and usable all the same.
    ///
    /// # Errors
    /// [`StoreError::Schema`] if they are newer and not usable.
    pub(crate) fn are_newer(
        self,
        url: &str,
        migrations: &Migrations,
        remedy: &'static str,
    ) -> Result<bool, StoreError> {
        let (known, newest) = (known(migrations), self.newest);
        if newest <= known {
            return Ok(false);
        }
        if self.oldest.is_some_and(|oldest| oldest <= known) {
            info!(
                "the tables of the database {url} are of a newer version (step {newest}; this version knows {known}), with which this one can work"
            );
            return Ok(true);
        }
        let needed = self.oldest.unwrap_or(newest);
        Err(StoreError::Schema {
            url: url.to_owned(),
            problem: format!(
                "a newer version of tandem changed it (its tables have step {newest} and need a version that knows step {needed}; this one knows \
                 {known})"
            ),
            remedy,
        })
    }
}

fn known(migrations: &Migrations) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
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
        MigrateError::VersionMissing(version) => {
            format!("its tables have step {version}, which is unknown to this version")
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [(&str, &str); 2] = [("one", ""), ("two", "")];

    #[test]
    fn tables_are_usable_if_this_version_knows_the_step_that_they_need() {
        let rows = [
            (None, None, Some(false)),
            (Some(1), None, Some(false)),
            (Some(2), Some(2), Some(false)),
            (Some(4), Some(2), Some(true)),
            (Some(4), Some(1), Some(true)),
            (Some(4), Some(3), None),
            (Some(4), None, None),
        ];
        for (newest, oldest, expected) in rows {
            let found = Steps::of(newest, oldest).are_newer("sqlite:x", &TWO, "upgrade");
            assert_eq!(found.ok(), expected, "{newest:?}, {oldest:?}");
        }
    }
}
