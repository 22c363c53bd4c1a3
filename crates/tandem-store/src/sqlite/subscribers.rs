//! The table of subscribers.

use super::changes::{CHANGES, REGISTRATIONS_ENDED, record_one_and_commit};
use super::{SqliteBackend, changes, fault, import};
use crate::backend::{Fault, SubscriberTable, VisitName, VisitSubscriber};
use crate::sql::{Columns, credentials};
use crate::subscriber::{Existing, Imported, Registrations, StoredCredentials, Subscriber};
use async_trait::async_trait;
use futures_util::TryStreamExt;

#[async_trait]
impl SubscriberTable for SqliteBackend {
    async fn add(&self, subscriber: &Subscriber) -> Result<bool, Fault> {
        self.insert(subscriber).await.map_err(fault)
    }

    async fn set_password(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<bool, Fault> {
        self.update(subscriber, registrations).await.map_err(fault)
    }

    async fn remove(&self, username: &str, domain: &str) -> Result<bool, Fault> {
        self.delete(username, domain).await.map_err(fault)
    }

    async fn find(&self, username: &str, domain: &str) -> Result<Option<StoredCredentials>, Fault> {
        let row = sqlx::query(
            "SELECT ha1_md5, ha1_sha256 FROM subscriber WHERE username = $1 AND domain = $2",
        )
        .bind(username)
        .bind(domain)
        .fetch_optional(&self.pool)
        .await
        .map_err(fault)?;
        row.map(|row| credentials(&row, 0).map_err(fault))
            .transpose()
    }

    async fn count_subscribers(&self, domain: Option<&str>) -> Result<u64, Fault> {
        let query = match domain {
            None => sqlx::query_scalar("SELECT COUNT(*) FROM subscriber"),
            Some(domain) => {
                sqlx::query_scalar("SELECT COUNT(*) FROM subscriber WHERE domain = $1").bind(domain)
            }
        };
        let count: Result<i64, _> = query.fetch_one(&self.pool).await;
        count.map(i64::cast_unsigned).map_err(fault)
    }

    async fn list(
        &self,
        domain: Option<&str>,
        limit: Option<u64>,
        visit: &mut VisitName<'_>,
    ) -> Result<u64, Fault> {
        let limit = limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let query = match domain {
            None => sqlx::query("SELECT username, domain FROM subscriber ORDER BY username, domain LIMIT $1").bind(limit),
            Some(domain) => sqlx::query(
                "SELECT username, domain FROM subscriber WHERE domain = $2 ORDER BY username, domain LIMIT $1",
            )
            .bind(limit)
            .bind(domain),
        };
        let mut rows = query.fetch(&self.pool);
        let mut shown = 0;
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            shown += 1;
            let username = row.text(0).map_err(fault)?;
            let domain = row.text(1).map_err(fault)?;
            if visit(username, domain).is_break() {
                break;
            }
        }
        Ok(shown)
    }

    async fn for_each(&self, visit: &mut VisitSubscriber<'_>) -> Result<u64, Fault> {
        let mut rows = sqlx::query("SELECT username, domain, ha1_md5, ha1_sha256 FROM subscriber")
            .fetch(&self.pool);
        let mut shown = 0;
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            let username = row.text(0).map_err(fault)?;
            let domain = row.text(1).map_err(fault)?;
            visit(username, domain, credentials(&row, 2).ok());
            shown += 1;
        }
        Ok(shown)
    }

    async fn import(&self, batch: &[Subscriber], existing: Existing) -> Result<Imported, Fault> {
        import::import(self, batch, existing).await.map_err(fault)
    }

    async fn version(&self) -> Result<u64, Fault> {
        changes::version(&self.pool).await.map_err(fault)
    }

    async fn changes(&self, after: u64, last: u64) -> Result<Vec<(String, String)>, Fault> {
        let names = changes::names(&self.pool, CHANGES, after, last).await;
        names.map_err(fault)
    }

    async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, Fault> {
        let names = changes::names(&self.pool, REGISTRATIONS_ENDED, after, last).await;
        names.map_err(fault)
    }
}

impl SqliteBackend {
    async fn insert(&self, subscriber: &Subscriber) -> Result<bool, sqlx::Error> {
        let Subscriber {
            username,
            domain,
            credentials,
        } = subscriber;
        let mut transaction = self.begin().await?;
        let added = sqlx::query(
            "INSERT INTO subscriber (username, domain, ha1_md5, ha1_sha256) VALUES ($1, $2, $3, $4) ON CONFLICT (username, domain) DO NOTHING",
        )
        .bind(username)
        .bind(domain)
        .bind(credentials.ha1_md5.as_slice())
        .bind(credentials.ha1_sha256.as_slice())
        .execute(&mut *transaction)
        .await?;
        let rows = added.rows_affected();
        record_one_and_commit(transaction, rows, (username, domain), Registrations::Keep).await
    }

    async fn update(
        &self,
        subscriber: &Subscriber,
        registrations: Registrations,
    ) -> Result<bool, sqlx::Error> {
        let Subscriber {
            username,
            domain,
            credentials,
        } = subscriber;
        let mut transaction = self.begin().await?;
        let changed = sqlx::query("UPDATE subscriber SET ha1_md5 = $1, ha1_sha256 = $2 WHERE username = $3 AND domain = $4")
            .bind(credentials.ha1_md5.as_slice())
            .bind(credentials.ha1_sha256.as_slice())
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await?;
        if registrations == Registrations::End {
            // The operator ends them wherever they were made, so this deletes rows of every node.
            sqlx::query("DELETE FROM location WHERE address = $1")
                .bind(format!("{username}@{domain}").into_bytes())
                .execute(&mut *transaction)
                .await?;
        }
        let rows = changed.rows_affected();
        record_one_and_commit(transaction, rows, (username, domain), registrations).await
    }

    async fn delete(&self, username: &str, domain: &str) -> Result<bool, sqlx::Error> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM subscriber WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("DELETE FROM forwarding WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await?;
        let rows = removed.rows_affected();
        record_one_and_commit(transaction, rows, (username, domain), Registrations::Keep).await
    }
}
