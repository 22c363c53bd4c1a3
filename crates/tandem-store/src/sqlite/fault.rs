//! What the errors of `SQLite` mean, and what to do about them.

use crate::backend::Fault;
use crate::error::StoreError;
use crate::migration::migration_error;
use sqlx::migrate::MigrateError;

/// For a file that can't be opened.
pub(super) const CHECK_ACCESS: &str =
    "check that its directory exists and that this user may write there";
const RESTORE: &str = "restore it from a backup, or move it away to start with an empty database";
/// For a file that takes no changes.
pub(super) const CHECK_DISK: &str = "check the free space, and the permissions of the file, its directory and its -wal and -shm files";
/// For tables that this version cannot use.
pub(super) const MATCH_VERSION: &str =
    "use the matching version, or set database.url in the configuration to another file";

/// Classifies an error by `SQLite`'s result code (the low byte of an extended code; <https://www.sqlite.org/rescode.html>).
pub(super) fn fault(error: sqlx::Error) -> Fault {
    let problem = error.to_string();
    let code = match error {
        sqlx::Error::PoolTimedOut => return Fault::Busy,
        sqlx::Error::Database(error) => error.code().and_then(|code| code.parse::<i32>().ok()),
        _ => None,
    };
    match code.map(|code| code & 0xff) {
        Some(5 | 6) => Fault::Busy,
        Some(11 | 26) => Fault::Corrupt {
            problem,
            remedy: RESTORE,
        },
        // No access: 3, 8, 14, 23. Trouble with the disk: 10, 13.
        Some(3 | 8 | 10 | 13 | 14 | 23) => Fault::Unwritable {
            problem,
            remedy: CHECK_DISK,
        },
        _ => Fault::Other { problem },
    }
}

/// A fault while the database is opened: trouble with the file becomes [`StoreError::Open`].
pub(super) fn opening(url: &str, fault: Fault) -> StoreError {
    match fault {
        Fault::Unwritable { problem, .. } | Fault::Other { problem } => StoreError::Open {
            url: url.to_owned(),
            problem,
            remedy: CHECK_ACCESS,
        },
        fault => StoreError::new(url, "open the database", fault),
    }
}

/// An error while tables are created or updated.
pub(super) fn migrating(url: &str, error: MigrateError) -> StoreError {
    migration_error(url, error, MATCH_VERSION, fault).unwrap_or_else(|fault| opening(url, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::error::{DatabaseError, ErrorKind};
    use std::borrow::Cow;
    use std::fmt;

    /// A database error with this result code.
    #[derive(Debug)]
    struct Said(i32);

    impl fmt::Display for Said {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "code {}", self.0)
        }
    }

    impl std::error::Error for Said {}

    impl DatabaseError for Said {
        fn message(&self) -> &'static str {
            "said"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.to_string().into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> ErrorKind {
            ErrorKind::Other
        }
    }

    fn said(code: i32) -> sqlx::Error {
        sqlx::Error::Database(Box::new(Said(code)))
    }

    fn variant(error: &StoreError) -> &'static str {
        match error {
            StoreError::Open { .. } => "open",
            StoreError::Corrupt { .. } => "corrupt",
            StoreError::Busy { .. } => "busy",
            StoreError::Unwritable { .. } => "unwritable",
            StoreError::Query { .. } => "query",
            _ => "other",
        }
    }

    #[test]
    fn errors_are_sorted_by_whose_fault_they_are() {
        for (code, at_work, at_opening) in [
            (1, "query", "open"),
            (3, "unwritable", "open"),
            (5, "busy", "busy"),
            (6, "busy", "busy"),
            (8, "unwritable", "open"),
            (10, "unwritable", "open"),
            (11, "corrupt", "corrupt"),
            (13, "unwritable", "open"),
            (14, "unwritable", "open"),
            (26, "corrupt", "corrupt"),
            // Extended codes: SQLITE_BUSY_SNAPSHOT, SQLITE_READONLY_DBMOVED, SQLITE_IOERR_WRITE.
            (517, "busy", "busy"),
            (1032, "unwritable", "open"),
            (778, "unwritable", "open"),
        ] {
            let working = StoreError::new("sqlite:t.db", "work", fault(said(code)));
            let opening = opening("sqlite:t.db", fault(said(code)));
            assert_eq!(
                (variant(&working), variant(&opening)),
                (at_work, at_opening),
                "{code}"
            );
            assert_eq!(working.is_temporary(), at_work == "busy", "{code}");
            for error in [working, opening] {
                assert!(error.to_string().contains("sqlite:t.db"), "{error}");
            }
        }
    }

    #[test]
    fn a_pool_without_a_free_connection_is_busy() {
        let error = fault(sqlx::Error::PoolTimedOut);
        assert!(matches!(error, Fault::Busy), "{error:?}");
    }

    #[test]
    fn trouble_with_the_file_during_migration_is_no_trouble_with_the_tables() {
        for (code, expected) in [(5, "busy"), (13, "open"), (26, "corrupt"), (1, "other")] {
            let error = MigrateError::ExecuteMigration(said(code), 1);
            let sorted = migrating("sqlite:t.db", error);
            assert_eq!(variant(&sorted), expected, "{code}");
        }
    }
}
