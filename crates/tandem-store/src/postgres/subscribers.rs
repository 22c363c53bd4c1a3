//! The table of subscribers.

use super::changes::{CHANGES, Change, REGISTRATIONS_ENDED};
use super::{PostgresBackend, begin_stream, changes, fault, import};
use crate::backend::{Fault, SubscriberTable, VisitName, VisitSubscriber};
use crate::network::{WHOLE_TABLE_TIMEOUT, each_name, each_subscriber, within, within_time};
use crate::sql::credentials;
use crate::subscriber::{Existing, Imported, Registrations, StoredCredentials, Subscriber};
use async_trait::async_trait;
use sqlx::PgConnection;

#[async_trait]
impl SubscriberTable for PostgresBackend {
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
        // PostgreSQL refuses text with a zero byte, which a request may contain.
        if username.contains('\0') || domain.contains('\0') {
            return Ok(None);
        }
        let mut lease = self.lease().await?;
        let found = within(find(&mut lease, username, domain)).await;
        lease.end(found).map_err(fault)
    }

    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault> {
        let query = match domain {
            None => sqlx::query_scalar("SELECT COUNT(*) FROM subscriber"),
            Some(domain) => {
                sqlx::query_scalar("SELECT COUNT(*) FROM subscriber WHERE domain = $1").bind(domain)
            }
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
        let names = within(changes::names(&mut lease, CHANGES, after, last)).await;
        lease.end(names).map_err(fault)
    }

    async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, Fault> {
        let mut lease = self.lease().await?;
        let names = within(changes::names(&mut lease, REGISTRATIONS_ENDED, after, last)).await;
        lease.end(names).map_err(fault)
    }
}

async fn insert(
    connection: &mut PgConnection,
    subscriber: &Subscriber,
) -> Result<bool, sqlx::Error> {
    let Subscriber {
        username,
        domain,
        credentials,
    } = subscriber;
    let mut change = Change::begin(connection).await?;
    let added = sqlx::query(
        "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) VALUES ($1, $2, $3, $4) ON CONFLICT (username, domain) DO NOTHING",
    )
    .bind(username)
    .bind(domain)
    .bind(credentials.ha1_md5.as_slice())
    .bind(credentials.ha1_sha256.as_slice())
    .execute(&mut *change.transaction)
    .await?;
    let rows = added.rows_affected();
    change
        .commit_one(rows, (username, domain), Registrations::Keep)
        .await
}

async fn update(
    connection: &mut PgConnection,
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
        "UPDATE subscriber SET ha1_md5 = $1, ha1_sha256 = $2 WHERE username = $3 AND domain = $4",
    )
    .bind(credentials.ha1_md5.as_slice())
    .bind(credentials.ha1_sha256.as_slice())
    .bind(username)
    .bind(domain)
    .execute(&mut *change.transaction)
    .await?;
    if registrations == Registrations::End {
        // The operator ends them wherever they were made, so this deletes rows of every node.
        sqlx::query(
            "DELETE FROM location WHERE substring(address, 1, 255) = substring($1::bytea, 1, 255) AND address = $1",
        )
        .bind(format!("{username}@{domain}").into_bytes())
        .execute(&mut *change.transaction)
        .await?;
    }
    let rows = changed.rows_affected();
    change
        .commit_one(rows, (username, domain), registrations)
        .await
}

async fn delete(
    connection: &mut PgConnection,
    username: &str,
    domain: &str,
) -> Result<bool, sqlx::Error> {
    let mut change = Change::begin(connection).await?;
    let removed = sqlx::query("DELETE FROM subscriber WHERE username = $1 AND domain = $2")
        .bind(username)
        .bind(domain)
        .execute(&mut *change.transaction)
        .await?;
    sqlx::query("DELETE FROM forwarding WHERE username = $1 AND domain = $2")
        .bind(username)
        .bind(domain)
        .execute(&mut *change.transaction)
        .await?;
    let rows = removed.rows_affected();
    change
        .commit_one(rows, (username, domain), Registrations::Keep)
        .await
}

async fn find(
    connection: &mut PgConnection,
    username: &str,
    domain: &str,
) -> Result<Option<StoredCredentials>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT ha1_md5, ha1_sha256 FROM subscriber WHERE username = $1 AND domain = $2",
    )
    .bind(username)
    .bind(domain)
    .fetch_optional(connection)
    .await?;
    row.map(|row| credentials(&row, 0)).transpose()
}

async fn list(
    connection: &mut PgConnection,
    domain: Option<&str>,
    limit: Option<u64>,
    visit: &mut VisitName<'_>,
) -> Result<u64, sqlx::Error> {
    let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let query = match domain {
        None => sqlx::query("SELECT username, domain FROM subscriber ORDER BY username, domain LIMIT $1").bind(limit),
        Some(domain) => sqlx::query(
            "SELECT username, domain FROM subscriber WHERE domain = $2 ORDER BY username, domain LIMIT $1",
        )
        .bind(limit)
        .bind(domain),
    };
    each_name(query.fetch(connection), visit).await
}

async fn for_each(
    connection: &mut PgConnection,
    visit: &mut VisitSubscriber<'_>,
) -> Result<u64, sqlx::Error> {
    let mut transaction = begin_stream(connection).await?;
    let rows = sqlx::query("SELECT username, domain, ha1_md5, ha1_sha256 FROM subscriber")
        .fetch(&mut *transaction);
    let shown = each_subscriber(rows, visit).await?;
    within(transaction.commit()).await?;
    Ok(shown)
}
