//! The open store: one small pool of connections per process, for any number of workers.

use crate::database::{self, Commits, IfMissing, Opened};
use crate::{Locations, StoreError, Subscribers};
use sqlx::{Sqlite, SqlitePool, Transaction};
use std::sync::Arc;

/// An open database with all tables up to date. Clones share the pool.
#[derive(Clone, Debug)]
pub struct Store {
    pool: SqlitePool,
    url: Arc<str>,
    created: bool,
}

impl Store {
    /// Opens the database that `url` names (`sqlite:FILE`, relative to the working directory), creates it if it does not exist, and brings
    /// its tables up to date.
    ///
    /// # Errors
    /// [`StoreError::Url`], [`StoreError::Open`], [`StoreError::Corrupt`], [`StoreError::Schema`], or [`StoreError::Busy`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, IfMissing::Create, Commits::Written).await
    }

    /// Like [`Store::open`], with a choice of what a commit must survive.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_committing(url: &str, commits: Commits) -> Result<Self, StoreError> {
        Self::open_with(url, IfMissing::Create, commits).await
    }

    /// Like [`Store::open`], but fails if the database does not exist. It is for commands that make no sense on an empty database.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::NoDatabase`].
    pub async fn open_existing(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, IfMissing::Fail, Commits::Written).await
    }

    async fn open_with(
        url: &str,
        if_missing: IfMissing,
        commits: Commits,
    ) -> Result<Self, StoreError> {
        let Opened { pool, created } = database::open(url, if_missing, commits).await?;
        Ok(Self {
            pool,
            url: url.into(),
            created,
        })
    }

    /// Whether [`Store::open`] created the database.
    pub fn created(&self) -> bool {
        self.created
    }

    /// The URL it was opened with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The subscribers: who may register and call.
    pub fn subscribers(&self) -> Subscribers<'_> {
        Subscribers::new(self)
    }

    /// The saved bindings.
    pub fn locations(&self) -> Locations<'_> {
        Locations::new(self)
    }

    /// 32 random bytes for nonces and Record-Route cookies, which must survive a restart. They are drawn at the first start and never
    /// change.
    ///
    /// # Errors
    /// [`StoreError::Random`], or any error of the database.
    pub async fn secret(&self) -> Result<[u8; 32], StoreError> {
        let mut fresh = [0_u8; 32];
        getrandom::fill(&mut fresh).map_err(|error| StoreError::Random {
            problem: error.to_string(),
        })?;
        let failed = |error| self.failed("read the node's secret", &error);
        // If two processes start at once, one writes the secret and both read it.
        let mut transaction = self.begin("read the node's secret").await?;
        sqlx::query(
            "INSERT INTO node_secret (id, secret) VALUES (1, $1) ON CONFLICT (id) DO NOTHING",
        )
        .bind(fresh.as_slice())
        .execute(&mut *transaction)
        .await
        .map_err(failed)?;
        let secret: Vec<u8> = sqlx::query_scalar("SELECT secret FROM node_secret WHERE id = 1")
            .fetch_one(&mut *transaction)
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        secret.try_into().map_err(|odd: Vec<u8>| StoreError::Query {
            url: self.url.to_string(),
            doing: "read the node's secret",
            problem: format!(
                "{} bytes instead of 32; delete the row of node_secret to create a new one",
                odd.len()
            ),
        })
    }

    /// Waits for running operations and closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// Begins a transaction that writes. It takes the write lock at once, because a transaction that begins with a read cannot wait for the
    /// lock later.
    pub(crate) async fn begin(
        &self,
        doing: &'static str,
    ) -> Result<Transaction<'static, Sqlite>, StoreError> {
        self.pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(|error| self.failed(doing, &error))
    }

    pub(crate) fn failed(&self, doing: &'static str, error: &sqlx::Error) -> StoreError {
        StoreError::from_database(&self.url, doing, error)
    }
}
