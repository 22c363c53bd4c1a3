//! The tables of aliases and call forwarding.

use super::changes::Change;
use super::{PostgresBackend, fault};
use crate::backend::{Fault, ServiceTable};
use crate::network::within;
use crate::service::{Alias, Forwarding, SubscriberForwarding};
use crate::sql::{Columns, alias, forwarding, subscriber_forwarding};
use crate::subscriber::Registrations;
use async_trait::async_trait;
use sqlx::PgConnection;

#[async_trait]
impl ServiceTable for PostgresBackend {
    async fn set_aliases(&self, batch: &[Alias]) -> Result<(), Fault> {
        let mut lease = self.lease().await?;
        let set = within(upsert_aliases(&mut lease, batch)).await;
        lease.end(set).map_err(fault)
    }

    async fn remove_alias(&self, username: &str, domain: &str) -> Result<bool, Fault> {
        let mut lease = self.lease().await?;
        let removed = within(delete_alias(&mut lease, username, domain)).await;
        lease.end(removed).map_err(fault)
    }

    async fn find_alias(&self, username: &str, domain: &str) -> Result<Option<String>, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query("SELECT subscriber FROM alias WHERE username = $1 AND domain = $2")
            .bind(username)
            .bind(domain);
        let row = within(query.fetch_optional(&mut *lease)).await;
        let text = lease
            .end(row)
            .map_err(fault)?
            .map(|row| row.text(0).map(str::to_owned));
        text.transpose().map_err(fault)
    }

    async fn aliases(&self, after: (&str, &str), limit: u32) -> Result<Vec<Alias>, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query(
            "SELECT username, domain, subscriber FROM alias WHERE (username, domain) > ($1, $2) ORDER BY username, domain LIMIT $3",
        )
        .bind(after.0)
        .bind(after.1)
        .bind(i64::from(limit));
        let rows = within(query.fetch_all(&mut *lease)).await;
        let rows = lease.end(rows).map_err(fault)?;
        rows.iter().map(|row| alias(row).map_err(fault)).collect()
    }

    async fn set_forwarding(
        &self,
        username: &str,
        domain: &str,
        forwarding: &Forwarding,
    ) -> Result<bool, Fault> {
        let mut lease = self.lease().await?;
        let set = within(replace_forwarding(
            &mut lease,
            (username, domain),
            forwarding,
        ))
        .await;
        lease.end(set).map_err(fault)
    }

    async fn find_forwarding(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Option<Forwarding>, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query(
            "SELECT always, busy, no_answer, no_answer_seconds, not_registered FROM forwarding WHERE username = $1 AND domain = $2",
        )
        .bind(username)
        .bind(domain);
        let row = within(query.fetch_optional(&mut *lease)).await;
        let row = lease.end(row).map_err(fault)?;
        row.map(|row| forwarding(&row, 0).map_err(fault))
            .transpose()
    }

    async fn forwardings(
        &self,
        after: (&str, &str),
        limit: u32,
    ) -> Result<Vec<SubscriberForwarding>, Fault> {
        let mut lease = self.lease().await?;
        let query = sqlx::query(
            "SELECT username, domain, always, busy, no_answer, no_answer_seconds, not_registered FROM forwarding \
             WHERE (username, domain) > ($1, $2) ORDER BY username, domain LIMIT $3",
        )
        .bind(after.0)
        .bind(after.1)
        .bind(i64::from(limit));
        let rows = within(query.fetch_all(&mut *lease)).await;
        let rows = lease.end(rows).map_err(fault)?;
        let read = |row| subscriber_forwarding(row).map_err(fault);
        rows.iter().map(read).collect()
    }
}

async fn upsert_aliases(connection: &mut PgConnection, batch: &[Alias]) -> Result<(), sqlx::Error> {
    let mut change = Change::begin(connection).await?;
    for alias in batch {
        sqlx::query(
            "INSERT INTO alias (username, domain, subscriber) VALUES ($1, $2, $3) \
             ON CONFLICT (username, domain) DO UPDATE SET subscriber = excluded.subscriber",
        )
        .bind(&alias.username)
        .bind(&alias.domain)
        .bind(&alias.subscriber)
        .execute(&mut *change.transaction)
        .await?;
    }
    let names = batch.iter().map(|it| (&*it.username, &*it.domain));
    let names: Vec<(&str, &str)> = names.collect();
    change.commit(&names, Registrations::Keep).await
}

async fn delete_alias(
    connection: &mut PgConnection,
    username: &str,
    domain: &str,
) -> Result<bool, sqlx::Error> {
    let mut change = Change::begin(connection).await?;
    let removed = sqlx::query("DELETE FROM alias WHERE username = $1 AND domain = $2")
        .bind(username)
        .bind(domain)
        .execute(&mut *change.transaction)
        .await?;
    let rows = removed.rows_affected();
    change
        .commit_one(rows, (username, domain), Registrations::Keep)
        .await
}

async fn replace_forwarding(
    connection: &mut PgConnection,
    (username, domain): (&str, &str),
    forwarding: &Forwarding,
) -> Result<bool, sqlx::Error> {
    let mut change = Change::begin(connection).await?;
    let removed = sqlx::query("DELETE FROM forwarding WHERE username = $1 AND domain = $2")
        .bind(username)
        .bind(domain)
        .execute(&mut *change.transaction)
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
        .execute(&mut *change.transaction)
        .await?;
        rows += added.rows_affected();
    }
    change
        .commit_one(rows, (username, domain), Registrations::Keep)
        .await
}
