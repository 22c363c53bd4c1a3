//! The backend for MySQL 8 and for MariaDB 10.6, or later.

mod changes;
mod columns;
mod dialogs;
mod fault;
mod import;
mod locations;
mod migrations;
mod node_lock;
mod records;
mod services;
mod subscribers;
mod tables;

use crate::backend::{Backend, Claim, Commits, Fault, IfMissing, Opened, StoreOptions};
use crate::error::StoreError;
use crate::network::{CONNECT_TIMEOUT, Claims, LOCK_TIMEOUT_MS, Lease, opening, within};
use crate::network::{WHOLE_TABLE_TIMEOUT, within_time};
use crate::node_name::NodeName;
use crate::tables::{Select, VisitRow};
use crate::url::{check_server_url, refused, shown_url};
use async_trait::async_trait;
pub(crate) use fault::fault;
use node_lock::{NodeLock, begin_as};
use sqlx::mysql::{
    MySqlArguments, MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions,
    MySqlQueryResult,
};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySql};
use std::sync::Arc;
pub(crate) use tables::read_rows;
use tracing::warn;

/// How to write a URL.
const URL_FORM: &str =
    "mysql://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password as %XX";
/// The parameters of a URL.
const PARAMETERS: [&str; 5] = ["socket", "ssl-mode", "ssl-ca", "ssl-cert", "ssl-key"];

/// An open database.
#[derive(Debug)]
struct MySqlBackend {
    pool: MySqlPool,
    options: MySqlConnectOptions,
    claims: Claims,
}

/// What a URL says about the connection.
///
/// # Errors
/// [`StoreError::Url`].
pub(crate) fn connect_options(url: &str) -> Result<MySqlConnectOptions, StoreError> {
    check_server_url(url, &PARAMETERS, URL_FORM)?;
    let options = url.parse::<MySqlConnectOptions>();
    let options = options.map_err(|error| refused(url, &error.to_string(), URL_FORM))?;
    Ok(options.disable_statement_logging())
}

/// Opens the database that a `mysql:` URL names and brings its tables up to date.
pub(crate) async fn open(
    url: &str,
    if_missing: IfMissing,
    store: StoreOptions,
) -> Result<Opened, StoreError> {
    let options = connect_options(url)?;
    let url = shown_url(url);
    let failed = |error| opening(&url, fault(error));
    // The pool would not say why it can't connect.
    let mut first = connect(&options).await.map_err(failed)?;
    let created = migrations::migrate(&url, &mut first, if_missing).await?;
    // The next connection works whether this one ends well or not.
    let _ = within(first.close()).await;
    let pool = MySqlPoolOptions::new()
        .max_connections(store.connections)
        .acquire_timeout(CONNECT_TIMEOUT)
        .after_connect(move |connection, _| Box::pin(prepare(connection, store.commits)))
        .connect_lazy_with(options.clone());
    let backend = Arc::new(MySqlBackend {
        pool,
        options,
        claims: Claims::default(),
    });
    Ok(Opened { backend, created })
}

/// Opens a connection outside the pool.
async fn connect(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let mut connection = within_time(CONNECT_TIMEOUT, options.connect()).await?;
    within(prepare(&mut connection, Commits::Written)).await?;
    Ok(connection)
}

/// After this idle time, in seconds, the server ends a connection. Otherwise a transaction whose client is gone would keep its locks for
/// hours. The pool replaces connections that have ended.
const IDLE_SECONDS: u32 = 120;

/// Bounds what a connection may wait for, and makes the server refuse values that do not fit.
///
/// A transaction sees what others have committed, as with PostgreSQL: with MySQL's default, it would lock ranges of rows that it does not
/// change, and transactions of several nodes would end each other.
async fn prepare(connection: &mut MySqlConnection, commits: Commits) -> Result<(), sqlx::Error> {
    let lock = LOCK_TIMEOUT_MS / 1000;
    let settings = format!(
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES'), innodb_lock_wait_timeout = {lock}, wait_timeout = {IDLE_SECONDS}; \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    );
    sqlx::raw_sql(AssertSqlSafe(settings))
        .execute(&mut *connection)
        .await?;
    if commits == Commits::Synced {
        warn_if_not_synced(connection).await?;
    }
    Ok(())
}

/// A session can't change when the server writes a commit to the disk.
async fn warn_if_not_synced(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let synced: i64 = sqlx::query_scalar("SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)")
        .fetch_one(connection)
        .await?;
    if synced != 1 {
        warn!(
            "location.durability is \"commit\", but the database server confirms commits before the disk has them: set \
             innodb_flush_log_at_trx_commit = 1 there"
        );
    }
    Ok(())
}

impl MySqlBackend {
    async fn lease(&self) -> Result<Lease<MySql>, Fault> {
        Lease::of(&self.pool).await.map_err(fault)
    }

    /// Runs a statement that deletes rows of a node. Returns how many.
    async fn delete_as(
        &self,
        node: &NodeName,
        delete: Query<'_, MySql, MySqlArguments>,
    ) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let deleted = within_time(WHOLE_TABLE_TIMEOUT, async {
            let mut transaction = begin_as(&mut lease, node, self.claims.fence()).await?;
            let deleted = delete.execute(&mut *transaction).await?;
            transaction.commit().await?;
            Ok(deleted)
        });
        let deleted = deleted.await;
        let deleted = lease.end(deleted).map_err(fault)?;
        Ok(MySqlQueryResult::rows_affected(&deleted))
    }
}

#[async_trait]
impl Backend for MySqlBackend {
    async fn secret(&self, fresh: &[u8; 32]) -> Result<Vec<u8>, Fault> {
        let mut lease = self.lease().await?;
        let secret = within(secret_or(&mut lease, fresh)).await;
        lease.end(secret).map_err(fault)
    }

    async fn claim(&self, node: &NodeName) -> Result<Claim, Fault> {
        let lock = NodeLock::new(self.options.clone(), node.clone());
        self.claims.acquire(lock).await
    }

    fn name_taken_by(&self) -> Option<Arc<str>> {
        self.claims.fence().taken_by()
    }

    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault> {
        read_rows(&self.pool, select, visit).await
    }

    async fn close(&self) {
        self.claims.release().await;
        self.pool.close().await;
    }
}

/// The secret, which is `fresh` if there was none.
async fn secret_or(
    connection: &mut MySqlConnection,
    fresh: &[u8; 32],
) -> Result<Vec<u8>, sqlx::Error> {
    // If two processes start at once, one writes the secret and both read it.
    sqlx::query("INSERT IGNORE INTO node_secret (id, secret) VALUES (1, ?)")
        .bind(fresh.as_slice())
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar("SELECT secret FROM node_secret WHERE id = 1")
        .fetch_one(connection)
        .await
}
