//! The backend for PostgreSQL, version 12 or later.

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
mod turn;

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
use sqlx::postgres::{
    PgArguments, PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgQueryResult,
};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgTransaction, Postgres};
use std::sync::Arc;
pub(crate) use tables::read_rows;

/// How to write a URL.
const URL_FORM: &str =
    "postgres://USER:PASSWORD@HOST:PORT/DATABASE, with special characters of the password as %XX";
/// The parameters of a URL.
const PARAMETERS: [&str; 9] = [
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
];

/// An open database.
#[derive(Debug)]
struct PostgresBackend {
    pool: PgPool,
    options: PgConnectOptions,
    claims: Claims,
}

/// What a URL says about the connection.
///
/// # Errors
/// [`StoreError::Url`].
pub(crate) fn connect_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    check_server_url(url, &PARAMETERS, URL_FORM)?;
    let options = url.parse::<PgConnectOptions>();
    let options = options.map_err(|error| refused(url, &error.to_string(), URL_FORM))?;
    Ok(options
        .application_name(&format!("tandem, process {}", std::process::id()))
        .disable_statement_logging())
}

/// Opens the database that a `postgres:` URL names and brings its tables up to date.
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
    let pool = PgPoolOptions::new()
        .max_connections(store.connections)
        .acquire_timeout(CONNECT_TIMEOUT)
        .after_connect(move |connection, _| Box::pin(prepare(connection, store.commits)))
        .connect_lazy_with(options.clone());
    let backend = Arc::new(PostgresBackend {
        pool,
        options,
        claims: Claims::default(),
    });
    Ok(Opened { backend, created })
}

/// Opens a connection outside the pool.
async fn connect(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let mut connection = within_time(CONNECT_TIMEOUT, options.connect()).await?;
    within(prepare(&mut connection, Commits::Written)).await?;
    Ok(connection)
}

/// Bounds what a connection may wait for, and how long the server keeps the locks of a machine that is gone. Statements are planned for
/// the lengths of their arrays: a plan for any length may compare each element with each row.
async fn prepare(connection: &mut PgConnection, commits: Commits) -> Result<(), sqlx::Error> {
    let statement = WHOLE_TABLE_TIMEOUT.as_millis();
    let synced = match commits {
        // As the server is configured; nothing that was confirmed is lost when it stops, unless its administrator accepts that.
        Commits::Written => "",
        Commits::Synced => "SET synchronous_commit = on; ",
    };
    let settings = format!(
        "{synced}SET plan_cache_mode = force_custom_plan; SET lock_timeout = {LOCK_TIMEOUT_MS}; SET statement_timeout = {statement}; \
         SET idle_in_transaction_session_timeout = 30000; \
         SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
    );
    sqlx::raw_sql(AssertSqlSafe(settings))
        .execute(connection)
        .await?;
    Ok(())
}

/// Begins a transaction whose statement may take as long as its rows keep coming.
pub(crate) async fn begin_stream(
    connection: &mut PgConnection,
) -> Result<PgTransaction<'_>, sqlx::Error> {
    within(async {
        let mut transaction = connection.begin().await?;
        sqlx::query("SET LOCAL statement_timeout = 0")
            .execute(&mut *transaction)
            .await?;
        Ok(transaction)
    })
    .await
}

impl PostgresBackend {
    async fn lease(&self) -> Result<Lease<Postgres>, Fault> {
        Lease::of(&self.pool).await.map_err(fault)
    }

    /// Runs a statement that deletes rows of a node. Returns how many.
    async fn delete_as(
        &self,
        node: &NodeName,
        delete: Query<'_, Postgres, PgArguments>,
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
        Ok(PgQueryResult::rows_affected(&deleted))
    }
}

#[async_trait]
impl Backend for PostgresBackend {
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
    connection: &mut PgConnection,
    fresh: &[u8; 32],
) -> Result<Vec<u8>, sqlx::Error> {
    // If two processes start at once, one writes the secret and both read it.
    sqlx::query("INSERT INTO node_secret (id, secret) VALUES (1, $1) ON CONFLICT (id) DO NOTHING")
        .bind(fresh.as_slice())
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar("SELECT secret FROM node_secret WHERE id = 1")
        .fetch_one(connection)
        .await
}
