//! The tables of aliases and call forwarding.

use super::changes::{record_and_commit, record_one_and_commit};
use super::{SqliteBackend, fault};
use crate::backend::{Fault, ServiceTable};
use crate::service::{Alias, Forwarding, SubscriberForwarding};
use crate::sql::{Columns, alias, forwarding, subscriber_forwarding};
use crate::subscriber::Registrations;
use async_trait::async_trait;

#[async_trait]
impl ServiceTable for SqliteBackend {
    async fn set_aliases(&self, batch: &[Alias]) -> Result<(), Fault> {
        self.upsert_aliases(batch).await.map_err(fault)
    }

    async fn remove_alias(&self, username: &str, domain: &str) -> Result<bool, Fault> {
        self.delete_alias(username, domain).await.map_err(fault)
    }

    async fn find_alias(&self, username: &str, domain: &str) -> Result<Option<String>, Fault> {
        let row = sqlx::query("SELECT subscriber FROM alias WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .fetch_optional(&self.pool)
            .await
            .map_err(fault)?;
        let text = row.map(|row| row.text(0).map(str::to_owned));
        text.transpose().map_err(fault)
    }

    async fn aliases(&self, after: (&str, &str), limit: u32) -> Result<Vec<Alias>, Fault> {
        let rows = sqlx::query(
            "SELECT username, domain, subscriber FROM alias WHERE (username, domain) > ($1, $2) ORDER BY username, domain LIMIT $3",
        )
        .bind(after.0)
        .bind(after.1)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(fault)?;
        rows.iter().map(|row| alias(row).map_err(fault)).collect()
    }

    async fn set_forwarding(
        &self,
        username: &str,
        domain: &str,
        forwarding: &Forwarding,
    ) -> Result<bool, Fault> {
        let set = self.replace_forwarding((username, domain), forwarding);
        set.await.map_err(fault)
    }

    async fn find_forwarding(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<Forwarding>, Fault> {
        let row = sqlx::query(
            "SELECT always, busy, no_answer, no_answer_seconds, not_registered FROM forwarding WHERE username = $1 AND domain = $2",
        )
        .bind(username)
        .bind(domain)
        .fetch_optional(&self.pool)
        .await
        .map_err(fault)?;
        row.map(|row| forwarding(&row, 0).map_err(fault))
            .transpose()
    }

    async fn forwardings(
        &self,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<SubscriberForwarding>, Fault> {
        let rows = sqlx::query(
            "SELECT username, domain, always, busy, no_answer, no_answer_seconds, not_registered FROM forwarding \
             WHERE (username, domain) > ($1, $2) ORDER BY username, domain LIMIT $3",
        )
        .bind(after.0)
        .bind(after.1)
        .bind(i64::from(limit))
        .fetch_all(&self.pool)
        .await
        .map_err(fault)?;
        let read = |row| subscriber_forwarding(row).map_err(fault);
        rows.iter().map(read).collect()
    }
}

impl SqliteBackend {
    async fn upsert_aliases(&self, batch: &[Alias]) -> Result<(), sqlx::Error> {
        let mut transaction = self.begin().await?;
        for alias in batch {
            sqlx::query(
                "INSERT INTO alias (username, domain, subscriber) VALUES ($1, $2, $3) \
                 ON CONFLICT (username, domain) DO UPDATE SET subscriber = excluded.subscriber",
            )
            .bind(&alias.username)
            .bind(&alias.domain)
            .bind(&alias.subscriber)
            .execute(&mut *transaction)
            .await?;
        }
        let names = batch.iter().map(|it| (&*it.username, &*it.domain));
        let names: Vec<(&str, &str)> = names.collect();
        record_and_commit(transaction, &names, Registrations::Keep).await
    }

    async fn delete_alias(&self, username: &str, domain: &str) -> Result<bool, sqlx::Error> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM alias WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await?;
        let rows = removed.rows_affected();
        record_one_and_commit(transaction, rows, (username, domain), Registrations::Keep).await
    }

    async fn replace_forwarding(
        &self,
        (username, domain): (&str, &str),
        forwarding: &Forwarding,
    ) -> Result<bool, sqlx::Error> {
        let mut transaction = self.begin().await?;
        let removed = sqlx::query("DELETE FROM forwarding WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain)
            .execute(&mut *transaction)
            .await?;
        let mut rows = removed.rows_affected();
        if !forwarding.is_empty() {
            let added = sqlx::query(
                "INSERT INTO forwarding (username, domain, always, busy, no_answer, no_answer_seconds, not_registered) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(username)
            .bind(domain)
            .bind(&forwarding.always)
            .bind(&forwarding.busy)
            .bind(&forwarding.no_answer)
            .bind(i64::from(forwarding.no_answer_seconds))
            .bind(&forwarding.not_registered)
            .execute(&mut *transaction)
            .await?;
            rows += added.rows_affected();
        }
        record_one_and_commit(transaction, rows, (username, domain), Registrations::Keep).await
    }
}
