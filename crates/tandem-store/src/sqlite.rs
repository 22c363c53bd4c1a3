//! The backend for `SQLite`: one file, with one writer at a time.

mod changes;
mod columns;
mod dialogs;
mod fault;
mod file;
mod import;
mod locations;
mod migrations;
mod node_lock;
mod records;
mod services;
mod subscribers;
mod tables;

pub(crate) use file::path_of;

use crate::backend::{Backend, Claim, Commits, Fault, IfMissing, Opened, StoreOptions};
use crate::error::StoreError;
use crate::node_name::NodeName;
use crate::tables::{Select, VisitRow};
use async_trait::async_trait;
use fault::fault;
use node_lock::NodeLocks;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, Sqlite, SqlitePool, Transaction};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a statement waits for a lock that another connection or process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Rows that a connection reads ahead, so that streaming a million rows does not switch threads for each. By measurement, thousands take
/// twice as long as hundreds, because they no longer fit into the processor's cache.
const READ_AHEAD_ROWS: usize = 256;
/// Page cache of each connection, in KiB.
const PAGE_CACHE_KIB: &str = "-2048";
/// Pages in the write-ahead log before a checkpoint. A page that several transactions change is then written to the file only once.
const LOG_PAGES: &str = "8192";
/// The write-ahead log is truncated to this size after a burst, in bytes.
const LOG_SIZE_LIMIT: &str = "67108864";

/// An open database.
#[derive(Debug)]
struct SqliteBackend {
    pool: SqlitePool,
    file: PathBuf,
    locks: NodeLocks,
}

/// Opens the database that a `sqlite:` URL names and brings its tables up to date.
pub(crate) async fn open(
    url: &str,
    if_missing: IfMissing,
    store: StoreOptions,
) -> Result<Opened, StoreError> {
    let file = path_of(url)?;
    let created = file::prepare(url, &file, if_missing)?;
    let pool = SqlitePoolOptions::new()
        .max_connections(store.connections)
        .acquire_timeout(BUSY_TIMEOUT)
        .max_lifetime(None)
        .test_before_acquire(false)
        // After an I/O error, `SQLite` rolls a transaction back by itself, and the driver takes the connection for one in a transaction for
        // ever.
        .before_acquire(|connection, _| {
            let is_usable = !connection.is_in_transaction();
            Box::pin(async move { Ok(is_usable) })
        })
        .connect_lazy_with(match if_missing {
            IfMissing::FailAndLeave => for_reading(&file),
            IfMissing::Create | IfMissing::Fail => options(&file, store.commits),
        });
    if if_missing != IfMissing::FailAndLeave {
        migrations::migrate(url, &pool).await?;
    }
    let backend = Arc::new(SqliteBackend {
        pool,
        file,
        locks: NodeLocks::default(),
    });
    Ok(Opened { backend, created })
}

/// A connection that changes nothing, not even the mode of the log.
fn for_reading(file: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .read_only(true)
        .busy_timeout(BUSY_TIMEOUT)
        .row_buffer_size(READ_AHEAD_ROWS)
}

fn options(file: &Path, commits: Commits) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(file)
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
        .pragma("journal_size_limit", LOG_SIZE_LIMIT)
}

impl SqliteBackend {
    /// Begins a transaction that writes. It takes the write lock at once, because a transaction that begins with a read cannot wait for the
    /// lock later.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
        self.pool.begin_with("BEGIN IMMEDIATE").await
    }

    /// The secret, which is `fresh` if there was none.
    async fn secret_or(&self, fresh: &[u8; 32]) -> Result<Vec<u8>, sqlx::Error> {
        // If two processes start at once, one writes the secret and both read it.
        let mut transaction = self.begin().await?;
        sqlx::query(
            "INSERT INTO node_secret (id, secret) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
        )
        .bind(fresh.as_slice())
        .execute(&mut *transaction)
        .await?;
        let secret = sqlx::query_scalar("SELECT secret FROM node_secret WHERE id = 1")
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(secret)
    }
}

#[async_trait]
impl Backend for SqliteBackend {
    async fn secret(&self, fresh: &[u8; 32]) -> Result<Vec<u8>, Fault> {
        self.secret_or(fresh).await.map_err(fault)
    }

    async fn claim(&self, node: &NodeName) -> Result<Claim, Fault> {
        self.locks.acquire(&self.file, node)
    }

    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault> {
        tables::read_rows(&self.pool, select, visit).await
    }

    async fn close(&self) {
        self.pool.close().await;
        self.locks.release();
    }
}
