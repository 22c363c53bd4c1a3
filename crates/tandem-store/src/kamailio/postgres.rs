//! Kamailio's tables in PostgreSQL.

use super::columns::{Column, Times, check_tables};
use super::reader::{
    AddressRow, GRANT, LocationRow, Reader, SUBSCRIBER_COLUMNS, SubscriberRow, VisitAddressRow,
    VisitLocationRow, VisitSubscriberRow,
};
use super::time_zone::{self, TimeZone};
use crate::backend::{Fault, StoreOptions, VisitName};
use crate::error::StoreError;
use crate::network::{CONNECT_TIMEOUT, Lease, WHOLE_TABLE_TIMEOUT, opening, within, within_time};
use crate::postgres;
use crate::tables::{Select, VisitRow};
use crate::url::shown_url;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Postgres, Row};

/// Once a session can't write, nothing that this process sends can change that database by mistake.
const SESSION: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SET statement_timeout = 120000; SET lock_timeout = 10000; \
     SET idle_in_transaction_session_timeout = 30000; \
     SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

#[derive(Debug)]
pub(super) struct PostgresReader {
    pool: PgPool,
    times: Times,
}

/// Connects to the server, and looks at the tables.
pub(super) async fn open(
    url: &str,
    zone: &TimeZone,
    store: StoreOptions,
) -> Result<PostgresReader, StoreError> {
    let options = postgres::connect_options(url)?;
    let url = shown_url(url);
    let failed = |error| opening(&url, fault(error));
    // The pool would not say why it can't connect.
    let mut first = connect(&options).await.map_err(failed)?;
    let columns = within(columns(&mut first)).await.map_err(failed)?;
    check_tables(&url, &columns)?;
    let probe = zone.postgres("TIMESTAMP '2026-01-01 00:00:00'");
    let known = within(sqlx::query(AssertSqlSafe(format!("SELECT {probe}"))).execute(&mut first));
    known
        .await
        .map_err(|error| match error.as_database_error() {
            // Invalid parameter value, invalid interval.
            Some(said) if matches!(said.code().as_deref(), Some("22023" | "22007")) => {
                time_zone::unknown(&url, said.message())
            }
            _ => failed(error),
        })?;
    let reader = PostgresReader {
        times: Times::new(&columns, "BIGINT", |column| zone.postgres(column)),
        pool: PgPoolOptions::new()
            .max_connections(store.connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .after_connect(|connection, _| Box::pin(prepare(connection)))
            .connect_lazy_with(options),
    };
    let _ = within(first.close()).await;
    Ok(reader)
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, sqlx::Error> {
    let mut connection = within_time(CONNECT_TIMEOUT, options.connect()).await?;
    within(prepare(&mut connection)).await?;
    Ok(connection)
}

async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(SESSION).execute(connection).await?;
    Ok(())
}

/// The columns of the tables that the user may read.
async fn columns(connection: &mut PgConnection) -> Result<Vec<Column>, sqlx::Error> {
    let rows: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns \
         WHERE table_schema = ANY (current_schemas(false)) AND table_name IN ('subscriber', 'location')",
    )
    .fetch_all(connection)
    .await?;
    let column = |(table, name, kind)| Column { table, name, kind };
    Ok(rows.into_iter().map(column).collect())
}

fn fault(error: sqlx::Error) -> Fault {
    match error.as_database_error() {
        Some(said) if said.code().as_deref() == Some("42501") => Fault::Refused {
            problem: said.message().to_owned(),
            remedy: GRANT,
        },
        _ => postgres::fault(error),
    }
}

impl PostgresReader {
    async fn lease(&self) -> Result<Lease<Postgres>, Fault> {
        Lease::of(&self.pool).await.map_err(fault)
    }

    /// Streams the rows of a statement that may read a whole table.
    async fn stream(
        &self,
        statement: String,
        mut take: impl FnMut(&PgRow) -> Result<(), sqlx::Error> + Send,
    ) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let done = async {
            let mut transaction = postgres::begin_stream(&mut lease).await?;
            let mut rows = sqlx::query(AssertSqlSafe(statement)).fetch(&mut *transaction);
            while let Some(row) = within_time(WHOLE_TABLE_TIMEOUT, rows.try_next()).await? {
                take(&row)?;
            }
            drop(rows);
            within(transaction.commit()).await
        };
        let done = done.await;
        lease.end(done).map_err(fault)
    }
}

#[async_trait]
impl Reader for PostgresReader {
    async fn ping(&self) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let done = within(sqlx::query("SELECT 1").execute(&mut *lease)).await;
        lease.end(done).map(drop).map_err(fault)
    }

    async fn find(&self, username: &str, visit: &mut VisitSubscriberRow<'_>) -> Result<(), Fault> {
        // PostgreSQL refuses text with a zero byte, which a request may contain.
        if username.contains('\0') {
            return Ok(());
        }
        let statement =
            format!("SELECT {SUBSCRIBER_COLUMNS} FROM subscriber WHERE username = $1 ORDER BY id");
        let mut lease = self.lease().await?;
        let query = sqlx::query(AssertSqlSafe(statement)).bind(username);
        let rows = within(query.fetch_all(&mut *lease)).await;
        for row in lease.end(rows).map_err(fault)? {
            visit(&subscriber(&row).map_err(fault)?);
        }
        Ok(())
    }

    async fn subscribers(&self, visit: &mut VisitSubscriberRow<'_>) -> Result<(), Fault> {
        let statement = format!("SELECT {SUBSCRIBER_COLUMNS} FROM subscriber ORDER BY id");
        self.stream(statement, |row| {
            visit(&subscriber(row)?);
            Ok(())
        })
        .await
    }

    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault> {
        let query = sqlx::query_scalar(
            "SELECT COUNT(*) FROM subscriber WHERE $1::text IS NULL OR lower(domain) = $1",
        )
        .bind(domain);
        let mut lease = self.lease().await?;
        let count = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        lease.end(count).map(i64::cast_unsigned).map_err(fault)
    }

    async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        visit: &mut VisitName<'_>,
    ) -> Result<u64, Fault> {
        let query = sqlx::query(
            "SELECT username, domain FROM subscriber WHERE $1::text IS NULL OR lower(domain) = $1 \
             ORDER BY username, domain LIMIT $2",
        )
        .bind(domain)
        .bind(limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut lease = self.lease().await?;
        let shown = async {
            let mut rows = query.fetch(&mut *lease);
            let mut shown = 0;
            while let Some(row) = within(rows.try_next()).await? {
                shown += 1;
                if visit(row.try_get(0)?, row.try_get(1)?).is_break() {
                    break;
                }
            }
            Ok(shown)
        };
        let shown = shown.await;
        lease.end(shown).map_err(fault)
    }

    async fn locations(&self, now: u32, visit: &mut VisitLocationRow<'_>) -> Result<(), Fault> {
        let expires = &self.times.expires;
        let is_live = time_zone::is_live(expires, now);
        let statement = format!(
            "SELECT COALESCE(username, ''), COALESCE(domain, ''), COALESCE(contact, ''), COALESCE(received, ''), COALESCE(path, ''), \
             {expires}, CAST(q AS DOUBLE PRECISION), COALESCE(callid, ''), CAST(cseq AS BIGINT), COALESCE(user_agent, ''), \
             COALESCE(socket, ''), COALESCE(instance, ''), CAST(reg_id AS BIGINT) FROM location WHERE {is_live}"
        );
        self.stream(statement, |row| {
            visit(&location(row)?);
            Ok(())
        })
        .await
    }

    async fn location_times(&self) -> Result<(u64, i64), Fault> {
        let changed = &self.times.last_modified;
        let statement = format!("SELECT COUNT(*), COALESCE(MAX({changed}), 0) FROM location");
        let query = sqlx::query_as::<_, (i64, i64)>(AssertSqlSafe(statement));
        let mut lease = self.lease().await?;
        let found = within_time(WHOLE_TABLE_TIMEOUT, query.fetch_one(&mut *lease)).await;
        let (rows, newest) = lease.end(found).map_err(fault)?;
        Ok((rows.cast_unsigned(), newest))
    }

    async fn addresses(&self, group: u32, visit: &mut VisitAddressRow<'_>) -> Result<(), Fault> {
        let statement = format!(
            "SELECT ip_addr, CAST(mask AS BIGINT), CAST(port AS BIGINT) FROM address WHERE grp = {group} ORDER BY id"
        );
        self.stream(statement, |row| {
            visit(&AddressRow {
                address: row.try_get(0)?,
                mask: row.try_get(1)?,
                port: row.try_get(2)?,
            });
            Ok(())
        })
        .await
    }

    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault> {
        postgres::read_rows(&self.pool, select, visit).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

fn subscriber(row: &PgRow) -> Result<SubscriberRow<'_>, sqlx::Error> {
    Ok(SubscriberRow {
        username: row.try_get(0)?,
        domain: row.try_get(1)?,
        password: row.try_get(2)?,
        ha1: row.try_get(3)?,
    })
}

fn location(row: &PgRow) -> Result<LocationRow<'_>, sqlx::Error> {
    Ok(LocationRow {
        username: row.try_get(0)?,
        domain: row.try_get(1)?,
        contact: row.try_get(2)?,
        received: row.try_get(3)?,
        path: row.try_get(4)?,
        expires: row.try_get(5)?,
        q: row.try_get(6)?,
        call_id: row.try_get(7)?,
        cseq: row.try_get(8)?,
        user_agent: row.try_get(9)?,
        socket: row.try_get(10)?,
        instance: row.try_get(11)?,
        reg_id: row.try_get(12)?,
    })
}
