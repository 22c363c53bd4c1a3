//! The one place that knows which database is behind the store: URL, connection options, migrations.

use crate::StoreError;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqlSafeStr, SqlitePool};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a statement waits for a lock that another connection or process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// `SQLite` has one writer at a time. The other connections read while it writes.
const CONNECTIONS: u32 = 4;
/// Rows that a connection reads ahead, so that streaming a million rows does not switch threads for each. By measurement, thousands take
/// twice as long as hundreds, because they no longer fit into the processor's cache.
const READ_AHEAD_ROWS: usize = 256;
/// Page cache of each connection, in KiB.
const PAGE_CACHE_KIB: &str = "-8192";
/// Pages in the write-ahead log before a checkpoint. A page that several transactions change is then written to the file only once.
const LOG_PAGES: &str = "8192";
/// The write-ahead log is truncated to this size after a burst, in bytes.
const LOG_SIZE_LIMIT: &str = "67108864";

/// All migrations, from version 1 on: description and SQL. Never change a released one.
const MIGRATIONS: [(&str, &str); 2] = [
    (
        "subscribers and locations",
        include_str!("../migrations/sqlite/0001_subscribers_and_locations.sql"),
    ),
    (
        "ended registrations",
        include_str!("../migrations/sqlite/0002_ended_registrations.sql"),
    ),
];

/// Whether to create a database that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfMissing {
    Create,
    Fail,
}

/// What a committed change survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commits {
    /// Any end of the process. The operating system writes the data to the disk later. If the machine stops before, the last seconds may be
    /// lost, but the database stays sound.
    Written,
    /// The end of the machine, too: a commit waits until the disk confirms it.
    Synced,
}

/// An open pool with all tables up to date.
pub(crate) struct Opened {
    pub pool: SqlitePool,
    /// The database did not exist before.
    pub created: bool,
}

/// Opens the database that the URL names and brings its tables up to date.
pub(crate) async fn open(
    url: &str,
    if_missing: IfMissing,
    commits: Commits,
) -> Result<Opened, StoreError> {
    let path = path_of(url)?;
    let created = prepare_file(url, &path, if_missing)?;
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(false)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match commits {
            Commits::Written => SqliteSynchronous::Normal,
            Commits::Synced => SqliteSynchronous::Full,
        })
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(READ_AHEAD_ROWS)
        .pragma("cache_size", PAGE_CACHE_KIB)
        .pragma("wal_autocheckpoint", LOG_PAGES)
        .pragma("journal_size_limit", LOG_SIZE_LIMIT);
    let pool = SqlitePoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(BUSY_TIMEOUT)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_lazy_with(options);
    migrate(url, &pool).await?;
    Ok(Opened { pool, created })
}

/// The file that a `sqlite:` URL names. `sqlite:a.db` and `sqlite://a.db` are relative to the working directory; `sqlite:/a.db` and
/// `sqlite:///a.db` are absolute.
fn path_of(url: &str) -> Result<PathBuf, StoreError> {
    let refused = |shown: &str, problem: &str| StoreError::Url {
        url: shown.to_owned(),
        problem: problem.to_owned(),
    };
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(refused(url, "it has no scheme"));
    };
    if !scheme.eq_ignore_ascii_case("sqlite") {
        // The rest may contain a password, so the error must not repeat it.
        let shown = format!("{scheme}:…");
        return Err(refused(&shown, "this version supports only SQLite"));
    }
    let file = rest.strip_prefix("//").unwrap_or(rest);
    if file.is_empty() {
        return Err(refused(url, "it names no file"));
    }
    if file.starts_with(':') {
        return Err(refused(
            url,
            "an in-memory database would lose all data when the program ends",
        ));
    }
    if file.contains(['?', '#', '\0']) {
        return Err(refused(url, "parameters are not supported"));
    }
    Ok(PathBuf::from(file))
}

/// Makes sure that a writable file exists, and returns whether it was created now. Only its owner may read a new file: for digest, an HA1
/// is as good as the password.
fn prepare_file(url: &str, path: &Path, if_missing: IfMissing) -> Result<bool, StoreError> {
    let refused = |problem: String| StoreError::Open {
        url: url.to_owned(),
        problem,
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.is_dir() {
        return Err(refused(format!(
            "no such directory: {}",
            directory.display()
        )));
    }
    if path.is_dir() {
        return Err(refused(format!("{} is a directory", path.display())));
    }
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true);
    match options.open(path) {
        Ok(file) => {
            // A creation that was interrupted leaves an empty file.
            let empty = file.metadata().is_ok_and(|data| data.len() == 0);
            return Ok(empty);
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(refused(format!("{}: {error}", path.display())));
        }
        Err(_) if if_missing == IfMissing::Fail => {
            return Err(StoreError::NoDatabase {
                url: url.to_owned(),
                problem: format!("no file {} in {}", path.display(), working_directory()),
            });
        }
        Err(_) => {}
    }
    options.create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(true),
        // Another process has just created it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(refused(format!(
            "{} cannot be created: {error}",
            path.display()
        ))),
    }
}

fn working_directory() -> String {
    std::env::current_dir().map_or_else(
        |_| "the working directory".to_owned(),
        |path| path.display().to_string(),
    )
}

/// Creates or updates the tables in one transaction. Only one process does this at a time.
async fn migrate(url: &str, pool: &SqlitePool) -> Result<(), StoreError> {
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
    let opening = |error: sqlx::Error| StoreError::from_opening(url, &error);
    let mut transaction = pool.begin_with("BEGIN IMMEDIATE").await.map_err(opening)?;
    // `run` does the same, but makes this future `!Send`.
    migrations()
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(|error| StoreError::from_migration(url, &error))?;
    transaction.commit().await.map_err(opening)
}

/// Not `sqlx::migrate!`: it would build the database driver a second time, for the compiler.
fn migrations() -> Migrator {
    let migrations = MIGRATIONS.iter().zip(1..);
    let migration = |(&(description, sql), version): (&(&'static str, &'static str), i64)| {
        let kind = MigrationType::Simple;
        Migration::new(version, description.into(), kind, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(migrations.map(migration).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_beside_the_working_directory_or_from_the_root() {
        for (url, path) in [
            ("sqlite:tandem.db", "tandem.db"),
            ("sqlite://tandem.db", "tandem.db"),
            ("SQLITE:data/tandem.db", "data/tandem.db"),
            ("sqlite:/var/lib/tandem.db", "/var/lib/tandem.db"),
            ("sqlite:///var/lib/tandem.db", "/var/lib/tandem.db"),
        ] {
            assert_eq!(path_of(url).expect(url), PathBuf::from(path), "{url}");
        }
    }

    #[test]
    fn a_bad_url_is_refused_with_the_reason_and_the_right_form() {
        for (url, reason) in [
            ("tandem.db", "no scheme"),
            ("sqlite:", "names no file"),
            ("sqlite://", "names no file"),
            ("sqlite::memory:", "in-memory"),
            ("sqlite:a.db?mode=ro", "parameters are not"),
            ("postgres://u:secret@h/db", "only SQLite"),
        ] {
            let message = path_of(url).expect_err(url).to_string();
            assert!(message.contains(reason), "{url}: {message}");
            assert!(message.contains("sqlite:tandem.db"), "{url}: {message}");
        }
    }

    #[test]
    fn a_password_in_a_url_is_not_repeated() {
        let message = path_of("mysql://tandem:secret@db/tandem")
            .expect_err("refused")
            .to_string();
        assert!(!message.contains("secret"), "{message}");
    }
}
