//! Kamailio's tables in MySQL or MariaDB.

use super::columns::{Column, Times, check_tables};
use super::reader::{
    AddressRow, GRANT, LocationRow, Reader, SUBSCRIBER_COLUMNS, SubscriberRow, VisitAddressRow,
    VisitLocationRow, VisitSubscriberRow,
};
use super::time_zone::{self, TimeZone};
use crate::backend::{Fault, StoreOptions, VisitName};
use crate::error::StoreError;
use crate::mysql;
use crate::network::{CONNECT_TIMEOUT, Lease, WHOLE_TABLE_TIMEOUT, opening, within, within_time};
use crate::tables::{Select, VisitRow};
use crate::url::shown_url;
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::{
    MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlPool, MySqlPoolOptions, MySqlRow,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, MySql, QueryBuilder, Row};

/// Once a session can't write, nothing that this process sends can change that database by mistake. Text is compared and sent as UTF-8,
/// whatever the character set of a table.
const SESSION: &str = "SET SESSION innodb_lock_wait_timeout = 10, wait_timeout = 120; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
     SET SESSION TRANSACTION READ ONLY";

#[derive(Debug)]
pub(super) struct MySqlReader {
    pool: MySqlPool,
    times: Times,
    /// Names may contain any character.
    is_unicode: bool,
}

/// Connects to the server, and looks at the tables.
pub(super) async fn open(
    url: &str,
    zone: &TimeZone,
    store: StoreOptions,
) -> Result<MySqlReader, StoreError> {
    let options = mysql::connect_options(url)?;
    let url = shown_url(url);
    let failed = |error| opening(&url, fault(error));
    // The pool would not say why it can't connect.
    let mut first = connect(&options).await.map_err(failed)?;
    let columns = within(columns(&mut first)).await.map_err(failed)?;
    check_tables(&url, &columns)?;
    let probe = format!("SELECT {}", zone.mysql("'2026-01-01 00:00:00'"));
    let known = sqlx::query_scalar::<_, Option<i64>>(AssertSqlSafe(probe)).fetch_one(&mut first);
    if within(known).await.map_err(failed)?.is_none() {
        let problem =
            "the server does not know it (names need its tables of time zones; offsets do not)";
        return Err(time_zone::unknown(&url, problem));
    }
    let times = Times::new(&columns, "SIGNED", |column| zone.mysql(column));
    let is_unicode = columns
        .iter()
        .any(|column| column.is("subscriber", "username") && column.kind.contains("utf8"));
    let reader = MySqlReader {
        times,
        is_unicode,
        pool: MySqlPoolOptions::new()
            .max_connections(store.connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .after_connect(|connection, _| Box::pin(prepare(connection)))
            .connect_lazy_with(options),
    };
    let _ = within(first.close()).await;
    Ok(reader)
}

async fn connect(options: &MySqlConnectOptions) -> Result<MySqlConnection, sqlx::Error> {
    let mut connection = within_time(CONNECT_TIMEOUT, options.connect()).await?;
    within(prepare(&mut connection)).await?;
    Ok(connection)
}

async fn prepare(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(SESSION).execute(connection).await?;
    Ok(())
}

/// The columns of the tables that the user may read. The type is followed by the character set.
async fn columns(connection: &mut MySqlConnection) -> Result<Vec<Column>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT CAST(table_name AS CHAR), CAST(column_name AS CHAR), \
         CAST(CONCAT(data_type, ' ', COALESCE(character_set_name, '')) AS CHAR) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name IN ('subscriber', 'location')",
    )
    .fetch_all(connection)
    .await?;
    let column = |row: &MySqlRow| {
        Ok(Column {
            table: text(row, 0)?.to_ascii_lowercase(),
            name: text(row, 1)?.to_ascii_lowercase(),
            kind: text(row, 2)?.to_ascii_lowercase(),
        })
    };
    rows.iter().map(column).collect()
}

fn fault(error: sqlx::Error) -> Fault {
    match error.as_database_error() {
        // SQLSTATE 42000 is a class of many errors; these are a table and a column that the user may not read.
        Some(said)
            if said
                .try_downcast_ref::<MySqlDatabaseError>()
                .is_some_and(|said| matches!(said.number(), 1142 | 1143)) =>
        {
            Fault::Refused {
                problem: said.message().to_owned(),
                remedy: GRANT,
            }
        }
        _ => mysql::fault(error),
    }
}

impl MySqlReader {
    async fn lease(&self) -> Result<Lease<MySql>, Fault> {
        Lease::of(&self.pool).await.map_err(fault)
    }

    /// Streams the rows of a statement that may read a whole table.
    async fn stream(
        &self,
        statement: String,
        mut take: impl FnMut(&MySqlRow) -> Result<(), sqlx::Error> + Send,
    ) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let done = async {
            let mut rows = sqlx::query(AssertSqlSafe(statement)).fetch(&mut *lease);
            while let Some(row) = within_time(WHOLE_TABLE_TIMEOUT, rows.try_next()).await? {
                take(&row)?;
            }
            Ok(())
        };
        let done = done.await;
        lease.end(done).map_err(fault)
    }
}

#[async_trait]
impl Reader for MySqlReader {
    async fn ping(&self) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let done = within(sqlx::query("SELECT 1").execute(&mut *lease)).await;
        lease.end(done).map(drop).map_err(fault)
    }

    async fn find(&self, username: &str, visit: &mut VisitSubscriberRow<'_>) -> Result<(), Fault> {
        // The server would convert the column instead of the name, and read the whole table.
        if !self.is_unicode && !username.is_ascii() {
            return Ok(());
        }
        let statement =
            format!("SELECT {SUBSCRIBER_COLUMNS} FROM subscriber WHERE username = ? ORDER BY id");
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
        let mut query = QueryBuilder::<MySql>::new("SELECT COUNT(*) FROM subscriber");
        of_domain(&mut query, domain);
        let query = query.build_query_scalar();
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
        let mut query = QueryBuilder::<MySql>::new("SELECT username, domain FROM subscriber");
        of_domain(&mut query, domain);
        query.push(" ORDER BY username, domain LIMIT ");
        query.push_bind(limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX)));
        let query = query.build();
        let mut lease = self.lease().await?;
        let shown = async {
            let mut rows = query.fetch(&mut *lease);
            let mut shown = 0;
            while let Some(row) = within(rows.try_next()).await? {
                shown += 1;
                if visit(text(&row, 0)?, text(&row, 1)?).is_break() {
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
             {expires}, q + 0e0, COALESCE(callid, ''), CAST(cseq AS SIGNED), COALESCE(user_agent, ''), \
             COALESCE(socket, ''), COALESCE(instance, ''), CAST(reg_id AS SIGNED) FROM location WHERE {is_live}"
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
            "SELECT ip_addr, CAST(mask AS SIGNED), CAST(port AS SIGNED) FROM address WHERE grp = {group} ORDER BY id"
        );
        self.stream(statement, |row| {
            visit(&AddressRow {
                address: text(row, 0)?,
                mask: row.try_get(1)?,
                port: row.try_get(2)?,
            });
            Ok(())
        })
        .await
    }

    async fn rows(&self, select: &Select<'_>, visit: &mut VisitRow<'_>) -> Result<u64, Fault> {
        mysql::read_rows(&self.pool, select, visit).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// Restricts a statement to a domain.
fn of_domain(query: &mut QueryBuilder<MySql>, domain: Option<&str>) {
    if let Some(domain) = domain {
        query
            .push(" WHERE LOWER(domain) = ")
            .push_bind(domain.to_owned());
    }
}

/// A text; empty if its bytes are none, which only a binary column can contain.
fn text(row: &MySqlRow, column: usize) -> Result<&str, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(std::str::from_utf8(bytes).unwrap_or_default())
}

fn subscriber(row: &MySqlRow) -> Result<SubscriberRow<'_>, sqlx::Error> {
    Ok(SubscriberRow {
        username: text(row, 0)?,
        domain: text(row, 1)?,
        password: text(row, 2)?,
        ha1: text(row, 3)?,
    })
}

fn location(row: &MySqlRow) -> Result<LocationRow<'_>, sqlx::Error> {
    Ok(LocationRow {
        username: text(row, 0)?,
        domain: text(row, 1)?,
        contact: text(row, 2)?,
        received: text(row, 3)?,
        path: text(row, 4)?,
        expires: row.try_get(5)?,
        q: row.try_get(6)?,
        call_id: text(row, 7)?,
        cseq: row.try_get(8)?,
        user_agent: text(row, 9)?,
        socket: text(row, 10)?,
        instance: text(row, 11)?,
        reg_id: row.try_get(12)?,
    })
}
