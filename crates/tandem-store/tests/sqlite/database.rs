//! A database file of its own for each test.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Begins and ends names.
pub const QUOTE: char = '"';

/// A directory for one database file. The contract tests use what is not about files.
pub struct Database {
    directory: TempDir,
}

impl Database {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self) -> PathBuf {
        self.beside("")
    }

    /// The file with this suffix.
    pub fn beside(&self, suffix: &str) -> PathBuf {
        self.path().join(format!("tandem.db{suffix}"))
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// Makes the database refuse a subscriber.
    pub async fn refuse(&self, username: &str) {
        let trigger = format!(
            "CREATE TRIGGER refuse BEFORE INSERT ON subscriber WHEN NEW.username = '{username}' \
             BEGIN SELECT RAISE(ABORT, 'refused by a test'); END"
        );
        self.execute(&trigger).await;
    }

    /// Writes hashes of one byte for a subscriber.
    pub async fn damage_hashes(&self, username: &str) {
        let update = format!(
            "UPDATE subscriber SET ha1_md5 = x'00', ha1_sha256 = x'00' WHERE username = '{username}'"
        );
        self.execute(&update).await;
    }

    /// Writes a source that is no address for the bindings with this `CSeq`.
    pub async fn damage_sources(&self, cseq: u32) {
        let update = format!("UPDATE location SET source = 'nowhere' WHERE cseq = {cseq}");
        self.execute(&update).await;
    }

    /// As [`Database::execute`].
    pub async fn run(&self, sql: &str) {
        self.execute(sql).await;
    }

    /// Runs SQL without the store.
    pub async fn execute(&self, sql: &str) {
        let mut connection = self.options().connect().await.expect("connects");
        sqlx::query(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .expect("executes");
        connection.close().await.expect("closes");
    }

    pub async fn tables(&self) -> Vec<String> {
        let mut connection = self.options().connect().await.expect("connects");
        sqlx::query_scalar("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            .fetch_all(&mut connection)
            .await
            .expect("reads")
    }

    pub fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(self.file())
            .create_if_missing(true)
    }
}
