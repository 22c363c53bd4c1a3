//! Errors of the store, classified by whose fault they are. Each message says what is wrong, where, and how to fix it.

use sqlx::migrate::MigrateError;
use std::fmt;

/// Why the store failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The configured URL can't be used.
    Url {
        /// As configured, without secrets.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The database can't be opened or created: a missing directory, missing permissions.
    Open {
        /// As configured.
        url: String,
        /// The message of the operating system or the database.
        problem: String,
    },
    /// The database does not exist and must not be created.
    NoDatabase {
        /// As configured.
        url: String,
        /// Where the store looked for it.
        problem: String,
    },
    /// The file is damaged, or is not a database.
    Corrupt {
        /// As configured.
        url: String,
        /// The message of the database.
        problem: String,
    },
    /// The tables belong to another program or another version.
    Schema {
        /// As configured.
        url: String,
        /// What does not match.
        problem: String,
    },
    /// Another process or connection held the database for longer than the timeout. A retry helps.
    Busy {
        /// As configured.
        url: String,
    },
    /// The database can be read, but not written: full disk, read-only file system, I/O error.
    Unwritable {
        /// As configured.
        url: String,
        /// The message of the database.
        problem: String,
    },
    /// The subscriber to add already exists.
    Exists {
        /// `username@domain`.
        address: String,
    },
    /// The subscriber to change does not exist.
    Missing {
        /// `username@domain`.
        address: String,
    },
    /// The operating system gave no random numbers.
    Random {
        /// The message of the operating system.
        problem: String,
    },
    /// A statement failed for any other reason: a bug of this program, or tables that were changed by hand.
    Query {
        /// As configured.
        url: String,
        /// The operation that failed.
        doing: &'static str,
        /// The message of the database.
        problem: String,
    },
}

impl StoreError {
    /// Whether a retry of the same call may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// Classifies an error of the database by whose fault it is.
    pub(crate) fn from_database(url: &str, doing: &'static str, error: &sqlx::Error) -> Self {
        let url = url.to_owned();
        if matches!(error, sqlx::Error::PoolTimedOut) {
            return Self::Busy { url };
        }
        let problem = error.to_string();
        match Fault::of(error) {
            Fault::Busy => Self::Busy { url },
            Fault::Corrupt => Self::Corrupt { url, problem },
            Fault::Access | Fault::Disk => Self::Unwritable { url, problem },
            Fault::Other => Self::Query {
                url,
                doing,
                problem,
            },
        }
    }

    /// Like [`from_database`](Self::from_database), for an error while the database is opened: file errors become
    /// [`StoreError::Open`].
    pub(crate) fn from_opening(url: &str, error: &sqlx::Error) -> Self {
        match Self::from_database(url, "open the database", error) {
            Self::Unwritable { url, problem } | Self::Query { url, problem, .. } => {
                Self::Open { url, problem }
            }
            sorted => sorted,
        }
    }

    /// Like [`from_database`](Self::from_database), for an error while tables are created or updated.
    pub(crate) fn from_migration(url: &str, error: &MigrateError) -> Self {
        let url = url.to_owned();
        match error {
            MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _)
                if !matches!(Fault::of(inner), Fault::Other) =>
            {
                Self::from_opening(&url, inner)
            }
            MigrateError::VersionMissing(version) => Self::Schema {
                url,
                problem: format!(
                    "a newer version of tandem created it (its tables have step {version}, which is unknown to this version)"
                ),
            },
            MigrateError::VersionMismatch(version) => Self::Schema {
                url,
                problem: format!("step {version} of its tables differs from that of this version"),
            },
            other => Self::Schema {
                url,
                problem: format!("its tables could not be created ({other})"),
            },
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url { url, problem } => write!(
                out,
                "invalid database URL \"{url}\": {problem}; write it as sqlite:FILE, for example sqlite:tandem.db"
            ),
            Self::Open { url, problem } => write!(
                out,
                "cannot open the database {url}: {problem}; check that its directory exists and that this user may write there"
            ),
            Self::NoDatabase { url, problem } => write!(
                out,
                "the database {url} does not exist: {problem}; change to the working directory of the server, or set database.url in the configuration"
            ),
            Self::Corrupt { url, problem } => write!(
                out,
                "the database {url} is damaged or not a database: {problem}; restore it from a backup, or move it away to start with an empty database"
            ),
            Self::Schema { url, problem } => write!(
                out,
                "the database {url} does not match this version of tandem: {problem}; use the matching version, or set database.url in the configuration to another file"
            ),
            Self::Busy { url } => write!(
                out,
                "the database {url} is busy: another program holds it locked for too long; retry, and look for programs that keep it open"
            ),
            Self::Unwritable { url, problem } => write!(
                out,
                "cannot write to the database {url}: {problem}; check the free space, and the permissions of the file, its directory and its -wal and -shm files"
            ),
            Self::Exists { address } => write!(out, "{address} already exists"),
            Self::Missing { address } => write!(out, "no such subscriber: {address}"),
            Self::Random { problem } => write!(
                out,
                "cannot get random numbers from the operating system: {problem}; the server does not start, because nonces would not be secure"
            ),
            Self::Query {
                url,
                doing,
                problem,
            } => {
                write!(out, "could not {doing} in the database {url}: {problem}")
            }
        }
    }
}

impl std::error::Error for StoreError {}

/// Classes of database errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Busy,
    Corrupt,
    Access,
    Disk,
    Other,
}

impl Fault {
    /// Classifies by `SQLite`'s result code (the low byte of an extended code; <https://www.sqlite.org/rescode.html>).
    fn of(error: &sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .and_then(|code| code.parse::<i32>().ok());
        match code.map(|code| code & 0xff) {
            Some(5 | 6) => Self::Busy,
            Some(11 | 26) => Self::Corrupt,
            Some(3 | 8 | 14 | 23) => Self::Access,
            Some(10 | 13) => Self::Disk,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::error::{DatabaseError, ErrorKind};
    use std::borrow::Cow;

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
            let error = said(code);
            let working = StoreError::from_database("sqlite:t.db", "work", &error);
            let opening = StoreError::from_opening("sqlite:t.db", &error);
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
        let error = StoreError::from_database("sqlite:t.db", "work", &sqlx::Error::PoolTimedOut);
        assert!(error.is_temporary());
    }

    #[test]
    fn trouble_with_the_file_during_migration_is_no_trouble_with_the_tables() {
        for (code, expected) in [(5, "busy"), (13, "open"), (26, "corrupt"), (1, "other")] {
            let error = MigrateError::ExecuteMigration(said(code), 1);
            let sorted = StoreError::from_migration("sqlite:t.db", &error);
            assert_eq!(variant(&sorted), expected, "{code}");
        }
    }
}
