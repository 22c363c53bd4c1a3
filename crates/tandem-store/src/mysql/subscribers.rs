//! The table of subscribers.

use super::changes::Change;
use super::{MySqlBackend, changes, fault, import};
use crate::backend::{Fault, SubscriberTable, VisitName, VisitSubscriber};
use crate::network::{WHOLE_TABLE_TIMEOUT, within, within_time};
use crate::subscriber::{Existing, Imported, Registrations, StoredCredentials, Subscriber};
use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};

#[async_trait]
impl SubscriberTable for MySqlBackend {
    async fn add(&self, subscriber: &Subscriber) -> Result<bool, Fault> {
        let mut lease = self.lease().await?;
        let added = within(insert(&mut lease, subscriber)).await;
        lease.end(added).map_err(fault)
    }

    async fn set_password(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<bool, Fault> {
        let mut lease = self.lease().await?;
        let changed = within(update(&mut lease, subscriber, registrations)).await;
        lease.end(changed).map_err(fault)
    }

    async fn remove(&self, username: &str, domain: &str) -> Result<bool, Fault> {
        let mut lease = self.lease().await?;
        let removed = within(delete(&mut lease, username, domain)).await;
        lease.end(removed).map_err(fault)
    }

    async fn find(&self, username: &str, domain: &str) -> Result<Option<StoredCredentials>, Fault> {
        let mut lease = self.lease().await?;
        let found = within(find(&mut lease, username, domain)).await;
        lease.end(found).map_err(fault)
    }

    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault> {
        let query = match domain {
            None => sqlx::query_scalar("SELECT COUNT(*) FROM subscriber"),
            Some(domain) => sqlx::query_scalar("SELECT COUNT(*) FROM subscriber WHERE domain = ?")
                .bind(domain.as_bytes()),
        };
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
        let mut lease = self.lease().await?;
        let shown = list(&mut lease, domain, limit, visit).await;
        lease.end(shown).map_err(fault)
    }

    async fn for_each(&self, visit: &mut VisitSubscriber<'_>) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let shown = for_each(&mut lease, visit).await;
        lease.end(shown).map_err(fault)
    }

    async fn import(&self, batch: &[Subscriber], existing: Existing) -> Result<Imported, Fault> {
        let mut lease = self.lease().await?;
        let imported = within(import::import(&mut lease, batch, existing)).await;
        lease.end(imported).map_err(fault)
    }

    async fn version(&self) -> Result<u64, Fault> {
        let mut lease = self.lease().await?;
        let version = within(changes::version(&mut lease)).await;
        lease.end(version).map_err(fault)
    }

    async fn changes(&self, after: u64, last: u64) -> Result<Vec<(String, String)>, Fault> {
        let mut lease = self.lease().await?;
        let names = within(changes::names(&mut lease, after, last)).await;
        lease.end(names).map_err(fault)
    }

    async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, Fault> {
        let mut lease = self.lease().await?;
        let names = within(changes::registrations_ended(&mut lease, after, last)).await;
        lease.end(names).map_err(fault)
    }
}

async fn insert(
    connection: &mut MySqlConnection,
    subscriber: &Subscriber,
) -> Result<bool, sqlx::Error> {
    let Subscriber {
        username,
        domain,
        credentials,
    } = subscriber;
    let mut change = Change::begin(connection).await?;
    let added = sqlx::query(
        "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) VALUES (?, ?, ?, ?)",
    )
    .bind(username.as_bytes())
    .bind(domain.as_bytes())
    .bind(credentials.ha1_md5.as_slice())
    .bind(credentials.ha1_sha256.as_slice())
    .execute(&mut *change.transaction)
    .await;
    match added {
        Ok(_) => {}
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => return Ok(false),
        Err(error) => return Err(error),
    }
    change
        .commit(&[(username, domain)], Registrations::Keep)
        .await?;
    Ok(true)
}

async fn update(
    connection: &mut MySqlConnection,
    subscriber: &Subscriber,
    registrations: Registrations,
) -> Result<bool, sqlx::Error> {
    let Subscriber {
        username,
        domain,
        credentials,
    } = subscriber;
    let mut change = Change::begin(connection).await?;
    let changed = sqlx::query(
        "UPDATE subscriber SET ha1_md5 = ?, ha1_sha256 = ? WHERE username = ? AND domain = ?",
    )
    .bind(credentials.ha1_md5.as_slice())
    .bind(credentials.ha1_sha256.as_slice())
    .bind(username.as_bytes())
    .bind(domain.as_bytes())
    .execute(&mut *change.transaction)
    .await?;
    if changed.rows_affected() == 0 {
        return Ok(false);
    }
    if registrations == Registrations::End {
        // The operator ends them wherever they were made, so this deletes rows of every node.
        sqlx::query("DELETE FROM location WHERE address = ?")
            .bind(format!("{username}@{domain}").into_bytes())
            .execute(&mut *change.transaction)
            .await?;
    }
    change.commit(&[(username, domain)], registrations).await?;
    Ok(true)
}

async fn delete(
    connection: &mut MySqlConnection,
    username: &str,
    domain: &str,
) -> Result<bool, sqlx::Error> {
    let mut change = Change::begin(connection).await?;
    let removed = sqlx::query("DELETE FROM subscriber WHERE username = ? AND domain = ?")
        .bind(username.as_bytes())
        .bind(domain.as_bytes())
        .execute(&mut *change.transaction)
        .await?;
    if removed.rows_affected() == 0 {
        return Ok(false);
    }
    change
        .commit(&[(username, domain)], Registrations::Keep)
        .await?;
    Ok(true)
}

async fn find(
    connection: &mut MySqlConnection,
    username: &str,
    domain: &str,
) -> Result<Option<StoredCredentials>, sqlx::Error> {
    let row =
        sqlx::query("SELECT ha1_md5, ha1_sha256 FROM subscriber WHERE username = ? AND domain = ?")
            .bind(username.as_bytes())
            .bind(domain.as_bytes())
            .fetch_optional(connection)
            .await?;
    row.map(|row| credentials(&row, 0)).transpose()
}

async fn list(
    connection: &mut MySqlConnection,
    domain: Option<&str>,
    limit: Option<u64>,
    visit: &mut VisitName<'_>,
) -> Result<u64, sqlx::Error> {
    let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let query = match domain {
        None => sqlx::query("SELECT username, domain FROM subscriber ORDER BY username, domain LIMIT ?"),
        Some(domain) => sqlx::query(
            "SELECT username, domain FROM subscriber WHERE domain = ? ORDER BY username, domain LIMIT ?",
        )
        .bind(domain.as_bytes()),
    };
    let mut rows = query.bind(limit).fetch(connection);
    let mut shown = 0;
    while let Some(row) = within(rows.try_next()).await? {
        shown += 1;
        if visit(text(&row, 0)?, text(&row, 1)?).is_break() {
            break;
        }
    }
    Ok(shown)
}

async fn for_each(
    connection: &mut MySqlConnection,
    visit: &mut VisitSubscriber<'_>,
) -> Result<u64, sqlx::Error> {
    let mut rows = sqlx::query("SELECT username, domain, ha1_md5, ha1_sha256 FROM subscriber")
        .fetch(connection);
    let mut shown = 0;
    while let Some(row) = within(rows.try_next()).await? {
        visit(text(&row, 0)?, text(&row, 1)?, credentials(&row, 2).ok());
        shown += 1;
    }
    Ok(shown)
}

/// Reads username and domain, the first two columns.
pub(super) fn read_name(row: &MySqlRow) -> Result<(String, String), sqlx::Error> {
    Ok((text(row, 0)?.to_owned(), text(row, 1)?.to_owned()))
}

/// Text is stored as bytes.
pub(super) fn text(row: &MySqlRow, column: usize) -> Result<&str, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    std::str::from_utf8(bytes).map_err(|error| unfit(column, error))
}

/// Reads the two hashes, beginning at `column`.
fn credentials(row: &MySqlRow, column: usize) -> Result<StoredCredentials, sqlx::Error> {
    Ok(StoredCredentials {
        ha1_md5: hash(row, column)?,
        ha1_sha256: hash(row, column + 1)?,
    })
}

fn hash<const N: usize>(row: &MySqlRow, column: usize) -> Result<[u8; N], sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes.try_into().map_err(|error| unfit(column, error))
}

/// The error about a value that a column should not have.
pub(super) fn unfit(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> sqlx::Error {
    sqlx::Error::ColumnDecode {
        index: column.to_string(),
        source: Box::new(error),
    }
}
