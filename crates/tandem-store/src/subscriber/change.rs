//! The changes since a server last looked.

use super::{Registrations, Subscribers};
use crate::StoreError;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// How many changes are remembered by name. A server that is further behind drops its whole cache.
const REMEMBERED: i64 = 100_000;
/// Names recorded per statement. One statement with many rows costs less than many statements.
const ROWS_PER_STATEMENT: usize = 250;

/// Which subscribers changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// These (username, domain) were added, removed, or got another password. The oldest change comes first; a name may
    /// appear twice.
    Named(Vec<(String, String)>),
    /// More changes than are remembered: any cached entry may be wrong.
    Anything,
}

/// The changes since a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberChanges {
    /// The current version, for the next call of [`Subscribers::changes_since`].
    pub version: u64,
    /// The changes up to that version.
    pub changed: Changed,
}

impl Subscribers<'_> {
    /// The version, which counts the changes of subscribers by all processes. One cheap read, meant to be polled about
    /// every second.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn version(&self) -> Result<u64, StoreError> {
        let version: i64 =
            sqlx::query_scalar("SELECT version FROM subscriber_version WHERE id = 1")
                .fetch_one(self.store.pool())
                .await
                .map_err(|error| self.store.failed("look for changed subscribers", &error))?;
        Ok(version.cast_unsigned())
    }

    /// The subscribers that changed after `version`, a result of [`Subscribers::version`] or of an earlier call.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn changes_since(&self, version: u64) -> Result<SubscriberChanges, StoreError> {
        const DOING: &str = "look for changed subscribers";
        let failed = |error| self.store.failed(DOING, &error);
        let now = self.version().await?;
        let Some(expected) = now.checked_sub(version) else {
            // The counter went back: this is another database, or a restored backup.
            return Ok(SubscriberChanges {
                version: now,
                changed: Changed::Anything,
            });
        };
        if expected == 0 {
            return Ok(SubscriberChanges {
                version: now,
                changed: Changed::Named(Vec::new()),
            });
        }
        let rows = sqlx::query(
            "SELECT username, domain FROM subscriber_change WHERE version > $1 AND version <= $2 ORDER BY version",
        )
        .bind(version.cast_signed())
        .bind(now.cast_signed())
        .fetch_all(self.store.pool())
        .await
        .map_err(failed)?;
        // If there were more changes than are remembered, the oldest are missing.
        let changed = if rows.len() as u64 == expected {
            let name = |row: &sqlx::sqlite::SqliteRow| Ok((row.try_get(0)?, row.try_get(1)?));
            Changed::Named(
                rows.iter()
                    .map(name)
                    .collect::<Result<_, _>>()
                    .map_err(failed)?,
            )
        } else {
            Changed::Anything
        };
        Ok(SubscriberChanges {
            version: now,
            changed,
        })
    }

    /// The subscribers (username, domain) whose registrations were ended after version `after`, up to and including
    /// version `last`.
    ///
    /// # Errors
    /// Any error of the database.
    pub async fn registrations_ended(
        &self,
        after: u64,
        last: u64,
    ) -> Result<Vec<(String, String)>, StoreError> {
        sqlx::query_as(
            "SELECT username, domain FROM subscriber_change \
             WHERE version > $1 AND version <= $2 AND ends_registrations = 1 ORDER BY version",
        )
        .bind(after.cast_signed())
        .bind(last.cast_signed())
        .fetch_all(self.store.pool())
        .await
        .map_err(|error| self.store.failed("look for ended registrations", &error))
    }

    /// Records the changes (username, domain) that `transaction` makes, and commits it.
    pub(super) async fn record_and_commit(
        &self,
        mut transaction: Transaction<'static, Sqlite>,
        changed: &[(&str, &str)],
        doing: &'static str,
    ) -> Result<(), StoreError> {
        self.record(&mut transaction, changed, Registrations::Keep, doing)
            .await?;
        let committed = transaction.commit().await;
        committed.map_err(|error| self.store.failed(doing, &error))
    }

    /// Records the changes (username, domain) that `transaction` makes.
    pub(super) async fn record(
        &self,
        transaction: &mut Transaction<'static, Sqlite>,
        changed: &[(&str, &str)],
        registrations: Registrations,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        let failed = |error| self.store.failed(doing, &error);
        let count = i64::try_from(changed.len()).unwrap_or(i64::MAX);
        // This update locks the row, so versions become visible in the order of their numbers.
        let last: i64 = sqlx::query_scalar(
            "UPDATE subscriber_version SET version = version + $1 WHERE id = 1 RETURNING version",
        )
        .bind(count)
        .fetch_one(&mut **transaction)
        .await
        .map_err(failed)?;
        let mut version = last - count;
        for names in changed.chunks(ROWS_PER_STATEMENT) {
            let mut insert = QueryBuilder::<Sqlite>::new(
                "INSERT INTO subscriber_change (version, username, domain, ends_registrations) ",
            );
            insert.push_values(names, |mut row, (username, domain)| {
                version += 1;
                row.push_bind(version)
                    .push_bind(*username)
                    .push_bind(*domain)
                    .push_bind(registrations == Registrations::End);
            });
            insert
                .build()
                .execute(&mut **transaction)
                .await
                .map_err(failed)?;
        }
        sqlx::query("DELETE FROM subscriber_change WHERE version <= $1")
            .bind(last - REMEMBERED)
            .execute(&mut **transaction)
            .await
            .map_err(failed)?;
        Ok(())
    }
}
